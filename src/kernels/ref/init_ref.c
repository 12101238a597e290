/* The table of definitions. */
#include "kernels/internal.h"
#include "kernels/ref/ref.h"

void gp_kernels_init_ref(struct gp_kernels *k)
{
    rows_init_ref(k);
    matmul_init_ref(k);
    attention_init_ref(k);
}
