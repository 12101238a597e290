#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void gp_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "growpage: internal error: %s:%d: %s\n", file, line, expression);
    abort();
}
