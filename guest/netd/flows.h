/*
 * flows.h: the UDP of one sandbox: which conversations are open, and their datagrams both ways.
 *
 *            datagram            "allow"
 *   (none) ───────────▶ ASKED ───────────▶ OPEN ──┐ datagrams go both ways
 *      │                  │ "deny"                │
 *      │                  └──────▶ REFUSED        ├─▶ ended: idle for too long, pushed out by a newer one, or cut
 *      └─ to the resolver ──────▶ RESOLVER ───────┘
 *
 *   ASKED     Node was asked whether it may be; the first few datagrams wait
 *   OPEN      has a socket outside, connected to the destination
 *   REFUSED   each datagram is answered "prohibited"; forgotten soon, as the answer may change
 *   RESOLVER  each datagram is a question that Node answers
 *
 * A sandbox has a bounded number of flows, of questions that Node has not answered, and of bytes that wait. A flow that
 * comes when the bound is reached takes the place of the one that was quiet longest.
 */
#ifndef SANDKEEP_FLOWS_H
#define SANDKEEP_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netd/holder_client.h"
#include "network/net.h"
#include "network/packet.h"

#define FLOWS_PER_MACHINE 512
/* of all machines; beyond it each machine still has FLOWS_RESERVED */
#define FLOWS_TOTAL 16384
#define FLOWS_RESERVED 16

struct flow;

struct flows {
  uint64_t machine_id;
  const char *machine;
  /* whether Node decides by a policy of the machine's own */
  bool custom;
  int raw4;
  int raw6;
  /* find whose socket a datagram came from */
  int diag;
  struct holders *holders;
  struct flow **buckets;
  struct flow *newest;
  struct flow *oldest;
  unsigned count;
  /* asked of Node and not answered */
  unsigned questions;
  size_t waiting_bytes;
};

void flows_open(struct flows *flows, uint64_t machine_id, const char *machine, const struct net_listeners *sockets,
                struct holders *holders);
/* a datagram from inside */
void flows_datagram(struct flows *flows, const struct endpoint *inside, const struct endpoint *outside,
                    const void *data, size_t length);
/* what Node has allowed or denied is asked for anew, with the next datagram; questions under way stay */
void flows_recheck(struct flows *flows);
/* ends them all */
void flows_end(struct flows *flows);
/* ends those that are idle */
void flows_expire(struct flows *flows, int64_t now);
/* Node has ended, so no pending question will get an answer */
void flows_unanswered(struct flows *flows);

/* Node's answer to a question about a flow of whichever machine; see egress.h. Returns 0 or EINVAL. */
int flows_answered(const char *line);

/* of all machines */
unsigned flows_total(void);

#endif
