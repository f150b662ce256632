/* nflog.c: the messages of nflog.h; their attributes are those of <linux/netfilter/nfnetlink_log.h>. */
#define _GNU_SOURCE
#include "network/nflog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "network/netlink.h"

/* of messages that wait, in bytes; the kernel counts some 1 KiB for each and takes twice of what is asked for */
#define RECEIVE_ROOM (64 << 10)

/* what a kernel calls it that has it; tests make one that has not */
#ifndef NFLOG_SUBSYSTEM
#define NFLOG_SUBSYSTEM NFNL_SUBSYS_ULOG
#endif

#define IPV4_HEADER 20
#define IPV4_PROTOCOL 9
#define IPV4_DESTINATION 16
#define IPV6_HEADER 40
#define IPV6_PROTOCOL 6
#define IPV6_DESTINATION 24
#define UDP_HEADER 8
/* where the port that is meant is in TCP's and UDP's header */
#define DESTINATION_PORT 2

static int listen_to(int fd, uint16_t group) {
  struct netlink n;
  struct nfgenmsg header = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(group)};
  struct nfulnl_msg_config_cmd command = {.command = NFULNL_CFG_CMD_BIND};
  struct nfulnl_msg_config_mode mode = {.copy_range = htonl(NFLOG_COPIED), .copy_mode = NFULNL_COPY_PACKET};
  netlink_reset(&n);
  netlink_begin(&n, (uint16_t)(NFLOG_SUBSYSTEM << 8) | NFULNL_MSG_CONFIG, NLM_F_ACK, &header, sizeof header);
  netlink_put(&n, NFULA_CFG_CMD, &command, sizeof command);
  netlink_put(&n, NFULA_CFG_MODE, &mode, sizeof mode);
  /* A message for each packet, at once: packets that were refused before a request have been reported by then. */
  netlink_put_be32(&n, NFULA_CFG_QTHRESH, 1);
  netlink_end(&n);
  return netlink_talk(fd, &n);
}

int nflog_open(int *out) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (fd < 0) return errno;
  int room = RECEIVE_ROOM, yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  /* What does not fit is counted, see nflog_lost(); it need not be an error, too. */
  setsockopt(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, &yes, sizeof yes);
  int error = EBUSY;
  /* The kernel returns EPERM for a group that another process listens to. */
  for (uint16_t group = 0; group < NFLOG_GROUPS && (error == EBUSY || error == EPERM); group++) {
    error = listen_to(fd, group);
  }
  if (error) close(fd);
  else *out = fd;
  return error;
}

ssize_t nflog_receive(int fd, void *buffer, size_t room) {
  struct sockaddr_nl from = {0};
  socklen_t size = sizeof from;
  ssize_t got = recvfrom(fd, buffer, room, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
  if (got < 0) return -1;
  /* No program inside may send here; should that ever change, only the kernel has this number. */
  return size == sizeof from && from.nl_pid == 0 ? got : 0;
}

/* ---- packets ---- */

static bool parse_packet(const uint8_t *packet, size_t length, struct refused *out) {
  bool v4 = length >= IPV4_HEADER && packet[0] >> 4 == 4;
  bool v6 = length >= IPV6_HEADER && packet[0] >> 4 == 6;
  if (!v4 && !v6) return false;
  size_t header = v4 ? (packet[0] & 15) * 4u : IPV6_HEADER;
  if (header < IPV4_HEADER || header > length) return false;
  out->protocol = packet[v4 ? IPV4_PROTOCOL : IPV6_PROTOCOL];
  out->to.family = v4 ? AF_INET : AF_INET6;
  memcpy(out->to.address, packet + (v4 ? IPV4_DESTINATION : IPV6_DESTINATION), v4 ? 4 : 16);
  const uint8_t *inner = packet + header;
  size_t left = length - header;
  if (out->protocol != IPPROTO_TCP && out->protocol != IPPROTO_UDP) return true;
  if (left >= DESTINATION_PORT + 2) {
    out->to.port = (uint16_t)(inner[DESTINATION_PORT] << 8 | inner[DESTINATION_PORT + 1]);
  }
  if (out->protocol == IPPROTO_UDP && left > UDP_HEADER) {
    out->data = inner + UDP_HEADER;
    out->length = left - UDP_HEADER;
  }
  return true;
}

bool nflog_parse(const void *message, size_t length, struct refused *out) {
  struct nlmsghdr head;
  size_t skip = sizeof head + sizeof(struct nfgenmsg);
  if (length < skip) return false;
  memcpy(&head, message, sizeof head);
  if (head.nlmsg_type != (NFLOG_SUBSYSTEM << 8 | NFULNL_MSG_PACKET) || head.nlmsg_len < skip) return false;
  /* a message that did not fit into the buffer is longer than what is there of it */
  if (head.nlmsg_len < length) length = head.nlmsg_len;
  const uint8_t *at = (const uint8_t *)message + skip;
  size_t left = length - skip;
  struct netlink_attribute attribute;
  *out = (struct refused){0};
  while (netlink_next(&at, &left, &attribute)) {
    if (attribute.type == NFULA_PAYLOAD) return parse_packet(attribute.data, attribute.length, out);
  }
  return false;
}

uint32_t nflog_lost(int fd) {
  uint32_t numbers[SK_MEMINFO_VARS] = {0};
  socklen_t size = sizeof numbers;
  if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, numbers, &size) < 0) return 0;
  return numbers[SK_MEMINFO_DROPS];
}
