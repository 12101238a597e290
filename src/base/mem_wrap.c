/* Debug builds link with -Wl,--wrap=malloc (and calloc, realloc): a call from our own objects or
 * from a static library on a thread that has promised not to allocate aborts here.  libc's own
 * calls are not seen, which is what we want. */
#ifdef GP_DEBUG

#include <stddef.h>

#include "base/assert.h"
#include "base/mem.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    gp_assert(!gp_mem_frozen());
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    gp_assert(!gp_mem_frozen());
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    gp_assert(!gp_mem_frozen());
    return __real_realloc(block, bytes);
}

#endif
