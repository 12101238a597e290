/* make_model: GGUF files with random weights, or metronomes, for tests and benches. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/model_maker.h"

#define TOKENS_MAX 256u

static const char help[] =
    "Usage: make_model [OPTION]... -o FILE\n"
    "Write a GGUF model with random weights, or one that spells a text.\n"
    "\n"
    "Shape (a later option changes what an earlier one set; default: --shape tiny):\n"
    "  --shape NAME         tiny, smollm2-135m, qwen3-0.6b or llama-8b\n"
    "  --arch NAME          llama, qwen2 (sets --bias) or qwen3\n"
    "  --layers N --embd N --heads N --kv-heads N --head-dim N --ffn N --vocab N --context N\n"
    "  --v-dim N            elements of a value, where they are not those of a key\n"
    "  --rope-base F --eps F\n"
    "  --tied, --untied     the output matrix is the embedding, or its own\n"
    "  --bias, --no-bias    on queries, keys and values (llama: on the attention's output too)\n"
    "  --rope-factors       Llama 3's, as the tensor rope_freqs.weight (llama)\n"
    "\n"
    "Weights:\n"
    "  --type NAME          of the matrices: f32 (default) f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1\n"
    "                       iq4_nl q4_k q5_k q6_k; rows that are no whole blocks become q5_0\n"
    "                       (q4_k), q5_1 (q5_k), q8_0 (q6_k) or f16\n"
    "  --seed N             the same seed gives the same floats, whatever the type (default 1)\n"
    "  --threads N          (default: all processors; the file does not depend on it)\n"
    "\n"
    "Tokens: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, 3 to 258 the bytes, then those of\n"
    "--control and --token in order, then merges of letters.  The chat template is ChatML.\n"
    "  --control TEXT       one more control token\n"
    "  --token TEXT         one more token that is recognised in any text (type 4), as <think>\n"
    "  --eos TEXT           the end token, if not <|im_end|>\n"
    "  --pre NAME           the pre-tokenizer (default: smollm for llama, else qwen2)\n"
    "\n"
    "Metronomes: one block of zeros, one-hot embeddings as wide as the vocabulary, and an output\n"
    "matrix that makes the next token a function of the last one.  The vocabulary has no merges.\n"
    "  --spell TEXT         any prompt is answered with TEXT and then the end token.  TEXT is cut\n"
    "                       into pieces of two or more bytes that are all different; special\n"
    "                       tokens in it are themselves.  \\n \\t \\\\ \\xHH are bytes; \\| cuts: "
    "with\n"
    "                       one in it, TEXT is cut there and nowhere else, so that\n"
    "                       'half \\xF0\\x9F\\|\\x98\\x80 emoji' streams half a character\n"
    "  --loop               begin again instead of ending\n"
    "  --next A,B,C...      token 0 is followed by A, 1 by B, and so on; tokens past the list by\n"
    "                       themselves.  --vocab counts (default 288)\n"
    "\n"
    "  -o FILE              the file to write (through a temporary file beside it)\n"
    "  --help\n";

enum {
    OPT_SHAPE = 256,
    OPT_ARCH,
    OPT_NUMBER, /* + index into numbers below */
    OPT_FLOAT = OPT_NUMBER + 16,
    OPT_TIED = OPT_FLOAT + 2,
    OPT_UNTIED,
    OPT_BIAS,
    OPT_NO_BIAS,
    OPT_ROPE_FACTORS,
    OPT_TYPE,
    OPT_SEED,
    OPT_CONTROL,
    OPT_TOKEN,
    OPT_EOS,
    OPT_PRE,
    OPT_SPELL,
    OPT_LOOP,
    OPT_NEXT,
    OPT_HELP,
};

static const struct option options[] = {
    {"shape", required_argument, NULL, OPT_SHAPE},
    {"arch", required_argument, NULL, OPT_ARCH},
    {"layers", required_argument, NULL, OPT_NUMBER + 0},
    {"embd", required_argument, NULL, OPT_NUMBER + 1},
    {"heads", required_argument, NULL, OPT_NUMBER + 2},
    {"kv-heads", required_argument, NULL, OPT_NUMBER + 3},
    {"head-dim", required_argument, NULL, OPT_NUMBER + 4},
    {"v-dim", required_argument, NULL, OPT_NUMBER + 5},
    {"ffn", required_argument, NULL, OPT_NUMBER + 6},
    {"vocab", required_argument, NULL, OPT_NUMBER + 7},
    {"context", required_argument, NULL, OPT_NUMBER + 8},
    {"threads", required_argument, NULL, OPT_NUMBER + 9},
    {"rope-base", required_argument, NULL, OPT_FLOAT + 0},
    {"eps", required_argument, NULL, OPT_FLOAT + 1},
    {"tied", no_argument, NULL, OPT_TIED},
    {"untied", no_argument, NULL, OPT_UNTIED},
    {"bias", no_argument, NULL, OPT_BIAS},
    {"no-bias", no_argument, NULL, OPT_NO_BIAS},
    {"rope-factors", no_argument, NULL, OPT_ROPE_FACTORS},
    {"type", required_argument, NULL, OPT_TYPE},
    {"seed", required_argument, NULL, OPT_SEED},
    {"control", required_argument, NULL, OPT_CONTROL},
    {"token", required_argument, NULL, OPT_TOKEN},
    {"eos", required_argument, NULL, OPT_EOS},
    {"pre", required_argument, NULL, OPT_PRE},
    {"spell", required_argument, NULL, OPT_SPELL},
    {"loop", no_argument, NULL, OPT_LOOP},
    {"next", required_argument, NULL, OPT_NEXT},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

struct arguments {
    struct test_model model;
    struct test_token tokens[TOKENS_MAX];
    uint32_t token_count;
    const char *eos;
    const char *spell;
    const char *next;
    bool vocab_given;
    bool loop;
    const char *output;
};

_Noreturn static void usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn static void usage(const char *format, ...)
{
    va_list args;

    fputs("make_model: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nTry 'make_model --help'.\n", stderr);
    exit(2);
}

static uint64_t parse_number(const char *text, uint64_t max, const char **rest)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *text < '0' || *text > '9' || errno != 0 || value > max ||
        (!rest && *end != '\0'))
        usage("%s: not a number, or too large", text);
    if (rest)
        *rest = end;
    return value;
}

static float parse_float(const char *text)
{
    char *end;
    float value = strtof(text, &end);

    if (end == text || *end != '\0' || !(value > 0.0f))
        usage("%s: not a positive number", text);
    return value;
}

static enum gp_type parse_type(const char *text)
{
    for (uint32_t type = 0; type < 256; type++)
        if (gp_type_info(type) && strcasecmp(gp_type_info(type)->name, text) == 0)
            return (enum gp_type)type;
    usage("%s: unknown type", text);
}

static uint32_t *number_of(struct test_model *m, int option)
{
    uint32_t *const numbers[] = {&m->layers, &m->embd, &m->heads, &m->kv_heads, &m->head_dim,
                                 &m->v_dim,  &m->ffn,  &m->vocab, &m->context,  &m->threads};

    return numbers[option - OPT_NUMBER];
}

static void add_token(struct arguments *a, const char *text, int32_t type)
{
    if (*text == '\0' || a->token_count == TOKENS_MAX)
        usage("%s: an empty token, or one too many", text);
    a->tokens[a->token_count++] = (struct test_token){{text, strlen(text)}, type};
}

static void set_arch(struct test_model *m, const char *name)
{
    m->arch = name;
    m->bias = strcmp(name, "qwen2") == 0;
}

static void read_option(struct arguments *a, int option, const char *value)
{
    struct test_model *m = &a->model;

    if (option >= OPT_NUMBER && option < OPT_FLOAT) {
        *number_of(m, option) = (uint32_t)parse_number(value, UINT32_MAX, NULL);
        a->vocab_given = a->vocab_given || number_of(m, option) == &m->vocab;
        return;
    }
    switch (option) {
    case OPT_SHAPE:
        if (!test_model_shape(m, value))
            usage("%s: unknown shape", value);
        break;
    case OPT_ARCH:
        set_arch(m, value);
        break;
    case OPT_FLOAT:
        m->rope_base = parse_float(value);
        break;
    case OPT_FLOAT + 1:
        m->rms_eps = parse_float(value);
        break;
    case OPT_TIED:
    case OPT_UNTIED:
        m->tied = option == OPT_TIED;
        break;
    case OPT_BIAS:
    case OPT_NO_BIAS:
        m->bias = option == OPT_BIAS;
        break;
    case OPT_ROPE_FACTORS:
        m->rope_factors = true;
        break;
    case OPT_TYPE:
        m->type = parse_type(value);
        break;
    case OPT_SEED:
        m->seed = parse_number(value, UINT64_MAX, NULL);
        break;
    case OPT_CONTROL:
        add_token(a, value, 3);
        break;
    case OPT_TOKEN:
        add_token(a, value, 4);
        break;
    case OPT_EOS:
        a->eos = value;
        break;
    case OPT_PRE:
        m->pre = value;
        break;
    case OPT_SPELL:
        a->spell = value;
        break;
    case OPT_LOOP:
        a->loop = true;
        break;
    case OPT_NEXT:
        a->next = value;
        break;
    case OPT_HELP:
        fputs(help, stdout);
        exit(0);
    case 'o':
        a->output = value;
        break;
    default:
        usage("see above");
    }
}

static uint32_t find_eos(const struct arguments *a)
{
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

    for (uint32_t i = 0; i < TEST_TOKEN_BYTE; i++)
        if (strcmp(a->eos, control[i]) == 0)
            return i;
    for (uint32_t i = 0; i < a->token_count; i++)
        if (strcmp(a->eos, a->tokens[i].text.bytes) == 0)
            return TEST_TOKENS_MIN + i;
    usage("--eos %s: no such token; name it with --control first", a->eos);
}

static uint32_t *parse_next(struct test_model *m, const char *list)
{
    uint32_t *next = gp_mem_alloc_array(m->vocab, sizeof *next);

    if (!next)
        usage("no memory for a vocabulary of %u", m->vocab);
    for (uint32_t i = 0; i < m->vocab; i++)
        next[i] = i;
    for (uint32_t i = 0; *list != '\0'; i++) {
        if (i == m->vocab)
            usage("--next: more than %u numbers", m->vocab);
        next[i] = (uint32_t)parse_number(list, m->vocab - 1, &list);
        if (*list != ',' && *list != '\0')
            usage("--next: \"%.10s\" where a comma was expected", list);
        list += *list == ',';
    }
    return next;
}

static int make(struct arguments *a, struct gp_error *err)
{
    struct test_model *m = &a->model;
    struct test_script script = {0};
    uint32_t *next = NULL;
    int rc = GP_OK;

    m->tokens = a->tokens;
    m->token_count = a->token_count;
    if (a->eos)
        m->eos = find_eos(a);
    if (a->spell) {
        rc = test_script_open(&script, a->spell, a->tokens, a->token_count, m->eos, a->loop, err);
        if (rc == GP_OK)
            test_model_speak(m, &script);
    } else if (a->next) {
        if (!a->vocab_given)
            m->vocab = 288;
        m->embd = m->vocab;
        m->layers = 1;
        m->next = next = parse_next(m, a->next);
    }
    if (rc == GP_OK)
        rc = test_model_write(m, a->output, err);
    test_script_close(&script);
    gp_mem_free(next);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    struct gp_error err = {""};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int option;

    test_model_init(&a.model);
    a.model.threads = processors > 0 && processors <= 256 ? (uint32_t)processors : 1;
    while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1)
        read_option(&a, option, optarg);
    if (optind < argc)
        usage("%s: unexpected", argv[optind]);
    if (!a.output)
        usage("-o FILE is missing");
    if (a.spell && a.next)
        usage("--spell and --next exclude each other");
    if (make(&a, &err) != GP_OK) {
        fprintf(stderr, "make_model: %s\n", err.message);
        return 1;
    }
    return 0;
}
