/* The vocabulary of a made model; part of the model maker. */
#ifndef GP_TESTS_MODEL_MODEL_TOKENS_H
#define GP_TESTS_MODEL_MODEL_TOKENS_H

#include "model/model_maker.h"

/* Add the tokenizer's keys: three control tokens, the 256 bytes, the caller's tokens, and, to
 * fill the vocabulary, merges of letters (for a metronome: unused tokens). */
int test_model_add_tokens(const struct test_model *m, struct gp_gguf_writer *w,
                          struct gp_error *err);

#endif
