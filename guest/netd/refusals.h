/*
 * refusals.h: reports to Node the packets of one sandbox that the kernel refused by itself (net.h).
 *
 * A sandbox that sends a million packets slows down only itself: the packets that are reported in a second are limited, for
 * each machine and for all together. Further packets wait in the machine's socket. If the socket is full, the kernel counts
 * them, and Node gets their number.
 */
#ifndef SANDKEEP_REFUSALS_H
#define SANDKEEP_REFUSALS_H

#include <stdint.h>

#include "shared/loop.h"

struct refusals {
  struct source source; /* first: a ready source is its refusals */
  uint64_t machine_id;
  const char *machine;
  /* that may still be told before the next refusals_refill() */
  unsigned left;
  /* missed packets that were reported to Node */
  uint32_t lost;
};

/* `fd` is a socket of nflog.h, which stays the caller's, or -1: then there is nothing to tell. Returns 0 or an errno. */
int refusals_open(struct refusals *refusals, uint64_t machine_id, const char *machine, int fd);
/* tells what is there now, as far as it may be told */
void refusals_tell(struct refusals *refusals);
/* tells the last of it, and forgets the socket */
void refusals_end(struct refusals *refusals);

/* to be called about once a second, for all machines and then for each */
void refusals_refill_all(void);
void refusals_refill(struct refusals *refusals);
/* machines that wait for that */
unsigned refusals_waiting(void);

#endif
