/*
 * holder_client.h: netd's side of holder.h: asks inside a sandbox who holds a socket, and passes the answer on to Node.
 *
 * A connection to the sandbox's agent is made with the first question and closed when none comes for a while. Nobody
 * waits for an answer, and a sandbox that is asked too much, or does not answer, is not asked: that is told to nobody.
 */
#ifndef SANDKEEP_HOLDER_CLIENT_H
#define SANDKEEP_HOLDER_CLIENT_H

#include <stdint.h>

struct connection;

/* questions of one sandbox that are under way */
#define HOLDERS_WAITING 64

/* A sandbox that may be asked. */
struct holders {
  /* its agent's socket; NULL where it has none */
  const char *path;
  /* NULL when there is none */
  struct connection *connection;
  /* what was asked and not answered: a ring of `waiting` numbers from `first` on; the answers come in that order */
  uint32_t asked[HOLDERS_WAITING];
  unsigned first;
  unsigned waiting;
  /* loop_now() at which it last said something, or was asked while it owed nothing */
  int64_t heard;
  /* loop_now() before which no connection is made */
  int64_t not_before;
  /* ms of time that questions may still be asked in, as of `earned` */
  int64_t credit;
  int64_t earned;
};

/* the path must stay where it is */
void holders_open(struct holders *holders, const char *path);
void holders_close(struct holders *holders);
/* returns the number under which Node hears the answer, or 0 when nobody is asked */
uint32_t holders_ask(struct holders *holders, uint32_t inode);
/* closes what is silent; to be called now and then */
void holders_expire(struct holders *holders, int64_t now);

/* frees connections that have ended; once a pass */
void holders_sweep(void);
/* whether there are any */
int holders_connected(void);

#endif
