/* UTF-8, one character at a time, as the Unicode standard's table 3-7 defines it. */
#ifndef GP_TEXT_UTF8_H
#define GP_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* What stands at the front of length >= 1 bytes:
 *   n > 0   a whole character of n bytes;
 *   0       the beginning of a character whose rest is missing;
 *   -n      n bytes that can never become a character (a maximal subpart: one U+FFFD stands
 *           for it). */
int gp_utf8_scan(const unsigned char *bytes, size_t length);

/* The code point of a character that gp_utf8_scan() found to be n bytes long. */
uint32_t gp_utf8_decode(const unsigned char *bytes, int n);

#endif
