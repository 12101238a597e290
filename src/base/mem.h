/* Memory: all that the library takes from the heap passes through here, so that it can be counted,
 * refused on purpose, and forbidden after start.
 *
 * Thread-safe.  Blocks are zeroed and 64-byte aligned.  The engine's thread calls gp_mem_freeze()
 * once it has started; from then on an allocation on that thread is a programming error and aborts.
 * Libraries that bring their own malloc (HTTP, JSON, regular expressions) are not seen here; debug
 * builds catch them on a frozen thread by wrapping malloc (see mem_wrap.c). */
#ifndef GP_BASE_MEM_H
#define GP_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when the system refuses, when the test hook says so, or when count * size overflows.
 * A size of 0 gives a block of 1 byte. */
void *gp_mem_alloc(size_t bytes);
void *gp_mem_alloc_array(size_t count, size_t size);

/* As realloc, but the new part is zeroed and the old block stays valid on NULL.
 * old_bytes is what the block was allocated with. */
void *gp_mem_realloc(void *block, size_t old_bytes, size_t new_bytes);

/* A copy of length bytes with a zero byte behind. */
char *gp_mem_copy(const char *bytes, size_t length);

void gp_mem_free(void *block); /* NULL is fine */

/* Large blocks straight from the system (mmap), page aligned, zeroed, huge pages advised.  Given
 * back with the same byte count. */
void *gp_mem_map(size_t bytes);
void gp_mem_unmap(void *block, size_t bytes);

/* Blocks that are out now; a test compares before and after. */
uint64_t gp_mem_live(void);

/* Test hook: refuse the nth allocation from now (1 is the next one); 0 turns it off.
 * gp_mem_refused() says whether it happened. */
void gp_mem_refuse_at(uint64_t nth);
bool gp_mem_refused(void);

/* Per thread. */
void gp_mem_freeze(void);
void gp_mem_thaw(void);
bool gp_mem_frozen(void);

#endif
