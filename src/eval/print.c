/* Questions as `growpage eval --print` shows them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "eval/exam.h"

static int print_plain(const struct gp_question *q, uint64_t seed)
{
    const struct gp_problem *p = &q->problem;

    if (q->part->dataset)
        return printf("%s %llu\nprompt   %s\nanswer   %s\n\n", q->part->name,
                      (unsigned long long)q->index, p->prompt, p->answer);
    size_t length = strlen(p->thought);

    return printf("%s %llu  seed %llu, difficulty %.4g, %s\nprompt   %s\nthought  %s%sanswer   %s\n"
                  "live     %.3f of the bytes so far on average, %.3f at most\n\n",
                  q->part->name, (unsigned long long)q->index, (unsigned long long)seed,
                  q->difficulty, gp_form_name(q->form), p->prompt, p->thought,
                  length > 0 && p->thought[length - 1] == '\n' ? "" : "\n", p->answer, p->live_mean,
                  p->live_peak);
}

/* Six digits and more of a share say nothing. */
#define JSON_FORMAT (JSON_COMPACT | JSON_REAL_PRECISION(6))

static json_t *question_json(const struct gp_question *q, uint64_t seed)
{
    const struct gp_problem *p = &q->problem;

    if (q->part->dataset)
        return json_pack("{s:s, s:I, s:s, s:s}", "suite", q->part->name, "index",
                         (json_int_t)q->index, "prompt", p->prompt, "answer", p->answer);
    return json_pack("{s:s, s:I, s:I, s:f, s:s, s:s, s:s, s:s, s:f, s:f}", "suite", q->part->name,
                     "index", (json_int_t)q->index, "seed", (json_int_t)seed, "difficulty",
                     q->difficulty, "form", gp_form_name(q->form), "prompt", p->prompt, "thought",
                     p->thought, "answer", p->answer, "live_mean", p->live_mean, "live_peak",
                     p->live_peak);
}

int gp_question_print(const struct gp_question *q, uint64_t seed, bool json, struct gp_error *err)
{
    int written;

    if (json) {
        json_t *root = question_json(q, seed);
        char *text = root ? json_dumps(root, JSON_FORMAT) : NULL;
        json_decref(root);
        if (!text)
            return gp_fail(err, GP_ENOMEM, "%s: out of memory", q->part->name);
        written = printf("%s\n", text);
        free(text);
    } else {
        written = print_plain(q, seed);
    }
    return written < 0 ? gp_fail(err, GP_EIO, "standard output: %s", strerror(errno)) : GP_OK;
}
