/* An eventfd as a bell: raised any number of times, heard once.  Any thread. */
#ifndef GP_BASE_EVENT_H
#define GP_BASE_EVENT_H

void gp_event_raise(int fd); /* readable from now on */
void gp_event_clear(int fd); /* of a descriptor that does not block: no longer readable */

#endif
