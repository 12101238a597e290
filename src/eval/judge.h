/* What an answer is worth: the part of a text that answers, and whether it is right. */
#ifndef GP_EVAL_JUDGE_H
#define GP_EVAL_JUDGE_H

#include "eval/exam.h"

struct gp_verdict {
    char *answer; /* what was taken for it, zero-terminated (gp_mem_free); NULL: there is none */
    bool correct;
    bool program; /* it has to be run first, see runners.h; correct says nothing yet */
};

int gp_judge(const struct gp_question *question, const char *text, size_t length,
             struct gp_verdict *out, struct gp_error *err);

#endif
