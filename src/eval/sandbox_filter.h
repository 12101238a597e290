/* The system calls that a program in the sandbox is refused. */
#ifndef GP_EVAL_SANDBOX_FILTER_H
#define GP_EVAL_SANDBOX_FILTER_H

#include <linux/filter.h>

#define GP_SANDBOX_FILTER_MAX 64u

/* A seccomp filter for x86-64, as bwrap reads it; how many instructions it has. */
unsigned gp_sandbox_filter(struct sock_filter out[GP_SANDBOX_FILTER_MAX]);

#endif
