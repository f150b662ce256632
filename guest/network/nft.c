/* nft.c: the nf_tables messages of nft.h; their attributes are those of <linux/netfilter/nf_tables.h>. */
#define _GNU_SOURCE
#include "network/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "network/nflog.h"

/* where things are in the two headers, and the flags in TCP's */
#define IPV4_SERVICE 1
#define IPV4_HOPS 8
#define IPV4_CHECKSUM 10
#define IPV4_DESTINATION 16
#define IPV6_SERVICE 0
#define IPV6_HOPS 7
#define IPV6_DESTINATION 24
#define TCP_FLAGS 13

/* what a kernel calls it that has it; tests make one that has not */
#ifndef NFT_LOG
#define NFT_LOG "log"
#endif

static void begin(struct nft *t, uint16_t type, uint16_t flags) {
  struct nfgenmsg family = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
  netlink_begin(&t->messages, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8) | type, flags, &family, sizeof family);
}

static void batch(struct nft *t, uint16_t type) {
  struct nfgenmsg subsystem = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
  netlink_begin(&t->messages, type, 0, &subsystem, sizeof subsystem);
  netlink_end(&t->messages);
}

void nft_begin(struct nft *t) {
  t->table = "";
  netlink_reset(&t->messages);
  batch(t, NFNL_MSG_BATCH_BEGIN);
}

int nft_commit(struct nft *t) {
  /* The last message asks to be acknowledged: its answer is that of the whole transaction. */
  struct nlmsghdr *last = (struct nlmsghdr *)(void *)(t->messages.data + t->messages.message);
  if (!t->messages.bad) last->nlmsg_flags |= NLM_F_ACK;
  batch(t, NFNL_MSG_BATCH_END);
  int fd = netlink_socket(NETLINK_NETFILTER);
  if (fd < 0) return errno;
  int error = netlink_talk(fd, &t->messages);
  close(fd);
  return error;
}

static void put_table(struct nft *t, uint16_t message_flags, uint32_t table_flags) {
  begin(t, NFT_MSG_NEWTABLE, message_flags);
  netlink_put_string(&t->messages, NFTA_TABLE_NAME, t->table);
  netlink_put_be32(&t->messages, NFTA_TABLE_FLAGS, table_flags);
  netlink_end(&t->messages);
}

void nft_add_table(struct nft *t, const char *name) {
  t->table = name;
  put_table(t, NLM_F_CREATE | NLM_F_EXCL, 0);
}

void nft_wake_table(struct nft *t, const char *name, bool awake) {
  t->table = name;
  put_table(t, 0, awake ? 0 : NFT_TABLE_F_DORMANT);
}

void nft_add_counter(struct nft *t, const char *name) {
  struct netlink *n = &t->messages;
  begin(t, NFT_MSG_NEWOBJ, NLM_F_CREATE | NLM_F_EXCL);
  netlink_put_string(n, NFTA_OBJ_TABLE, t->table);
  netlink_put_string(n, NFTA_OBJ_NAME, name);
  netlink_put_be32(n, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
  netlink_close(n, netlink_open(n, NFTA_OBJ_DATA));
  netlink_end(n);
}

void nft_add_chain(struct nft *t, const char *name) {
  begin(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
  netlink_put_string(&t->messages, NFTA_CHAIN_TABLE, t->table);
  netlink_put_string(&t->messages, NFTA_CHAIN_NAME, name);
  netlink_end(&t->messages);
}

void nft_add_base_chain(struct nft *t, const char *name, uint32_t hook, int32_t priority) {
  struct netlink *n = &t->messages;
  begin(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
  netlink_put_string(n, NFTA_CHAIN_TABLE, t->table);
  netlink_put_string(n, NFTA_CHAIN_NAME, name);
  size_t at = netlink_open(n, NFTA_CHAIN_HOOK);
  netlink_put_be32(n, NFTA_HOOK_HOOKNUM, hook);
  netlink_put_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)priority);
  netlink_close(n, at);
  netlink_put_string(n, NFTA_CHAIN_TYPE, "filter");
  netlink_put_be32(n, NFTA_CHAIN_POLICY, NF_DROP);
  netlink_end(n);
}

void nft_rule(struct nft *t, const char *chain) {
  begin(t, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
  netlink_put_string(&t->messages, NFTA_RULE_TABLE, t->table);
  netlink_put_string(&t->messages, NFTA_RULE_CHAIN, chain);
  t->rule = netlink_open(&t->messages, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct nft *t) {
  netlink_close(&t->messages, t->rule);
  netlink_end(&t->messages);
}

/* An expression under construction: a list element that holds its name and its attributes. */
struct expression {
  size_t element;
  size_t data;
};

static struct expression open_expression(struct nft *t, const char *name) {
  struct expression e = {.element = netlink_open(&t->messages, NFTA_LIST_ELEM)};
  netlink_put_string(&t->messages, NFTA_EXPR_NAME, name);
  e.data = netlink_open(&t->messages, NFTA_EXPR_DATA);
  return e;
}

static void close_expression(struct nft *t, struct expression e) {
  netlink_close(&t->messages, e.data);
  netlink_close(&t->messages, e.element);
}

static void put_value(struct nft *t, uint16_t type, const void *data, size_t length) {
  size_t at = netlink_open(&t->messages, type);
  netlink_put(&t->messages, NFTA_DATA_VALUE, data, length);
  netlink_close(&t->messages, at);
}

static void load_meta(struct nft *t, uint32_t key) {
  struct expression e = open_expression(t, "meta");
  netlink_put_be32(&t->messages, NFTA_META_DREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_META_KEY, key);
  close_expression(t, e);
}

static void load_payload(struct nft *t, uint32_t base, uint32_t offset, size_t length) {
  struct expression e = open_expression(t, "payload");
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_DREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_BASE, base);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_OFFSET, offset);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_LEN, (uint32_t)length);
  close_expression(t, e);
}

static void load_value(struct nft *t, uint32_t reg, const void *data, size_t length) {
  struct expression e = open_expression(t, "immediate");
  netlink_put_be32(&t->messages, NFTA_IMMEDIATE_DREG, reg);
  put_value(t, NFTA_IMMEDIATE_DATA, data, length);
  close_expression(t, e);
}

/* leaves of what was loaded the bits of the mask */
static void mask(struct nft *t, const void *bits, size_t length) {
  static const uint8_t zero[4];
  struct expression e = open_expression(t, "bitwise");
  netlink_put_be32(&t->messages, NFTA_BITWISE_SREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_BITWISE_DREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_BITWISE_LEN, (uint32_t)length);
  put_value(t, NFTA_BITWISE_MASK, bits, length);
  put_value(t, NFTA_BITWISE_XOR, zero, length);
  close_expression(t, e);
}

static void compare(struct nft *t, const void *data, size_t length) {
  struct expression e = open_expression(t, "cmp");
  netlink_put_be32(&t->messages, NFTA_CMP_SREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_CMP_OP, NFT_CMP_EQ);
  put_value(t, NFTA_CMP_DATA, data, length);
  close_expression(t, e);
}

static void verdict(struct nft *t, int code, const char *chain) {
  struct netlink *n = &t->messages;
  struct expression e = open_expression(t, "immediate");
  netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
  size_t data = netlink_open(n, NFTA_IMMEDIATE_DATA);
  size_t inner = netlink_open(n, NFTA_DATA_VERDICT);
  netlink_put_be32(n, NFTA_VERDICT_CODE, (uint32_t)code);
  if (chain) netlink_put_string(n, NFTA_VERDICT_CHAIN, chain);
  netlink_close(n, inner);
  netlink_close(n, data);
  close_expression(t, e);
}

void nft_match_family(struct nft *t, uint8_t family) {
  load_meta(t, NFT_META_NFPROTO);
  compare(t, &family, sizeof family);
}

void nft_match_protocol(struct nft *t, uint8_t protocol) {
  load_meta(t, NFT_META_L4PROTO);
  compare(t, &protocol, sizeof protocol);
}

void nft_match_mark(struct nft *t, uint32_t mark) {
  load_meta(t, NFT_META_MARK);
  compare(t, &mark, sizeof mark);
}

void nft_match_dscp(struct nft *t, uint8_t family, uint8_t dscp) {
  /* In IPv6 it lies across two bytes, after the version; two bits of congestion control follow it in both. */
  bool v4 = family == NFPROTO_IPV4;
  uint8_t bits[] = {0x0f, 0xc0}, value[] = {dscp >> 2, (uint8_t)(dscp << 6)};
  uint8_t bits4 = 0xfc, value4 = (uint8_t)(dscp << 2);
  size_t length = v4 ? sizeof value4 : sizeof value;
  load_payload(t, NFT_PAYLOAD_NETWORK_HEADER, v4 ? IPV4_SERVICE : IPV6_SERVICE, length);
  mask(t, v4 ? &bits4 : bits, length);
  compare(t, v4 ? &value4 : value, length);
}

void nft_match_hops(struct nft *t, uint8_t family, uint8_t hops) {
  load_payload(t, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? IPV4_HOPS : IPV6_HOPS, sizeof hops);
  compare(t, &hops, sizeof hops);
}

void nft_match_destination(struct nft *t, const void *address, size_t length) {
  load_payload(t, NFT_PAYLOAD_NETWORK_HEADER, length == 4 ? IPV4_DESTINATION : IPV6_DESTINATION, length);
  compare(t, address, length);
}

void nft_match_network(struct nft *t, uint8_t first) {
  load_payload(t, NFT_PAYLOAD_NETWORK_HEADER, IPV4_DESTINATION, sizeof first);
  compare(t, &first, sizeof first);
}

void nft_match_flags(struct nft *t, uint8_t wanted, uint8_t flags) {
  load_payload(t, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, sizeof wanted);
  mask(t, &wanted, sizeof wanted);
  compare(t, &flags, sizeof flags);
}

void nft_count(struct nft *t, const char *counter) {
  struct expression e = open_expression(t, "objref");
  netlink_put_be32(&t->messages, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
  netlink_put_string(&t->messages, NFTA_OBJREF_IMM_NAME, counter);
  close_expression(t, e);
}

void nft_log(struct nft *t) {
  for (uint16_t group = 0; group < NFLOG_GROUPS; group++) {
    uint16_t network_group = htons(group);
    struct expression e = open_expression(t, NFT_LOG);
    netlink_put(&t->messages, NFTA_LOG_GROUP, &network_group, sizeof network_group);
    close_expression(t, e);
  }
}

void nft_set_mark(struct nft *t, uint32_t mark) {
  load_value(t, NFT_REG_1, &mark, sizeof mark);
  struct expression e = open_expression(t, "meta");
  netlink_put_be32(&t->messages, NFTA_META_SREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_META_KEY, NFT_META_MARK);
  close_expression(t, e);
}

void nft_set_hops(struct nft *t, uint8_t family, uint8_t protocol, uint8_t hops) {
  /* The checksum of IPv4 is one of pairs of bytes: the protocol is written again with it. */
  bool v4 = family == NFPROTO_IPV4;
  uint8_t pair[] = {hops, protocol};
  size_t length = v4 ? sizeof pair : sizeof hops;
  load_value(t, NFT_REG_1, pair, length);
  struct expression e = open_expression(t, "payload");
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_SREG, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_OFFSET, v4 ? IPV4_HOPS : IPV6_HOPS);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_LEN, (uint32_t)length);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_CSUM_TYPE, v4 ? NFT_PAYLOAD_CSUM_INET : NFT_PAYLOAD_CSUM_NONE);
  netlink_put_be32(&t->messages, NFTA_PAYLOAD_CSUM_OFFSET, v4 ? IPV4_CHECKSUM : 0);
  close_expression(t, e);
}

void nft_accept(struct nft *t) { verdict(t, NF_ACCEPT, NULL); }
void nft_drop(struct nft *t) { verdict(t, NF_DROP, NULL); }
void nft_jump(struct nft *t, const char *chain) { verdict(t, NFT_JUMP, chain); }

static void reject(struct nft *t, uint32_t type, uint8_t code) {
  struct expression e = open_expression(t, "reject");
  netlink_put_be32(&t->messages, NFTA_REJECT_TYPE, type);
  netlink_put(&t->messages, NFTA_REJECT_ICMP_CODE, &code, sizeof code);
  close_expression(t, e);
}

void nft_reject_reset(struct nft *t) { reject(t, NFT_REJECT_TCP_RST, 0); }
void nft_reject(struct nft *t) { reject(t, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED); }

void nft_transparent(struct nft *t, uint8_t family, const void *address, size_t length, uint16_t port) {
  uint16_t network_port = htons(port);
  load_value(t, NFT_REG_1, address, length);
  load_value(t, NFT_REG_2, &network_port, sizeof network_port);
  struct expression e = open_expression(t, "tproxy");
  netlink_put_be32(&t->messages, NFTA_TPROXY_FAMILY, family);
  netlink_put_be32(&t->messages, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
  netlink_put_be32(&t->messages, NFTA_TPROXY_REG_PORT, NFT_REG_2);
  close_expression(t, e);
}

/* finds an attribute inside the ones at [data, data + length) */
static bool find(const uint8_t *data, size_t length, uint16_t type, struct netlink_attribute *out) {
  while (netlink_next(&data, &length, out)) {
    if (out->type == type) return true;
  }
  return false;
}

int nft_read_counter(int fd, const char *table, const char *counter, uint64_t *bytes) {
  struct nft t = {.table = table};
  netlink_reset(&t.messages);
  begin(&t, NFT_MSG_GETOBJ, 0);
  netlink_put_string(&t.messages, NFTA_OBJ_TABLE, table);
  netlink_put_string(&t.messages, NFTA_OBJ_NAME, counter);
  netlink_put_be32(&t.messages, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
  netlink_end(&t.messages);
  if (t.messages.bad) return EMSGSIZE;
  if (send(fd, t.messages.data, t.messages.length, 0) < 0) return errno;

  _Alignas(8) uint8_t answer[2048];
  /* The answer is queued before send() returns; a missing one must not block. */
  ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
  if (got < 0) return errno;
  size_t skip = sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg);
  if ((size_t)got < skip) return EPROTO;
  struct nlmsghdr head;
  memcpy(&head, answer, sizeof head);
  if (head.nlmsg_type == NLMSG_ERROR) {
    int error;
    memcpy(&error, answer + sizeof head, sizeof error);
    return error ? -error : EPROTO;
  }
  struct netlink_attribute data, value;
  if (!find(answer + skip, (size_t)got - skip, NFTA_OBJ_DATA, &data)) return EPROTO;
  if (!find(data.data, data.length, NFTA_COUNTER_BYTES, &value) || value.length != 8) return EPROTO;
  *bytes = 0;
  for (size_t i = 0; i < 8; i++) *bytes = *bytes << 8 | value.data[i];
  return 0;
}
