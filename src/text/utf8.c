#include "text/utf8.h"

/* The bytes that may follow a lead byte: the second one's range depends on the lead (no overlong
 * forms, no surrogates, nothing past U+10FFFF), the others are 80..BF.  Returns 0 for a byte that
 * leads nothing. */
static int want(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0)
            *low = 0xa0;
        if (lead == 0xed)
            *high = 0x9f;
        return 3;
    }
    if (lead < 0xf5) {
        if (lead == 0xf0)
            *low = 0x90;
        if (lead == 0xf4)
            *high = 0x8f;
        return 4;
    }
    return 0;
}

int gp_utf8_scan(const unsigned char *bytes, size_t length)
{
    unsigned char low, high;
    int n = want(bytes[0], &low, &high);

    if (n == 0)
        return -1;
    for (int i = 1; i < n; i++) {
        if ((size_t)i == length)
            return 0;
        if (bytes[i] < low || bytes[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

uint32_t gp_utf8_decode(const unsigned char *bytes, int n)
{
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = bytes[0] & lead_mask[n];

    for (int i = 1; i < n; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}
