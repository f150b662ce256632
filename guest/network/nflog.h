/*
 * nflog.h: what the kernel tells of packets that a sandbox's ruleset refuses (nfnetlink_log): the beginning of each.
 *
 * A group of the kernel's log has one listener. There are two groups, and rules log to both: a process that opens a socket while
 * an earlier one is still open somewhere takes the other group.
 */
#ifndef SANDKEEP_NFLOG_H
#define SANDKEEP_NFLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "network/packet.h"

#define NFLOG_GROUPS 2

/* bytes of a packet: the longest IPv4 header, a UDP header and a DNS question with the longest name */
#define NFLOG_COPIED (60 + 8 + 12 + 255 + 4)

/* A packet that was refused. */
struct refused {
  uint8_t protocol;
  /* the port is 0 where the protocol is neither TCP nor UDP, or the packet is too short to have one */
  struct endpoint to;
  /* what a datagram carries, as far as it was copied; in the buffer that was read */
  const uint8_t *data;
  size_t length;
};

/* Opens a socket, nonblocking and close-on-exec, that receives packets of the caller's network namespace. Takes
 * CAP_NET_ADMIN over it; reading takes none. Returns 0 or an errno, EBUSY when each group has a listener. */
int nflog_open(int *out);

/* one message of the kernel into the buffer; 0 for one from another sender, -1 when there is no message */
ssize_t nflog_receive(int fd, void *buffer, size_t room);
/* false when the message tells of no packet, or of one that is no whole IP header */
bool nflog_parse(const void *message, size_t length, struct refused *out);
/* packets that the kernel could not report since the socket was opened, because it was full; wraps around */
uint32_t nflog_lost(int fd);

#endif
