#include "base/event.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

void gp_event_raise(int fd)
{
    uint64_t one = 1;

    /* Full means that it is readable already. */
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void gp_event_clear(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}
