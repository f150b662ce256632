/* loop.h: one epoll loop: file descriptors that call a function when they are ready, and a deadline. */
#ifndef SANDKEEP_LOOP_H
#define SANDKEEP_LOOP_H

#include <stdint.h>

struct source {
  int fd;
  uint32_t events;
  void (*ready)(struct source *source, uint32_t events);
};

/* what is taken from one source before the others get their turn */
#define LOOP_TURN 32

/* all return 0 or an errno */
int loop_open(void);
void loop_close(void);
int loop_add(struct source *source, int fd, uint32_t events, void (*ready)(struct source *, uint32_t));
/* ready when a child has ended or stopped; its handler begins with loop_heard_children() */
int loop_add_children(struct source *source, void (*ready)(struct source *, uint32_t));
void loop_heard_children(const struct source *source);
int loop_change(struct source *source, uint32_t events);
/* forgets the source, also within the pass that is under way; the fd stays open */
void loop_remove(struct source *source);
/* waits at most `timeout` ms (-1: for ever) and calls whatever is ready */
int loop_pass(int timeout);
/* milliseconds of a clock that never jumps */
int64_t loop_now(void);

#endif
