#include "text/random_text.h"

#include "base/assert.h"
#include "base/rng.h"

#include <string.h>

struct range {
    uint32_t first, last;
};

/* Blocks that have been full, or were left alone, since before Unicode 14. */
static const struct range ranges[] = {
    {0x00A1, 0x00FF},   {0x0100, 0x024F},   {0x0300, 0x036F},   {0x03B1, 0x03C9},
    {0x0410, 0x044F},   {0x05D0, 0x05EA},   {0x0621, 0x064A},   {0x0660, 0x0669},
    {0x0905, 0x0939},   {0x093E, 0x094D},   {0x0E01, 0x0E3A},   {0x1100, 0x1112},
    {0x2010, 0x2027},   {0x2074, 0x2079},   {0x20A0, 0x20BF},   {0x2100, 0x214F},
    {0x2150, 0x218B},   {0x2190, 0x21FF},   {0x2200, 0x22FF},   {0x2460, 0x24FF},
    {0x2500, 0x257F},   {0x3001, 0x303F},   {0x3041, 0x3096},   {0x30A1, 0x30FA},
    {0x4E00, 0x9FA5},   {0xA000, 0xA48C},   {0xAC00, 0xD7A3},   {0xE000, 0xF8FF},
    {0xF900, 0xFA6D},   {0xFF01, 0xFF5E},   {0x10330, 0x1034A}, {0x1D400, 0x1D454},
    {0x1D7CE, 0x1D7FF}, {0x1F300, 0x1F64F}, {0x1F1E6, 0x1F1FF}, {0x20000, 0x2A6D6},
    {0x200B, 0x200F},   {0xFE00, 0xFE0F},   {0x0001, 0x0020},
};

static const char *const words[] = {
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u2028",
    "\xc2\x85",
    "\u180e",
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "'LL",
    "\u2019s",
    "'",
    "don't",
    " the",
    " and",
    "ing",
    " def ",
    "();",
    "{}",
    " == ",
    "->",
    "://",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_",
    "|>",
    "123",
    " 2024",
    "3.14",
    "0x1F",
    "\U0001f600",
    "e\u0301",
};

static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

struct output {
    struct gp_rng rng;
    char *bytes;
    size_t length;
};

/* Plain remainders, so that the other generator is easy to keep the same. */
static uint32_t below(struct output *o, uint32_t n)
{
    return (uint32_t)(gp_rng_next(&o->rng) % n);
}

static void put(struct output *o, const char *bytes, size_t length)
{
    gp_assert(o->length + length <= TEST_RANDOM_TEXT_BYTES);
    memcpy(o->bytes + o->length, bytes, length);
    o->length += length;
}

static void put_code(struct output *o, uint32_t code)
{
    char c[4];

    if (code < 0x80) {
        c[0] = (char)code;
        put(o, c, 1);
        return;
    }
    unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};

    c[0] = (char)(leads[more] | code >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        c[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    put(o, c, more + 1);
}

static void put_part(struct output *o)
{
    uint32_t kind = below(o, 8);

    if (kind <= 1) {
        uint32_t first = below(o, 4) == 0 ? 'A' : 'a';

        put_code(o, first + below(o, 26));
        for (uint32_t n = below(o, 8); n > 0; n--)
            put_code(o, 'a' + below(o, 26));
    } else if (kind == 2) {
        for (uint32_t n = 1 + below(o, 6); n > 0; n--)
            put_code(o, '0' + below(o, 10));
    } else if (kind == 3) {
        for (uint32_t n = 1 + below(o, 4); n > 0; n--)
            put(o, &punctuation[below(o, sizeof punctuation - 1)], 1);
    } else if (kind <= 5) {
        const char *word = words[below(o, sizeof words / sizeof *words)];

        put(o, word, strlen(word));
    } else {
        struct range r = ranges[below(o, sizeof ranges / sizeof *ranges)];

        for (uint32_t n = 1 + below(o, 4); n > 0; n--)
            put_code(o, r.first + below(o, r.last - r.first + 1));
    }
}

size_t test_random_text(uint64_t index, char out[TEST_RANDOM_TEXT_BYTES])
{
    struct output o = {{index}, out, 0};

    for (uint32_t n = below(&o, 40); n > 0; n--)
        put_part(&o);
    return o.length;
}

uint64_t test_fnv1a(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}
