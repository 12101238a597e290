/* The vocabulary of a GGUF: its tokenizer.ggml keys, checked, as a tokenizer. */
#ifndef GP_MODEL_VOCAB_H
#define GP_MODEL_VOCAB_H

#include "model/gguf.h"
#include "text/tokenizer.h"

/* Refuses, naming the key, what is missing or does not fit together.  The result does not depend on
 * the file any more.  override_pre: see struct gp_vocab. */
int gp_vocab_open(struct gp_tokenizer **out, const struct gp_gguf *gguf, bool override_pre,
                  struct gp_error *err);

#endif
