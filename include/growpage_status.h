/* Status codes and error texts of libgrowpage, shared by every layer.
 *
 * A function that can be refused by the outside world returns GP_OK or a
 * negative status and, when err is not NULL, writes one line into it that names
 * the thing that was wrong.  Out-parameters are written on success only. */
#ifndef GROWPAGE_STATUS_H
#define GROWPAGE_STATUS_H

enum gp_status {
    GP_OK = 0,
    GP_EINVAL = -1,   /* the caller asked for something that is not done here    */
    GP_ENOMEM = -2,   /* an allocation failed                                     */
    GP_EIO = -3,      /* the operating system said no; the message has its words  */
    GP_ECORRUPT = -4, /* a file or a peer broke its format                        */
    GP_EAGAIN = -5,   /* full now; the same call may succeed later                */
};

/* One line of text, without a trailing newline, always terminated. */
struct gp_error {
    char message[512];
};

#endif
