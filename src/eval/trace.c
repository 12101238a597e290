#include "eval/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void gp_trace_begin(struct gp_trace *trace, uint64_t seed, double difficulty, enum gp_form form)
{
    *trace = (struct gp_trace){.rng = {seed}, .difficulty = difficulty, .form = form};
}

static bool reserve(struct gp_trace *trace, size_t more)
{
    if (trace->failed)
        return false;
    if (trace->length + more <= trace->capacity)
        return true;
    size_t capacity = 2 * (trace->length + more) + 1024;
    char *text = gp_mem_realloc(trace->text, trace->capacity, capacity);
    if (text)
        trace->text = text;
    uint32_t *reads =
        gp_mem_realloc(trace->last_read, trace->capacity * sizeof *reads, capacity * sizeof *reads);
    if (reads)
        trace->last_read = reads;
    /* Both blocks are at least as long as the smaller count says. */
    if (text && reads)
        trace->capacity = capacity;
    else
        trace->failed = true;
    return !trace->failed;
}

void gp_trace_put(struct gp_trace *trace, const char *format, ...)
{
    char piece[256];
    va_list args;

    va_start(args, format);
    int count = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (count <= 0 || (size_t)count >= sizeof piece || !reserve(trace, (size_t)count + 1))
        return;
    memcpy(trace->text + trace->length, piece, (size_t)count);
    trace->length += (size_t)count;
}

void gp_trace_read(struct gp_trace *trace, size_t at, size_t length)
{
    for (size_t i = at; !trace->failed && i < at + length && i < trace->length; i++)
        trace->last_read[i] = (uint32_t)trace->length + 1;
}

static size_t item_length(const struct gp_item *item)
{
    return item->width + (item->name ? 1 : 0);
}

static void put_item(struct gp_trace *trace, struct gp_item *item)
{
    size_t at = trace->length;

    if (item->name)
        gp_trace_put(trace, "%c", item->name);
    gp_trace_put(trace, "%0*u", (int)item->width, item->value);
    item->at = at;
}

void gp_trace_item(struct gp_trace *trace, struct gp_item *item)
{
    put_item(trace, item);
}

void gp_trace_again(struct gp_trace *trace, struct gp_item *item)
{
    gp_trace_read(trace, item->at, item_length(item));
    put_item(trace, item);
}

void gp_trace_digits(struct gp_trace *trace, const struct gp_item *item)
{
    gp_trace_read(trace, item->at, item_length(item));
    gp_trace_put(trace, "%0*u", (int)item->width, item->value);
}

/* The place of digit i, counted from the units, of an item. */
static size_t digit_at(const struct gp_item *item, uint32_t i)
{
    return item->at + item_length(item) - 1 - i;
}

static uint32_t digit_of(struct gp_trace *trace, const struct gp_item *item, uint32_t i)
{
    uint32_t value = item->value;

    if (i >= item->width)
        return 0;
    gp_trace_read(trace, digit_at(item, i), 1);
    while (i-- > 0)
        value /= 10;
    return value % 10;
}

uint32_t gp_trace_columns(struct gp_trace *trace, const struct gp_item *a, char sign,
                          const struct gp_item *b)
{
    uint32_t result = 0, carry = 0, power = 1;

    for (uint32_t i = 0; i < a->width; i++) {
        uint32_t x = digit_of(trace, a, i), y = digit_of(trace, b, i);
        uint32_t digit = sign == '+' ? (x + y + carry) % 10 : (20 + x - y - carry) % 10;
        uint32_t next = sign == '+' ? x + y + carry >= 10 : x < y + carry;
        gp_trace_put(trace, "%u%c%u%c%u=%u%u ", x, sign, y, sign, carry, next, digit);
        result += digit * power;
        power *= 10;
        carry = next;
    }
    return result;
}

void gp_trace_sum(struct gp_trace *trace, struct gp_item *total, struct gp_item *entry)
{
    gp_trace_put(trace, "#");
    gp_trace_again(trace, total);
    gp_trace_put(trace, "+");
    gp_trace_again(trace, entry);
    gp_trace_put(trace, " ");
    size_t at = trace->length;
    total->value = gp_trace_columns(trace, total, '+', entry);
    total->at = at;
    gp_trace_put(trace, "\n");
    /* Scratch is live until its line ends. */
    gp_trace_read(trace, at, trace->length - at);
}

uint32_t gp_trace_draw(struct gp_trace *trace, uint32_t low, uint32_t high)
{
    return low + gp_rng_below(&trace->rng, high - low + 1);
}

uint32_t gp_trace_size(struct gp_trace *trace, uint32_t easy_low, uint32_t easy_high,
                       uint32_t hard_low, uint32_t hard_high)
{
    double low = easy_low + trace->difficulty * ((double)hard_low - easy_low);
    double high = easy_high + trace->difficulty * ((double)hard_high - easy_high);

    return gp_trace_draw(trace, (uint32_t)(low + 0.5), (uint32_t)(high + 0.5));
}

void gp_trace_shuffle(struct gp_trace *trace, uint8_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = (uint8_t)i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = gp_rng_below(&trace->rng, i);
        uint8_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

void gp_trace_thought(struct gp_trace *trace)
{
    trace->thought_at = trace->length;
}

void gp_trace_answer(struct gp_trace *trace)
{
    trace->answer_at = trace->length;
}

/* Byte p is live from p + 1 on until the last position that something is read from it for. */
static bool measure_live(const struct gp_trace *trace, struct gp_problem *out)
{
    size_t from = trace->thought_at, to = trace->answer_at, live = 0;
    double sum = 0.0, peak = 0.0;
    uint32_t *ends = gp_mem_alloc_array(trace->length + 2, sizeof *ends);

    if (!ends)
        return false;
    for (size_t t = 1; t < to; t++) {
        if (trace->last_read[t - 1] > t) {
            live++;
            ends[trace->last_read[t - 1]]++;
        }
        live -= ends[t];
        double share = (double)live / (double)t;
        if (t < from)
            continue;
        sum += share;
        peak = share > peak ? share : peak;
    }
    out->live_mean = to > from ? sum / (double)(to - from) : 0.0;
    out->live_peak = peak;
    gp_mem_free(ends);
    return true;
}

int gp_trace_end(struct gp_trace *trace, struct gp_problem *out)
{
    if (!trace->failed) {
        const char *text = trace->text;
        out->prompt = gp_mem_copy(text, trace->thought_at);
        out->thought = gp_mem_copy(text + trace->thought_at, trace->answer_at - trace->thought_at);
        out->answer = gp_mem_copy(text + trace->answer_at, trace->length - trace->answer_at);
        trace->failed = !out->prompt || !out->thought || !out->answer || !measure_live(trace, out);
    }
    gp_mem_free(trace->text);
    gp_mem_free(trace->last_read);
    return trace->failed ? GP_ENOMEM : GP_OK;
}
