/* Reads lines of two answers, apart by a tab, and prints 1 or 0: whether they are the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answer.h"

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n')
            length--;
        char *tab = memchr(line, '\t', (size_t)length);
        if (!tab)
            return 1;
        printf("%d\n", gp_answer_same(line, (size_t)(tab - line), tab + 1,
                                      (size_t)(line + length - tab - 1)));
    }
    free(line);
    return 0;
}
