/* refusals.c: reads the sockets of nflog.h, within the bounds of refusals.h. */
#define _GNU_SOURCE
#include "netd/refusals.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "egress/egress.h"
#include "network/net.h"
#include "network/nflog.h"
#include "shared/hex.h"

/* packets that are reported in a second, of one machine and of all; beyond that each machine still has its reserve */
#define PER_MACHINE 100
#define TOTAL 1000
#define RESERVED 4

static unsigned left_of_all = TOTAL;
static unsigned waiting;

static bool is_waiting(const struct refusals *refusals) { return refusals->source.events == 0; }

static void set_waiting(struct refusals *refusals, bool wait) {
  if (is_waiting(refusals) == wait) return;
  loop_change(&refusals->source, wait ? 0 : EPOLLIN);
  waiting += wait ? 1u : -1u;
}

static bool may_tell(const struct refusals *refusals) {
  if (!refusals->left || !egress_has_room()) return false;
  return left_of_all || refusals->left > PER_MACHINE - RESERVED;
}

static void tell(const struct refusals *refusals, const struct refused *refused) {
  char address[INET6_ADDRSTRLEN], hex[2 * NFLOG_COPIED + 1];
  bool question = refused->protocol == IPPROTO_UDP && refused->to.port == NET_RESOLVER_PORT;
  endpoint_text(&refused->to, address);
  hex_text(refused->data, question && refused->length <= NFLOG_COPIED ? refused->length : 0, hex);
  egress_say(-1,
             "{\"kind\":\"refused\",\"id\":%" PRIu64 ",\"machine\":\"%s\",\"protocol\":%u"
             ",\"address\":\"%s\",\"port\":%u,\"packet\":\"%s\"}",
             refusals->machine_id, refusals->machine, refused->protocol, address, refused->to.port, hex);
}

static void tell_lost(struct refusals *refusals) {
  uint32_t lost = nflog_lost(refusals->source.fd);
  if (lost == refusals->lost) return;
  if (egress_say(-1, "{\"kind\":\"unseen\",\"id\":%" PRIu64 ",\"machine\":\"%s\",\"count\":%" PRIu32 "}",
                 refusals->machine_id, refusals->machine, lost - refusals->lost)) {
    refusals->lost = lost;
  }
}

/* one turn; true when there may be more to tell */
static bool tell_some(struct refusals *refusals) {
  /* as much as is copied, and the kernel's own words about it */
  static _Alignas(8) uint8_t buffer[NFLOG_COPIED + 1024];
  struct refused refused;
  ssize_t got = 0;
  for (unsigned i = 0; i < LOOP_TURN && got >= 0; i++) {
    if (!may_tell(refusals)) set_waiting(refusals, true);
    got = is_waiting(refusals) ? -1 : nflog_receive(refusals->source.fd, buffer, sizeof buffer);
    if (got < 0) break;
    refusals->left--;
    if (left_of_all) left_of_all--;
    if (nflog_parse(buffer, (size_t)got, &refused)) tell(refusals, &refused);
  }
  /* Packets are lost only while others wait in the socket, so that we get here after the last of them. */
  tell_lost(refusals);
  return got >= 0;
}

static void ready(struct source *source, uint32_t what) {
  (void)what;
  tell_some((struct refusals *)source);
}

/* ---- what refusals.h offers ---- */

int refusals_open(struct refusals *refusals, uint64_t machine_id, const char *machine, int fd) {
  *refusals = (struct refusals){.source.fd = -1, .machine_id = machine_id, .machine = machine, .left = PER_MACHINE};
  int error = fd < 0 ? 0 : loop_add(&refusals->source, fd, EPOLLIN, ready);
  if (error) refusals->source.fd = -1;
  return error;
}

void refusals_tell(struct refusals *refusals) {
  if (refusals->source.fd < 0) return;
  while (tell_some(refusals)) continue;
}

void refusals_end(struct refusals *refusals) {
  if (refusals->source.fd < 0) return;
  refusals_refill(refusals);
  refusals_tell(refusals);
  set_waiting(refusals, false);
  loop_remove(&refusals->source);
  refusals->source.fd = -1;
}

void refusals_refill_all(void) { left_of_all = TOTAL; }

void refusals_refill(struct refusals *refusals) {
  refusals->left = PER_MACHINE;
  if (refusals->source.fd >= 0) set_waiting(refusals, false);
}

unsigned refusals_waiting(void) { return waiting; }
