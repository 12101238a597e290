/* Made models, opened, or changed on their way: copied without some keys and tensors, so that a
 * test can put its own in their place.  What goes wrong in here fails the running test. */
#ifndef GP_TESTS_MODEL_MODEL_EDIT_H
#define GP_TESTS_MODEL_MODEL_EDIT_H

#include "model/model_maker.h"

/* The model as a file that is open and already unlinked; gp_gguf_close(). */
struct gp_gguf *test_model_made(const struct test_model *m);

/* A writer that holds all of the model but the tokenizer and what `without` names (keys and
 * tensors, ends with NULL; may be NULL). */
struct gp_gguf_writer *test_model_edit(const struct test_model *m, const char *const *without);

/* What the writer holds, opened; closes the writer. */
struct gp_gguf *test_model_edited(struct gp_gguf_writer *w);

#endif
