/* Runs a fuzz driver over files, without libFuzzer: every argument is a file or a folder of
 * files. The last line says how many were run; exit status 1 when there were none or one cannot
 * be read. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static bool run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;

    if (!file || fstat(fileno(file), &st) != 0) {
        fprintf(stderr, "standalone: %s: %s\n", path, strerror(errno));
        if (file)
            fclose(file);
        return false;
    }
    size_t length = (size_t)st.st_size;
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    bool ok = bytes && fread(bytes, 1, length, file) == length;

    fclose(file);
    if (ok) {
        /* Said before it runs, so that a crash has a name. */
        fprintf(stderr, "%s\n", path);
        LLVMFuzzerTestOneInput(bytes, length);
    } else {
        fprintf(stderr, "standalone: %s: cannot be read\n", path);
    }
    free(bytes);
    return ok;
}

/* Files and folders whose names begin with a dot are left out. */
static bool run_path(const char *path, unsigned *count)
{
    DIR *folder = opendir(path);
    bool ok = true;

    if (!folder) {
        *count += 1;
        return run_file(path);
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inside[4096];

        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) >= (int)sizeof inside)
            ok = false;
        else
            ok = run_path(inside, count) && ok;
    }
    closedir(folder);
    return ok;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    bool ok = true;

    for (int i = 1; i < argc; i++)
        ok = run_path(argv[i], &count) && ok;
    printf("%u files run\n", count);
    return ok && count > 0 ? 0 : 1;
}
