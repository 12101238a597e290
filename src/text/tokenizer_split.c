/* Pre-tokenizers.  A merge never crosses a word's border, so these patterns are as much a part of a
 * vocabulary as its merges.  Facts from the published tokenizer.json files and from llama.cpp's
 * src/llama-vocab.cpp.
 *
 * \s is spelled out: PCRE2's counts U+180E in, which Unicode took out of White_Space in 6.3. */
#include "text/tokenizer_internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define S                                                                                          \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"       \
    "\\x{3000}"
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES       "[" S "]+(?![^" S "])|[" S "]+"

#define GPT2 CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^" S "\\p{L}\\p{N}]+|" SPACES

/* The same pattern with digits in groups of one or of three. */
#define MODERN(digits)                                                                             \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" S                        \
    "\\p{L}\\p{N}]+[\\r\\n]*|[" S "]*[\\r\\n]+|" SPACES

static const char *const gpt2[] = {GPT2, NULL};
static const char *const llama3[] = {MODERN("\\p{N}{1,3}"), NULL};
static const char *const qwen2[] = {MODERN("\\p{N}"), NULL};
static const char *const smollm[] = {"\\p{N}", GPT2, NULL};
static const char *const fallback[] = {
    "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]", NULL,
};
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
static const char *const deepseek_coder[] = {
    "[\\r\\n]", "[" S "]?\\p{L}+", "[" S "]?\\p{P}+", CJK, "\\p{N}", NULL,
};

/* The letters of alphabets with case, as of the Unicode version the family was trained with. */
#define CASED                                                                                      \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* The family's own fourth pattern is \s+$; the look-behind changes nothing but the time a long run
 * of spaces in the middle takes. */
static const char *const deepseek_llm[] = {
    "[\\r\\n]",
    "[" S "]?[" CASED "]+",
    "[" S "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
    "\\x{3000}-\\x{3002}]+",
    "(?<![" S "])[" S "]+\\z",
    CJK,
    "\\p{N}+",
    NULL,
};

static const struct gp_pre families[] = {
    {.name = "default", .patterns = fallback},
    {.name = "llama-bpe", .patterns = llama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .patterns = llama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .patterns = llama3, .ignore_merges = true, .add_bos = true},
    {.name = "qwen2", .patterns = qwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .patterns = qwen2, .nfc = true},
    {.name = "smollm", .patterns = smollm},
    {.name = "gpt-2", .patterns = gpt2},
    {.name = "deepseek-llm", .patterns = deepseek_llm},
    {.name = "deepseek-coder", .patterns = deepseek_coder},
};

const struct gp_pre *gp_pre_find(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}

static void *take_memory(size_t bytes, void *ctx)
{
    (void)ctx;
    return gp_mem_alloc(bytes);
}

static void give_memory(void *block, void *ctx)
{
    (void)ctx;
    gp_mem_free(block);
}

int gp_splitter_open(struct gp_splitter *s, const struct gp_pre *pre, struct gp_error *err)
{
    s->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (!s->memory)
        return gp_fail(err, GP_ENOMEM, "tokenizer: out of memory");
    s->limits = pcre2_match_context_create(s->memory);
    pcre2_compile_context *compile = pcre2_compile_context_create(s->memory);
    int rc = s->limits && compile ? GP_OK : GP_ENOMEM;

    /* Every pattern here needs time linear in the text, so a limit could only break long texts. */
    if (rc == GP_OK) {
        pcre2_set_match_limit(s->limits, UINT32_MAX);
        pcre2_set_depth_limit(s->limits, UINT32_MAX);
        pcre2_set_heap_limit(s->limits, UINT32_MAX);
    }
    for (unsigned i = 0; rc == GP_OK && pre->patterns[i]; i++) {
        int code = 0;
        PCRE2_SIZE at = 0;

        gp_assert(i < GP_PRE_PATTERNS);
        s->patterns[i] = pcre2_compile((PCRE2_SPTR)pre->patterns[i], PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &code, &at, compile);
        if (!s->patterns[i]) {
            gp_assert(code == PCRE2_ERROR_HEAP_FAILED);
            rc = GP_ENOMEM;
            break;
        }
        /* Where there is no JIT, or no memory that may be executed, matching is interpreted. */
        pcre2_jit_compile(s->patterns[i], PCRE2_JIT_COMPLETE);
    }
    pcre2_compile_context_free(compile);
    return rc == GP_OK ? GP_OK : gp_fail(err, rc, "tokenizer: out of memory");
}

void gp_splitter_close(struct gp_splitter *s)
{
    for (unsigned i = 0; i < GP_PRE_PATTERNS; i++)
        pcre2_code_free(s->patterns[i]);
    pcre2_match_context_free(s->limits);
    pcre2_general_context_free(s->memory);
}

pcre2_match_data *gp_splitter_match(const struct gp_splitter *s)
{
    return pcre2_match_data_create(1, s->memory);
}

/* Cut [begin, end) with the patterns from index on. */
static int cut(const struct gp_split *split, unsigned index, size_t begin, size_t end)
{
    const pcre2_code *pattern = split->splitter->patterns[index];

    if (!pattern)
        return split->word(split->ctx, begin, end);
    for (size_t at = begin; at < end;) {
        int found = pcre2_match(pattern, (PCRE2_SPTR)split->text + begin, end - begin, at - begin,
                                PCRE2_NO_UTF_CHECK, split->match, split->splitter->limits);

        if (found == PCRE2_ERROR_NOMATCH)
            return cut(split, index + 1, at, end);
        if (found < 0)
            return gp_fail(split->err, found == PCRE2_ERROR_NOMEMORY ? GP_ENOMEM : GP_EINVAL,
                           "tokenizer: pattern %u: PCRE2 error %d", index, found);
        const PCRE2_SIZE *match = pcre2_get_ovector_pointer(split->match);
        size_t from = begin + match[0], to = begin + match[1];
        int rc = from > at ? cut(split, index + 1, at, from) : GP_OK;

        gp_assert(to > from);
        if (rc == GP_OK)
            rc = cut(split, index + 1, from, to);
        if (rc != GP_OK)
            return rc;
        at = to;
    }
    return GP_OK;
}

int gp_split_run(const struct gp_split *split, size_t length)
{
    return length > 0 ? cut(split, 0, 0, length) : GP_OK;
}
