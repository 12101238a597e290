#include "server/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define KEY_ROOM (GP_LIMIT_KEY_BYTES + 1)

int gp_keys_add(struct gp_keys *keys, const char *key, size_t length, struct gp_error *err)
{
    if (length == 0 || length > GP_LIMIT_KEY_BYTES)
        return gp_fail(err, GP_EINVAL, "api key: %zu bytes; 1 to %u", length, GP_LIMIT_KEY_BYTES);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)key[i] <= ' ' || (unsigned char)key[i] >= 0x7f)
            return gp_fail(err, GP_EINVAL, "api key: only printable ASCII without blanks");
    if (keys->count == GP_LIMIT_KEYS)
        return gp_fail(err, GP_EINVAL, "api key: more than %u", GP_LIMIT_KEYS);
    char(*grown)[KEY_ROOM] =
        gp_mem_realloc(keys->items, keys->count * KEY_ROOM, (keys->count + 1) * KEY_ROOM);

    if (!grown)
        return gp_fail(err, GP_ENOMEM, "api key: out of memory");
    keys->items = grown;
    memcpy(grown[keys->count++], key, length);
    return GP_OK;
}

int gp_keys_read(struct gp_keys *keys, const char *path, struct gp_error *err)
{
    FILE *file = fopen(path, "re");
    char line[KEY_ROOM * 2];
    int rc = GP_OK;

    if (!file)
        return gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    for (unsigned number = 1; !rc && fgets(line, sizeof line, file); number++) {
        char *key = line + strspn(line, " \t\r\n");
        size_t length = strlen(key);

        while (length > 0 && strchr(" \t\r\n", key[length - 1]))
            length--;
        if (length == 0 || *key == '#')
            continue;
        rc = gp_keys_add(keys, key, length, err);
        if (rc)
            gp_error_prefix(err, "%s: line %u", path, number);
    }
    if (!rc && ferror(file))
        rc = gp_fail(err, GP_EIO, "%s: %s", path, strerror(errno));
    fclose(file);
    return rc;
}

bool gp_keys_have(const struct gp_keys *keys, const char *offered)
{
    char padded[KEY_ROOM] = {0};
    size_t length = strlen(offered);
    unsigned found = 0;

    memcpy(padded, offered, length < KEY_ROOM ? length : KEY_ROOM);
    for (uint32_t i = 0; i < keys->count; i++) {
        unsigned differs = 0;

        for (size_t k = 0; k < KEY_ROOM; k++)
            differs |= (unsigned char)(keys->items[i][k] ^ padded[k]);
        found |= differs == 0;
    }
    return found && length <= GP_LIMIT_KEY_BYTES;
}

void gp_keys_free(struct gp_keys *keys)
{
    gp_mem_free(keys->items);
    *keys = (struct gp_keys){0};
}
