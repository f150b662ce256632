/* netlink.h: builds netlink messages in a fixed buffer, sends them in one go and reads what the kernel answers. */
#ifndef SANDKEEP_NETLINK_H
#define SANDKEEP_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_ROOM 12288

/* Messages that follow each other. Once one does not fit, `bad` stays set and nothing is sent. */
struct netlink {
  size_t length;
  /* where the message under construction begins */
  size_t message;
  uint32_t sequence;
  bool bad;
  _Alignas(8) uint8_t data[NETLINK_ROOM];
};

void netlink_reset(struct netlink *n);
/* begins a message; `header` is what its family wants after the netlink header */
void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *header, size_t length);
void netlink_end(struct netlink *n);

/* attributes of the message under construction */
void netlink_put(struct netlink *n, uint16_t type, const void *data, size_t length);
void netlink_put_u32(struct netlink *n, uint16_t type, uint32_t value);
/* in network order, as nf_tables wants its numbers */
void netlink_put_be32(struct netlink *n, uint16_t type, uint32_t value);
void netlink_put_string(struct netlink *n, uint16_t type, const char *value);
/* an attribute that holds attributes; netlink_close() takes what this returned */
size_t netlink_open(struct netlink *n, uint16_t type);
void netlink_close(struct netlink *n, size_t at);

/* a socket of this family (NETLINK_ROUTE, NETLINK_NETFILTER) in the caller's network namespace, or -1 */
int netlink_socket(int family);
/*
 * Sends all messages at once and reads the acknowledgements. Returns 0 or the errno of the first message that was
 * refused. At least the last message must ask for an acknowledgement.
 */
int netlink_talk(int fd, struct netlink *n);

/* One attribute of a message that the kernel sent. */
struct netlink_attribute {
  uint16_t type;
  const uint8_t *data;
  size_t length;
};
/* takes the next attribute off the front of [*at, *at + *left); false at the end or where they are malformed */
bool netlink_next(const uint8_t **at, size_t *left, struct netlink_attribute *out);

#endif
