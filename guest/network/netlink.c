/* netlink.c: the messages of netlink.h; see netlink(7) for the layout. */
#define _GNU_SOURCE
#include "network/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* every message and every attribute begins on a multiple of this */
#define ALIGN(length) (((length) + 3u) & ~(size_t)3)

void netlink_reset(struct netlink *n) {
  n->length = 0;
  n->message = 0;
  n->sequence = 0;
  n->bad = false;
}

/* room for `length` bytes and their padding, zeroed; NULL when it does not fit */
static uint8_t *reserve(struct netlink *n, size_t length) {
  if (n->bad || length > NETLINK_ROOM || ALIGN(length) > NETLINK_ROOM - n->length) {
    n->bad = true;
    return NULL;
  }
  uint8_t *p = n->data + n->length;
  memset(p, 0, ALIGN(length));
  n->length += ALIGN(length);
  return p;
}

void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *header, size_t length) {
  n->message = n->length;
  n->sequence++;
  uint8_t *p = reserve(n, sizeof(struct nlmsghdr) + length);
  if (!p) return;
  struct nlmsghdr head = {.nlmsg_type = type, .nlmsg_flags = flags | NLM_F_REQUEST, .nlmsg_seq = n->sequence};
  memcpy(p, &head, sizeof head);
  memcpy(p + sizeof head, header, length);
}

void netlink_end(struct netlink *n) {
  if (n->bad) return;
  uint32_t length = (uint32_t)(n->length - n->message);
  memcpy(n->data + n->message, &length, sizeof length);
}

void netlink_put(struct netlink *n, uint16_t type, const void *data, size_t length) {
  uint8_t *p = reserve(n, sizeof(struct nlattr) + length);
  if (!p) return;
  struct nlattr head = {.nla_len = (uint16_t)(sizeof head + length), .nla_type = type};
  memcpy(p, &head, sizeof head);
  if (length) memcpy(p + sizeof head, data, length);
}

void netlink_put_u32(struct netlink *n, uint16_t type, uint32_t value) { netlink_put(n, type, &value, sizeof value); }

void netlink_put_be32(struct netlink *n, uint16_t type, uint32_t value) { netlink_put_u32(n, type, htonl(value)); }

void netlink_put_string(struct netlink *n, uint16_t type, const char *value) {
  netlink_put(n, type, value, strlen(value) + 1);
}

size_t netlink_open(struct netlink *n, uint16_t type) {
  size_t at = n->length;
  netlink_put(n, type | NLA_F_NESTED, NULL, 0);
  return at;
}

void netlink_close(struct netlink *n, size_t at) {
  if (n->bad) return;
  uint16_t length = (uint16_t)(n->length - at);
  memcpy(n->data + at, &length, sizeof length);
}

int netlink_socket(int family) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family); }

/* the errno in an acknowledgement, 0 for success, -1 when the message is something else */
static int error_of(const uint8_t *message, size_t length) {
  struct nlmsghdr head;
  struct nlmsgerr answer;
  if (length < sizeof head + sizeof answer.error) return -1;
  memcpy(&head, message, sizeof head);
  if (head.nlmsg_type != NLMSG_ERROR) return -1;
  memcpy(&answer.error, message + sizeof head, sizeof answer.error);
  return -answer.error;
}

int netlink_talk(int fd, struct netlink *n) {
  if (n->bad) return EMSGSIZE;
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  if (sendto(fd, n->data, n->length, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0) return errno;

  /* The kernel works through the messages inside sendto(): every answer is here already. */
  bool acknowledged = false;
  int first = 0;
  _Alignas(8) uint8_t answer[8192];
  for (;;) {
    ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return errno;
    size_t left = (size_t)got;
    const uint8_t *at = answer;
    while (left >= sizeof(struct nlmsghdr)) {
      uint32_t length;
      memcpy(&length, at, sizeof length);
      if (length < sizeof(struct nlmsghdr) || length > left) break;
      int error = error_of(at, length);
      if (error == 0) acknowledged = true;
      if (error > 0 && first == 0) first = error;
      size_t step = ALIGN(length) < left ? ALIGN(length) : left;
      at += step;
      left -= step;
    }
  }
  if (first) return first;
  return acknowledged ? 0 : EPROTO;
}

bool netlink_next(const uint8_t **at, size_t *left, struct netlink_attribute *out) {
  struct nlattr head;
  if (*left < sizeof head) return false;
  memcpy(&head, *at, sizeof head);
  if (head.nla_len < sizeof head || head.nla_len > *left) return false;
  out->type = head.nla_type & NLA_TYPE_MASK;
  out->data = *at + sizeof head;
  out->length = head.nla_len - sizeof head;
  size_t step = ALIGN(head.nla_len) < *left ? ALIGN(head.nla_len) : *left;
  *at += step;
  *left -= step;
  return true;
}
