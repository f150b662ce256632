/*
 * nft.h: says a ruleset to the kernel's nf_tables, in one transaction, without the nft program or a library.
 *
 * A transaction is nft_begin(), then tables with their chains, counters and rules, then nft_commit(). All tables are of
 * the family "inet", which sees IPv4 and IPv6 alike. A rule is nft_rule(), its matches and actions in the order in
 * which the kernel evaluates them, and nft_rule_end(): a match that fails ends the rule, and the next one is tried.
 */
#ifndef SANDKEEP_NFT_H
#define SANDKEEP_NFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "network/netlink.h"

struct nft {
  const char *table;
  struct netlink messages;
  size_t rule;
};

void nft_begin(struct nft *t);
/* carries out everything since nft_begin() or nothing; returns 0 or an errno */
int nft_commit(struct nft *t);

/* what follows belongs to this table, which is made */
void nft_add_table(struct nft *t, const char *name);
/* The rules of a table that is asleep do not apply. Waking a table and putting it to sleep is the one change that the
 * kernel makes without waiting for the readers of what it replaces, which takes 10 to 25 ms. */
void nft_wake_table(struct nft *t, const char *name, bool awake);
void nft_add_counter(struct nft *t, const char *name);
void nft_add_chain(struct nft *t, const char *name);
/* a chain that the kernel calls: hook NF_INET_*, a lower priority sooner; what no rule accepts is dropped */
void nft_add_base_chain(struct nft *t, const char *name, uint32_t hook, int32_t priority);

void nft_rule(struct nft *t, const char *chain);
void nft_rule_end(struct nft *t);

/* matches */
void nft_match_family(struct nft *t, uint8_t family); /* NFPROTO_IPV4 or NFPROTO_IPV6 */
void nft_match_protocol(struct nft *t, uint8_t protocol);
void nft_match_mark(struct nft *t, uint32_t mark);
/* the kind of service that the sender asks for, and how many hops are left, in a packet of this family, which must have
 * been matched before */
void nft_match_dscp(struct nft *t, uint8_t family, uint8_t dscp);
void nft_match_hops(struct nft *t, uint8_t family, uint8_t hops);
/* the packet's destination, an IPv4 (4 bytes) or IPv6 (16 bytes) address; the family must have been matched before */
void nft_match_destination(struct nft *t, const void *address, size_t length);
/* an IPv4 destination that begins with this byte */
void nft_match_network(struct nft *t, uint8_t first);
/* a TCP packet of whose flags under the mask exactly these are set; the protocol must have been matched before */
void nft_match_flags(struct nft *t, uint8_t mask, uint8_t flags);

/* actions */
void nft_count(struct nft *t, const char *counter);
/* tells the listeners of nflog.h */
void nft_log(struct nft *t);
void nft_set_mark(struct nft *t, uint32_t mark);
/* in a packet of this family and protocol, both of which must have been matched before */
void nft_set_hops(struct nft *t, uint8_t family, uint8_t protocol, uint8_t hops);
void nft_accept(struct nft *t);
void nft_drop(struct nft *t);
void nft_jump(struct nft *t, const char *chain);
/* answers the sender with a TCP reset */
void nft_reject_reset(struct nft *t);
/* answers the sender with "administratively prohibited" */
void nft_reject(struct nft *t);
/* hands the packet to the transparent socket that is bound to this address and port; fails like a match without one */
void nft_transparent(struct nft *t, uint8_t family, const void *address, size_t length, uint16_t port);

/* bytes that a counter has seen; returns 0 or an errno */
int nft_read_counter(int fd, const char *table, const char *counter, uint64_t *bytes);

#endif
