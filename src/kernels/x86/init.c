/* The ladder: each level puts its entries over those of the level below. */
#include "kernels/internal.h"
#include "kernels/x86/x86.h"

void gp_kernels_init_avx2(struct gp_kernels *k)
{
    gp_rows_init_avx2(k);
    gp_quantize_init_avx2(k);
    gp_matmul_init_avx2(k);
    gp_attention_init_avx2(k);
    gp_slots_init_avx2(k);
}

/* What writes into the cache stays: it moves single elements, which wider registers do not help. */
void gp_kernels_init_avx512(struct gp_kernels *k)
{
    gp_rows_init_avx512(k);
    gp_quantize_init_avx512(k);
    gp_matmul_init_avx512(k);
    gp_attention_init_avx512(k);
}
