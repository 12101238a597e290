/* API keys, compared in a time that says nothing about them. */
#ifndef GP_SERVER_KEYS_H
#define GP_SERVER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "server/limits.h"

struct gp_keys {
    uint32_t count;
    char (*items)[GP_LIMIT_KEY_BYTES + 1]; /* filled up with zeros */
};

int gp_keys_add(struct gp_keys *keys, const char *key, size_t length, struct gp_error *err);

/* One a line; blanks around it, empty lines and those that begin with # do not count. */
int gp_keys_read(struct gp_keys *keys, const char *path, struct gp_error *err);

/* Looks at every byte of every key, whatever is offered. */
bool gp_keys_have(const struct gp_keys *keys, const char *offered);

void gp_keys_free(struct gp_keys *keys);

#endif
