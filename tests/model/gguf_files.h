/* Files for the tests of this room: temporary ones, and a GGUF with something of everything.
 * What goes wrong in here fails the running test. */
#ifndef GP_TESTS_MODEL_GGUF_FILES_H
#define GP_TESTS_MODEL_GGUF_FILES_H

#include "model/gguf_bytes.h"

void test_temporary_folder(char *path, size_t path_bytes);
void test_file_path(char *path, size_t path_bytes, const char *folder, const char *name);
void test_write_bytes(const char *path, const void *bytes, size_t length);
size_t test_read_bytes(const char *path, void *bytes, size_t room);

/* Open what f holds, from a copy (free()) that lives as long as the result, and walk over it. */
struct gp_gguf *test_gguf_open(const struct test_gguf *f, void **copy);

/* A file with every kind of value and of tensor shape: 8 keys, 4 tensors.  NULL: no memory. */
struct gp_gguf_writer *test_gguf_varied_writer(void);
void test_gguf_varied(struct test_gguf *f);

#endif
