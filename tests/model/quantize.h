/* Quantisers for tests and for tools/make_model: floats to the file bytes of every format.
 *
 * Plain and correct, with a short search for the scale; the engine itself never quantises
 * weights. */
#ifndef GP_TESTS_MODEL_QUANTIZE_H
#define GP_TESTS_MODEL_QUANTIZE_H

#include "kernels/kernels.h"

/* n elements, whole blocks of `type`; blocks receives n / block_elems * block_bytes bytes. */
void test_quantize(enum gp_type type, const float *x, size_t n, void *blocks);

#endif
