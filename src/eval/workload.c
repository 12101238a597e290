#include "eval/workload.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/rng.h"

/* Streams of their own, so that one draw says nothing about another. */
#define STREAM_PROMPT  0x70726f6d70746c6eu
#define STREAM_OUTPUT  0x6f75747075746c6eu
#define STREAM_ARRIVAL 0x6172726976616c73u
#define STREAM_TOKENS  0x746f6b656e696473u

#define TAU 6.283185307179586

/* ---- words ---- */

/* A number from *text on, which moves behind it and behind a colon. */
static bool read_number(const char **text, double *out)
{
    char number[32], *end;
    size_t length = strcspn(*text, ":");

    /* Decimal numbers only: strtod would also take blanks, "inf", "nan" and "0x1p3". */
    if (length == 0 || length >= sizeof number || strspn(*text, "0123456789.eE+-") < length)
        return false;
    memcpy(number, *text, length);
    number[length] = 0;
    *out = strtod(number, &end);
    if (*end || !isfinite(*out))
        return false;
    *text += length + ((*text)[length] == ':');
    return true;
}

static bool read_count(const char **text, double *out)
{
    return read_number(text, out) && *out == floor(*out) && *out >= 1 && *out <= GP_LIMIT_CONTEXT;
}

/* The name's numbers, if text begins with it. */
static const char *behind(const char *text, const char *name)
{
    size_t length = strlen(name);

    return strncmp(text, name, length) == 0 && text[length] == ':' ? text + length + 1 : NULL;
}

int gp_length_parse(const char *text, struct gp_length *out, struct gp_error *err)
{
    struct gp_length length = {.kind = GP_LENGTH_FIXED, .max = GP_LIMIT_CONTEXT};
    const char *at = text, *numbers;
    double max = GP_LIMIT_CONTEXT;
    bool good;

    /* A colon at the very end would have no number behind it. */
    if (*text && text[strlen(text) - 1] == ':') {
        good = false;
    } else if ((numbers = behind(text, "uniform"))) {
        length.kind = GP_LENGTH_UNIFORM;
        good = read_count(&numbers, &length.a) && read_count(&numbers, &length.b) && !*numbers &&
               length.a <= length.b;
    } else if ((numbers = behind(text, "lognormal"))) {
        length.kind = GP_LENGTH_LOGNORMAL;
        good = read_number(&numbers, &length.a) && read_number(&numbers, &length.b) &&
               length.b >= 0 && (!*numbers || (read_count(&numbers, &max) && !*numbers));
    } else {
        good = read_count(&at, &length.a) && !*at;
    }
    if (!good)
        return gp_fail(err, GP_EINVAL,
                       "%.60s: must be a number, uniform:LOW:HIGH or lognormal:MU:SIGMA[:MAX], "
                       "of 1 to %u tokens",
                       text, GP_LIMIT_CONTEXT);
    length.max = (uint32_t)max;
    *out = length;
    return GP_OK;
}

void gp_length_format(const struct gp_length *length, char out[GP_LENGTH_TEXT_BYTES])
{
    int at;

    switch (length->kind) {
    case GP_LENGTH_FIXED:
        snprintf(out, GP_LENGTH_TEXT_BYTES, "%.0f", length->a);
        return;
    case GP_LENGTH_UNIFORM:
        snprintf(out, GP_LENGTH_TEXT_BYTES, "uniform:%.0f:%.0f", length->a, length->b);
        return;
    case GP_LENGTH_LOGNORMAL:
        at = snprintf(out, GP_LENGTH_TEXT_BYTES, "lognormal:%.10g:%.10g", length->a, length->b);
        if (length->max < GP_LIMIT_CONTEXT)
            snprintf(out + at, GP_LENGTH_TEXT_BYTES - (size_t)at, ":%u", length->max);
        return;
    }
}

/* ---- draws ---- */

static double draw_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    double u = 1 - gp_rng_uniform_at(seed, stream, 2 * index); /* never 0 */

    return sqrt(-2 * log(u)) * cos(TAU * gp_rng_uniform_at(seed, stream, 2 * index + 1));
}

static uint32_t draw_length(const struct gp_length *length, uint64_t seed, uint64_t stream,
                            uint64_t index)
{
    double tokens = length->a;

    if (length->kind == GP_LENGTH_UNIFORM)
        tokens += floor((length->b - length->a + 1) * gp_rng_uniform_at(seed, stream, index));
    if (length->kind == GP_LENGTH_LOGNORMAL)
        tokens = round(exp(length->a + length->b * draw_normal(seed, stream, index)));
    return (uint32_t)fmin(fmax(tokens, 1), length->max);
}

struct gp_work gp_workload_at(const struct gp_workload *workload, uint32_t index)
{
    return (struct gp_work){
        .prompt_tokens = draw_length(&workload->prompt, workload->seed, STREAM_PROMPT, index),
        .output_tokens = draw_length(&workload->output, workload->seed, STREAM_OUTPUT, index),
    };
}

double gp_workload_wait_seconds(const struct gp_workload *workload, uint32_t index)
{
    if (workload->rate <= 0)
        return 0;
    return -log(1 - gp_rng_uniform_at(workload->seed, STREAM_ARRIVAL, index)) / workload->rate;
}

void gp_workload_tokens(uint64_t seed, uint64_t sequence, uint32_t vocab, int32_t *ids,
                        uint32_t count)
{
    uint32_t drawn[4];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t counter[4] = {i / 4, (uint32_t)STREAM_TOKENS, (uint32_t)sequence,
                               (uint32_t)(sequence >> 32)};

        if (i % 4 == 0)
            gp_philox(seed, counter, drawn);
        ids[i] = (int32_t)((uint64_t)drawn[i % 4] * vocab >> 32);
    }
}
