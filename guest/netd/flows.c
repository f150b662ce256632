/* flows.c: the flows of flows.h. */
#define _GNU_SOURCE
#include "netd/flows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/egress.h"
#include "network/diag.h"
#include "network/net.h"
#include "shared/hex.h"
#include "shared/ids.h"
#include "shared/loop.h"

#define BUCKETS 128
#define QUESTIONS_PER_MACHINE 32
#define WAITING_PER_FLOW 4
#define WAITING_BYTES_PER_MACHINE (256u << 10)
/* no question is longer, not even one with every extension */
#define LONGEST_QUESTION 4096

/* how long a flow of each state may be quiet, in ms */
#define OPEN_IDLE 60000
#define RESOLVER_IDLE 15000
#define ASKED_IDLE 30000
/* how long a refusal is remembered, quiet or not */
#define REFUSED_FOR 5000

enum state { ASKED, OPEN, REFUSED, RESOLVER };

/* A datagram that came before Node had answered. */
struct waiting {
  struct waiting *next;
  size_t length;
  uint8_t data[];
};

struct flow {
  struct source outside_socket; /* first: a ready source is its flow */
  struct flows *flows;
  uint64_t id;
  enum state state;
  struct endpoint inside;
  struct endpoint outside;
  int64_t used;
  /* bytes of datagrams, once it is open */
  uint64_t sent;
  uint64_t received;
  /* of its own, that Node has not answered */
  unsigned questions;
  struct waiting *waiting;
  struct flow *next; /* in its bucket */
  struct flow *newer;
  struct flow *older;
};

static struct ids numbers;
static unsigned total;
static uint8_t buffer[65536];

/* ---- the table ---- */

/* FNV-1a from a start that the sandbox does not know, so that it cannot choose flows of one bucket */
static size_t bucket_of(const struct endpoint *inside, const struct endpoint *outside) {
  static uint64_t start;
  if (!start && getrandom(&start, sizeof start, 0) != sizeof start) start = 1;
  uint64_t hash = start;
  const uint8_t *parts[] = {(const uint8_t *)inside, (const uint8_t *)outside};
  for (size_t part = 0; part < 2; part++) {
    for (size_t i = 0; i < sizeof *inside; i++) hash = (hash ^ parts[part][i]) * 0x100000001b3u;
  }
  return (hash >> 32) % BUCKETS;
}

static struct flow *lookup(struct flows *flows, const struct endpoint *inside, const struct endpoint *outside) {
  if (!flows->buckets) return NULL;
  struct flow *flow = flows->buckets[bucket_of(inside, outside)];
  while (flow && (memcmp(&flow->inside, inside, sizeof *inside) || memcmp(&flow->outside, outside, sizeof *outside))) {
    flow = flow->next;
  }
  return flow;
}

static void unlink_by_age(struct flow *flow) {
  struct flows *flows = flow->flows;
  *(flow->newer ? &flow->newer->older : &flows->newest) = flow->older;
  *(flow->older ? &flow->older->newer : &flows->oldest) = flow->newer;
}

static void link_newest(struct flow *flow) {
  struct flows *flows = flow->flows;
  flow->newer = NULL;
  flow->older = flows->newest;
  *(flows->newest ? &flows->newest->newer : &flows->oldest) = flow;
  flows->newest = flow;
}

static void touch(struct flow *flow) {
  flow->used = loop_now();
  unlink_by_age(flow);
  link_newest(flow);
}

static void drop_waiting(struct flow *flow) {
  while (flow->waiting) {
    struct waiting *first = flow->waiting;
    flow->waiting = first->next;
    flow->flows->waiting_bytes -= first->length;
    free(first);
  }
}

static const char *custom_of(const struct flow *flow) { return flow->flows->custom ? "true" : "false"; }

/* who holds the socket now: the next program to send may have the same port */
static uint32_t ask_who(const struct flow *flow) {
  return holders_ask(flow->flows->holders, diag_inode(flow->flows->diag, IPPROTO_UDP, &flow->inside, &flow->outside));
}

/* For the meter only: without room in the channel a flow stays uncounted, so that nothing waits. */
static void tell_bytes(const struct flow *flow) {
  char address[INET6_ADDRSTRLEN];
  endpoint_text(&flow->outside, address);
  egress_say(-1,
             "{\"kind\":\"flow\",\"id\":%" PRIu64 ",\"machine\":\"%s\",\"custom\":%s,\"address\":\"%s\",\"port\":%u"
             ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}",
             flow->flows->machine_id, flow->flows->machine, custom_of(flow), address, flow->outside.port, flow->sent,
             flow->received);
}

static void end_flow(struct flow *flow) {
  struct flows *flows = flow->flows;
  if (flow->sent || flow->received) tell_bytes(flow);
  if (flow->outside_socket.fd >= 0) {
    loop_remove(&flow->outside_socket);
    close(flow->outside_socket.fd);
  }
  drop_waiting(flow);
  flows->questions -= flow->questions;
  struct flow **link = &flows->buckets[bucket_of(&flow->inside, &flow->outside)];
  while (*link != flow) link = &(*link)->next;
  *link = flow->next;
  unlink_by_age(flow);
  ids_remove(&numbers, flow->id);
  flows->count--;
  total--;
  free(flow);
}

/* Makes room for one more. A flow that Node was asked about stays: otherwise a sandbox could ask without end. */
static bool make_room(struct flows *flows) {
  if (flows->count < FLOWS_RESERVED) return true;
  if (flows->count < FLOWS_PER_MACHINE && total < FLOWS_TOTAL) return true;
  struct flow *flow = flows->oldest;
  while (flow && flow->questions) flow = flow->newer;
  if (!flow) return false;
  end_flow(flow);
  return true;
}

static struct flow *add_flow(struct flows *flows, const struct endpoint *inside, const struct endpoint *outside) {
  if (!flows->buckets) flows->buckets = calloc(BUCKETS, sizeof(struct flow *));
  if (!flows->buckets || !make_room(flows)) return NULL;
  struct flow *flow = calloc(1, sizeof *flow);
  if (!flow) return NULL;
  flow->id = ids_add(&numbers, flow);
  if (!flow->id) {
    free(flow);
    return NULL;
  }
  flow->outside_socket.fd = -1;
  flow->flows = flows;
  flow->inside = *inside;
  flow->outside = *outside;
  flow->used = loop_now();
  struct flow **bucket = &flows->buckets[bucket_of(inside, outside)];
  flow->next = *bucket;
  *bucket = flow;
  link_newest(flow);
  flows->count++;
  total++;
  return flow;
}

/* ---- datagrams ---- */

static int raw_of(const struct flow *flow) {
  return flow->inside.family == AF_INET ? flow->flows->raw4 : flow->flows->raw6;
}

static void unreachable(struct flow *flow, int error) {
  enum unreachable why = error == ECONNREFUSED ? UNREACHABLE_PORT
                         : error == EACCES     ? UNREACHABLE_PROHIBITED
                                               : UNREACHABLE_HOST;
  packet_unreachable(raw_of(flow), &flow->outside, &flow->inside, why);
}

/* A full buffer loses the datagram, as networks do; any other failure is one that the program should hear of. */
static bool worth_telling(int error) {
  return error != EAGAIN && error != ENOBUFS && error != EINTR && error != EMSGSIZE;
}

static void send_outside(struct flow *flow, const void *data, size_t length) {
  ssize_t sent = send(flow->outside_socket.fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) flow->sent += (uint64_t)sent;
  if (sent < 0 && worth_telling(errno)) unreachable(flow, errno);
}

static void outside_ready(struct source *source, uint32_t what) {
  (void)what;
  struct flow *flow = (struct flow *)source;
  for (int i = 0; i < LOOP_TURN; i++) {
    ssize_t got = recv(source->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && worth_telling(errno)) unreachable(flow, errno);
    if (got < 0) return;
    touch(flow);
    flow->received += (uint64_t)got;
    packet_send(raw_of(flow), &flow->outside, &flow->inside, buffer, (size_t)got);
  }
}

static int open_outside(struct flow *flow) {
  int fd = socket(flow->outside.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  struct sockaddr_storage address;
  socklen_t size = endpoint_to(&flow->outside, &address);
  int error = connect(fd, (struct sockaddr *)&address, size) < 0 ? errno : 0;
  if (!error) error = loop_add(&flow->outside_socket, fd, EPOLLIN, outside_ready);
  if (error) {
    close(fd);
    flow->outside_socket.fd = -1;
  }
  return error;
}

static void wait_for_answer(struct flow *flow, const void *data, size_t length) {
  size_t waiting = 0;
  struct waiting **link = &flow->waiting;
  while (*link) {
    link = &(*link)->next;
    waiting++;
  }
  if (waiting >= WAITING_PER_FLOW || length > WAITING_BYTES_PER_MACHINE - flow->flows->waiting_bytes) return;
  struct waiting *one = malloc(sizeof *one + length);
  if (!one) return;
  one->next = NULL;
  one->length = length;
  if (length) memcpy(one->data, data, length);
  flow->flows->waiting_bytes += length;
  *link = one;
}

static void count_question(struct flow *flow) {
  flow->questions++;
  flow->flows->questions++;
}

static void uncount_question(struct flow *flow) {
  flow->questions--;
  flow->flows->questions--;
}

static bool ask_whether(struct flow *flow) {
  char address[INET6_ADDRSTRLEN];
  endpoint_text(&flow->outside, address);
  return egress_say(-1,
                    "{\"kind\":\"udp\",\"id\":%" PRIu64 ",\"machine\":\"%s\",\"custom\":%s,\"flow\":%" PRIu64
                    ",\"address\":\"%s\",\"port\":%u,\"holder\":%" PRIu32 "}",
                    flow->flows->machine_id, flow->flows->machine, custom_of(flow), flow->id, address,
                    flow->outside.port, ask_who(flow));
}

static void resolve(struct flow *flow, const uint8_t *data, size_t length) {
  char hex[2 * LONGEST_QUESTION + 1];
  if (length > LONGEST_QUESTION || flow->flows->questions >= QUESTIONS_PER_MACHINE) return;
  hex_text(data, length, hex);
  if (egress_say(-1,
                 "{\"kind\":\"dns\",\"id\":%" PRIu64 ",\"machine\":\"%s\",\"custom\":%s,\"flow\":%" PRIu64
                 ",\"packet\":\"%s\",\"holder\":%" PRIu32 "}",
                 flow->flows->machine_id, flow->flows->machine, custom_of(flow), flow->id, hex, ask_who(flow))) {
    count_question(flow);
  }
}

static bool is_resolver(const struct endpoint *outside) {
  uint8_t address[16] = {0};
  inet_pton(outside->family, outside->family == AF_INET ? NET_GATEWAY : NET_GATEWAY6, address);
  return outside->port == NET_RESOLVER_PORT && memcmp(outside->address, address, sizeof address) == 0;
}

/* ---- what flows.h offers ---- */

void flows_open(struct flows *flows, uint64_t machine_id, const char *machine, const struct net_listeners *sockets,
                struct holders *holders) {
  *flows = (struct flows){.machine_id = machine_id, .machine = machine, .raw4 = sockets->fd[NET_RAW4],
                          .raw6 = sockets->fd[NET_RAW6], .diag = sockets->fd[NET_DIAG], .holders = holders};
}

void flows_datagram(struct flows *flows, const struct endpoint *inside, const struct endpoint *outside,
                    const void *data, size_t length) {
  struct flow *flow = lookup(flows, inside, outside);
  if (!flow) {
    bool resolver = is_resolver(outside);
    if (!resolver && flows->questions >= QUESTIONS_PER_MACHINE) return;
    flow = add_flow(flows, inside, outside);
    if (!flow) return;
    flow->state = resolver ? RESOLVER : ASKED;
    if (!resolver) {
      if (!ask_whether(flow)) {
        end_flow(flow);
        return;
      }
      count_question(flow);
    }
  }
  if (flow->state == ASKED) wait_for_answer(flow, data, length);
  if (flow->state == RESOLVER) resolve(flow, data, length);
  if (flow->state == OPEN) send_outside(flow, data, length);
  if (flow->state == REFUSED) {
    unreachable(flow, EACCES);
    return;
  }
  touch(flow);
}

/* Ending is enough: a datagram of a flow that is not there makes it anew, and makes us ask. */
void flows_recheck(struct flows *flows) {
  for (struct flow *flow = flows->oldest, *newer; flow; flow = newer) {
    newer = flow->newer;
    if (flow->state == OPEN || flow->state == REFUSED) end_flow(flow);
  }
}

void flows_end(struct flows *flows) {
  while (flows->oldest) end_flow(flows->oldest);
  free(flows->buckets);
  flows->buckets = NULL;
}

void flows_expire(struct flows *flows, int64_t now) {
  static const int idle[] = {[ASKED] = ASKED_IDLE, [OPEN] = OPEN_IDLE, [REFUSED] = REFUSED_FOR,
                             [RESOLVER] = RESOLVER_IDLE};
  for (struct flow *flow = flows->oldest, *newer; flow; flow = newer) {
    newer = flow->newer;
    if (now - flow->used > idle[flow->state]) end_flow(flow);
  }
}

void flows_unanswered(struct flows *flows) {
  for (struct flow *flow = flows->oldest, *newer; flow; flow = newer) {
    newer = flow->newer;
    while (flow->questions) uncount_question(flow);
    if (flow->state == ASKED) end_flow(flow);
  }
}

static void refuse(struct flow *flow, int error) {
  flow->state = REFUSED;
  touch(flow);
  drop_waiting(flow);
  unreachable(flow, error);
}

static void allow(struct flow *flow) {
  int error = open_outside(flow);
  if (error) {
    refuse(flow, error);
    return;
  }
  flow->state = OPEN;
  touch(flow);
  for (struct waiting *one = flow->waiting; one; one = one->next) send_outside(flow, one->data, one->length);
  drop_waiting(flow);
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

static int answer(struct flow *flow, const char *hex) {
  size_t length = strlen(hex) / 2;
  if (strlen(hex) % 2 || length > sizeof buffer) return EINVAL;
  for (size_t i = 0; i < length; i++) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return EINVAL;
    buffer[i] = (uint8_t)(high << 4 | low);
  }
  packet_send(raw_of(flow), &flow->outside, &flow->inside, buffer, length);
  return 0;
}

int flows_answered(const char *line) {
  char word[16];
  uint64_t id;
  int used = 0;
  if (sscanf(line, "%15s %" SCNu64 " %n", word, &id, &used) < 2 || !used) return EINVAL;
  struct flow *flow = ids_get(&numbers, id);
  /* It may have ended since; and nothing is said twice about one question. */
  if (!flow || !flow->questions) return 0;
  uncount_question(flow);
  if (flow->state == ASKED && strcmp(word, "allow") == 0) {
    allow(flow);
  } else if (flow->state == ASKED && strcmp(word, "deny") == 0) {
    refuse(flow, EACCES);
  } else if (flow->state == RESOLVER && strcmp(word, "answer") == 0) {
    return answer(flow, line + used);
  } else if (flow->state != RESOLVER || strcmp(word, "unanswered") != 0) {
    return EINVAL;
  }
  return 0;
}

unsigned flows_total(void) { return total; }
