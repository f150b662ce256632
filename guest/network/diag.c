/* diag.c: asks for one socket by both its ends (sock_diag(7)), which costs the same however many there are. */
#define _GNU_SOURCE
#include "network/diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "network/netlink.h"

struct question {
  struct nlmsghdr head;
  struct inet_diag_req_v2 wanted;
};

static bool answers;
static uint32_t sequence;

static bool ask(int fd, uint8_t protocol, const struct endpoint *inside, const struct endpoint *outside) {
  /* of TCP the socket's own end is the source; of UDP that of a datagram which the socket would get */
  const struct endpoint *source = protocol == IPPROTO_TCP ? inside : outside;
  const struct endpoint *target = protocol == IPPROTO_TCP ? outside : inside;
  struct question q = {
      .head = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = ++sequence},
      .wanted = {.sdiag_family = (uint8_t)inside->family, .sdiag_protocol = protocol, .idiag_states = ~0u},
  };
  q.wanted.id.idiag_sport = htons(source->port);
  q.wanted.id.idiag_dport = htons(target->port);
  memcpy(q.wanted.id.idiag_src, source->address, sizeof source->address);
  memcpy(q.wanted.id.idiag_dst, target->address, sizeof target->address);
  q.wanted.id.idiag_cookie[0] = q.wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  return sendto(fd, &q, sizeof q, MSG_DONTWAIT, (struct sockaddr *)&kernel, sizeof kernel) == (ssize_t)sizeof q;
}

/* the kernel has answered inside sendto(); what is left of an earlier question is passed over */
static bool hear(int fd, struct inet_diag_msg *out) {
  _Alignas(struct nlmsghdr) uint8_t answer[1024];
  for (;;) {
    ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0) return false;
    struct nlmsghdr head;
    if ((size_t)got < sizeof head) continue;
    memcpy(&head, answer, sizeof head);
    if (head.nlmsg_seq != sequence) continue;
    if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || (size_t)got < NLMSG_HDRLEN + sizeof *out) return false;
    memcpy(out, answer + NLMSG_HDRLEN, sizeof *out);
    return true;
  }
}

uint32_t diag_inode(int fd, uint8_t protocol, const struct endpoint *inside, const struct endpoint *outside) {
  struct inet_diag_msg found;
  if (fd < 0 || !answers || !ask(fd, protocol, inside, outside) || !hear(fd, &found)) return 0;
  /* Where no connection has these ends any more, the kernel finds the listener of the port. */
  return protocol == IPPROTO_TCP && found.idiag_state == TCP_LISTEN ? 0 : found.idiag_inode;
}

/* whether a socket of our own is found by its own address */
static bool finds(int fd, int type, uint8_t protocol) {
  int own = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (own < 0) return false;
  struct endpoint here = {.family = AF_INET, .address = {127, 0, 0, 1}}, nowhere = {.family = AF_INET};
  struct sockaddr_storage address;
  socklen_t size = endpoint_to(&here, &address);
  struct inet_diag_msg found;
  bool found_it = bind(own, (struct sockaddr *)&address, size) == 0 && (type != SOCK_STREAM || listen(own, 1) == 0) &&
                  getsockname(own, (struct sockaddr *)&address, &size) == 0 && endpoint_of(&address, &here) &&
                  ask(fd, protocol, &here, &nowhere) && hear(fd, &found);
  close(own);
  return found_it;
}

void diag_try(void) {
  int fd = netlink_socket(NETLINK_SOCK_DIAG);
  if (fd < 0) return;
  answers = finds(fd, SOCK_STREAM, IPPROTO_TCP) && finds(fd, SOCK_DGRAM, IPPROTO_UDP);
  close(fd);
}
