/* A problem while it is written: prompt, thought and answer in one text, and for each byte the last
 * place that reads it, from which the working set follows.
 *
 * Running out of memory is remembered and told once, at the end; until then all calls are safe. */
#ifndef GP_EVAL_TRACE_H
#define GP_EVAL_TRACE_H

#include "base/rng.h"
#include "eval/suite.h"

struct gp_trace {
    struct gp_rng rng;
    double difficulty;
    enum gp_form form;

    char *text;
    uint32_t *last_read; /* for byte p: 1 + the last position that p is read for, or 0 */
    size_t length, capacity;
    size_t thought_at, answer_at; /* where they begin; 0 before */
    bool failed;
};

/* Something written down that later steps read: a name (or none: 0) and digits. */
struct gp_item {
    char name;
    uint32_t value;
    uint32_t width; /* digits, zeros in front */
    size_t at;      /* where name and digits were last written */
};

void gp_trace_begin(struct gp_trace *trace, uint64_t seed, double difficulty, enum gp_form form);
void gp_trace_thought(struct gp_trace *trace); /* what follows is the thought */
void gp_trace_answer(struct gp_trace *trace);  /* what follows is the answer  */
/* Hand the texts to out and free the rest.  GP_ENOMEM. */
int gp_trace_end(struct gp_trace *trace, struct gp_problem *out);

/* Text that is read from nowhere. */
void gp_trace_put(struct gp_trace *trace, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What comes next is read from these bytes. */
void gp_trace_read(struct gp_trace *trace, size_t at, size_t length);

/* Write an item for the first time. */
void gp_trace_item(struct gp_trace *trace, struct gp_item *item);
/* Write it again, read from where it was last; from now on it is read from here. */
void gp_trace_again(struct gp_trace *trace, struct gp_item *item);
/* Write its digits alone, without moving it. */
void gp_trace_digits(struct gp_trace *trace, const struct gp_item *item);

/* Add (sign '+') or subtract (sign '-') digit by digit, units first, each step with what is carried
 * and followed by a blank: "9+5+0=14 2+1+1=04 ".  As many digits as a has; the result is modulo
 * that power of ten.  a and b have just been written. */
uint32_t gp_trace_columns(struct gp_trace *trace, const struct gp_item *a, char sign,
                          const struct gp_item *b);

/* A line of a running sum, "#0429+a915 9+5+0=14 ... ": total and entry are written again, then
 * worked on; total takes the new value, which the next line reads. */
void gp_trace_sum(struct gp_trace *trace, struct gp_item *total, struct gp_item *entry);

/* Uniform in [low, high]. */
uint32_t gp_trace_draw(struct gp_trace *trace, uint32_t low, uint32_t high);
/* A size that grows with difficulty: uniform between the easy and the hard bounds' mixtures. */
uint32_t gp_trace_size(struct gp_trace *trace, uint32_t easy_low, uint32_t easy_high,
                       uint32_t hard_low, uint32_t hard_high);
/* A random order of 0..count-1. */
void gp_trace_shuffle(struct gp_trace *trace, uint8_t *order, uint32_t count);

#endif
