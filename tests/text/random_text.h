/* Random Unicode text.  tools/oracle/smollm2_tokens.py has the same generator. */
#ifndef GP_TESTS_TEXT_RANDOM_TEXT_H
#define GP_TESTS_TEXT_RANDOM_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEST_RANDOM_TEXT_BYTES 8192u

/* Text number index; returns its length in bytes.  Valid UTF-8. */
size_t test_random_text(uint64_t index, char out[TEST_RANDOM_TEXT_BYTES]);

#define TEST_FNV1A_START 0xcbf29ce484222325u

uint64_t test_fnv1a(uint64_t hash, const void *bytes, size_t length);

#endif
