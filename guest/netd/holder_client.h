/*
 * holder_client.h: netd's side of holder.h: asks inside a sandbox who holds a socket, and passes the answer on to Node.
 *
 * netd has no path to agents, so the launcher makes the connection: with the first question, which is sent when the
 * connection is there. It is closed when no question comes for a while. No connection waits for an answer. A sandbox that is
 * asked too much, or does not answer, is not asked, without an error.
 */
#ifndef SANDKEEP_HOLDER_CLIENT_H
#define SANDKEEP_HOLDER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

struct connection;

/* questions of one sandbox that are under way */
#define HOLDERS_WAITING 64

struct holder_question {
  /* the number under which Node hears the answer */
  uint32_t number;
  /* of the socket */
  uint32_t inode;
};

/* A sandbox that may be asked. */
struct holders {
  /* its machine's name */
  const char *machine;
  /* asks the launcher for a connection to its agent, which holders_connect() brings; returns 0 or an errno */
  int (*call)(const char *machine);
  bool calling;
  /* NULL when there is none */
  struct connection *connection;
  /* the agent has answered the launcher's HOLDERS */
  bool greeted;
  /* what was asked and not answered: a ring of `waiting` questions from `first` on; the answers come in that order */
  struct holder_question asked[HOLDERS_WAITING];
  unsigned first;
  unsigned waiting;
  /* loop_now() at which it last said something, or was asked while it owed nothing */
  int64_t last_heard;
  /* loop_now() before which no connection is made */
  int64_t not_before;
  /* ms of time that questions may still be asked in, as of `earned` */
  int64_t credit;
  int64_t earned;
};

/* the name must stay where it is */
void holders_open(struct holders *holders, const char *machine, int (*call)(const char *machine));
/* takes over a connection that was called for, on which the agent has been sent HOLDERS; -1 when none could be made */
void holders_connect(struct holders *holders, int fd);
void holders_close(struct holders *holders);
/* returns the number of the lookup in the message to Node, or 0 when no agent is asked */
uint32_t holders_ask(struct holders *holders, uint32_t inode);
/* closes what is silent; to be called now and then */
void holders_expire(struct holders *holders, int64_t now);

/* frees connections that have ended; once a pass */
void holders_sweep(void);
/* whether there are any */
bool holders_connected(void);

#endif
