/* The table of definitions. */
#include "kernels/internal.h"
#include "kernels/ref/ref.h"

void gp_kernels_init_ref(struct gp_kernels *k)
{
    gp_rows_init_ref(k);
    gp_matmul_init_ref(k);
    gp_attention_init_ref(k);
}
