/* What a fuzz driver is: one function that takes any bytes and aborts when something is wrong. */
#ifndef GP_TESTS_FUZZ_FUZZ_H
#define GP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#endif
