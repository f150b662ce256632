/*
 * fuzz_nflog.c: arbitrary bytes as a message of the kernel's log, and as a packet in a message that is well formed
 * (libFuzzer). Whatever a sandbox sends, what is read of it lies within what came.
 */
#define _GNU_SOURCE
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "network/nflog.h"

#define CHECK(truth) ((truth) ? (void)0 : abort())
#define HEADERS (sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg))

static void parse(const uint8_t *message, size_t length) {
  struct refused refused;
  if (!nflog_parse(message, length, &refused)) return;
  CHECK(refused.to.family == AF_INET || refused.to.family == AF_INET6);
  CHECK(refused.to.port == 0 || refused.protocol == IPPROTO_TCP || refused.protocol == IPPROTO_UDP);
  CHECK(!refused.data == !refused.length && (refused.protocol == IPPROTO_UDP || !refused.data));
  if (refused.data) CHECK(refused.data > message && refused.data + refused.length <= message + length);
  char text[INET6_ADDRSTRLEN];
  endpoint_text(&refused.to, text);
  CHECK(text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse(data, size);
  size_t whole = HEADERS + sizeof(struct nlattr) + size;
  struct nlmsghdr head = {.nlmsg_len = (uint32_t)whole, .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET};
  struct nlattr payload = {.nla_len = (uint16_t)(sizeof payload + size), .nla_type = NFULA_PAYLOAD};
  /* of its very size, so that a byte beyond it is found out */
  uint8_t *message = calloc(1, whole);
  CHECK(message);
  memcpy(message, &head, sizeof head);
  memcpy(message + HEADERS, &payload, sizeof payload);
  if (size) memcpy(message + HEADERS + sizeof payload, data, size);
  parse(message, whole);
  free(message);
  return 0;
}
