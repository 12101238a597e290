/* Messages to people, on stderr: "growpage: text".  One call is one line and one write. */
#ifndef GP_BASE_LOG_H
#define GP_BASE_LOG_H

#include <stdbool.h>

void gp_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void gp_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Off by default for info; warnings are always shown unless silenced (tests do). */
void gp_log_set(bool info, bool warnings);

#endif
