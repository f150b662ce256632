/* packet.c: writes the IP, UDP and ICMP headers of packet.h's packets. */
#define _GNU_SOURCE
#include "network/packet.h"

#include <netinet/in.h>
#include <string.h>

#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define UDP_HEADER 8
#define ICMP_HEADER 8
#define HOPS 64
#define LONGEST (65535 + IPV6_HEADER)

bool endpoint_of(const struct sockaddr_storage *from, struct endpoint *out) {
  memset(out, 0, sizeof *out);
  out->family = from->ss_family;
  if (from->ss_family == AF_INET) {
    struct sockaddr_in v4;
    memcpy(&v4, from, sizeof v4);
    out->port = ntohs(v4.sin_port);
    memcpy(out->address, &v4.sin_addr, 4);
    return true;
  }
  if (from->ss_family == AF_INET6) {
    struct sockaddr_in6 v6;
    memcpy(&v6, from, sizeof v6);
    out->port = ntohs(v6.sin6_port);
    memcpy(out->address, &v6.sin6_addr, 16);
    return true;
  }
  return false;
}

socklen_t endpoint_to(const struct endpoint *from, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  if (from->family == AF_INET) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(from->port)};
    memcpy(&v4.sin_addr, from->address, 4);
    memcpy(out, &v4, sizeof v4);
    return sizeof v4;
  }
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
  memcpy(&v6.sin6_addr, from->address, 16);
  memcpy(out, &v6, sizeof v6);
  return sizeof v6;
}

void endpoint_text(const struct endpoint *endpoint, char out[INET6_ADDRSTRLEN]) {
  out[0] = 0;
  inet_ntop(endpoint->family, endpoint->address, out, INET6_ADDRSTRLEN);
}

static void put16(uint8_t *at, size_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

/* an IP header for `length` bytes that follow it; returns its own length. The kernel fills in IPv4's checksum. */
static size_t put_ip(uint8_t *at, const struct endpoint *from, const struct endpoint *to, uint8_t protocol,
                     size_t length) {
  if (from->family == AF_INET) {
    memset(at, 0, IPV4_HEADER);
    at[0] = 0x45;
    put16(at + 2, IPV4_HEADER + length);
    at[8] = HOPS;
    at[9] = protocol;
    memcpy(at + 12, from->address, 4);
    memcpy(at + 16, to->address, 4);
    return IPV4_HEADER;
  }
  memset(at, 0, IPV6_HEADER);
  at[0] = 0x60;
  put16(at + 4, length);
  at[6] = protocol;
  at[7] = HOPS;
  memcpy(at + 8, from->address, 16);
  memcpy(at + 24, to->address, 16);
  return IPV6_HEADER;
}

static void put_udp(uint8_t *at, const struct endpoint *from, const struct endpoint *to, size_t length) {
  put16(at, from->port);
  put16(at + 2, to->port);
  put16(at + 4, UDP_HEADER + length);
  put16(at + 6, 0);
}

static uint64_t sum(const uint8_t *data, size_t length) {
  uint64_t total = 0;
  for (size_t i = 0; i + 1 < length; i += 2) total += (uint64_t)data[i] << 8 | data[i + 1];
  if (length % 2) total += (uint64_t)data[length - 1] << 8;
  return total;
}

/* the internet checksum (RFC 1071), with the pseudo header of UDP and ICMPv6 where `from` is given */
static uint16_t checksum(const struct endpoint *from, const struct endpoint *to, uint8_t protocol, const uint8_t *data,
                         size_t length) {
  uint64_t total = sum(data, length);
  if (from) total += sum(from->address, 16) + sum(to->address, 16) + protocol + length;
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  return (uint16_t)~total;
}

static void send_packet(int raw, const struct endpoint *to, const uint8_t *data, size_t length) {
  struct sockaddr_storage address;
  struct endpoint host = *to;
  /* A raw socket takes a port for a protocol and refuses any but its own. */
  host.port = 0;
  socklen_t size = endpoint_to(&host, &address);
  (void)!sendto(raw, data, length, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, size);
}

void packet_send(int raw, const struct endpoint *from, const struct endpoint *to, const void *data, size_t length) {
  static uint8_t packet[LONGEST];
  size_t headers = (from->family == AF_INET ? IPV4_HEADER : IPV6_HEADER) + UDP_HEADER;
  if (raw < 0 || from->family != to->family || length > 65535 - headers) return;
  size_t at = put_ip(packet, from, to, IPPROTO_UDP, UDP_HEADER + length);
  put_udp(packet + at, from, to, length);
  if (length) memcpy(packet + at + UDP_HEADER, data, length);
  uint16_t check = checksum(from, to, IPPROTO_UDP, packet + at, UDP_HEADER + length);
  /* Zero means "none" in UDP; all ones is the same number. */
  put16(packet + at + 6, check ? check : 0xffff);
  send_packet(raw, to, packet, at + UDP_HEADER + length);
}

void packet_unreachable(int raw, const struct endpoint *from, const struct endpoint *to, enum unreachable why) {
  /* type and code, of ICMP and of ICMPv6 */
  static const uint8_t code4[] = {[UNREACHABLE_PORT] = 3, [UNREACHABLE_HOST] = 1, [UNREACHABLE_PROHIBITED] = 13};
  static const uint8_t code6[] = {[UNREACHABLE_PORT] = 4, [UNREACHABLE_HOST] = 3, [UNREACHABLE_PROHIBITED] = 1};
  if (raw < 0 || from->family != to->family) return;
  bool v4 = from->family == AF_INET;
  uint8_t packet[2 * IPV6_HEADER + ICMP_HEADER + UDP_HEADER];
  size_t quoted = (v4 ? IPV4_HEADER : IPV6_HEADER) + UDP_HEADER;
  size_t at = put_ip(packet, from, to, v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, ICMP_HEADER + quoted);
  uint8_t *icmp = packet + at;
  memset(icmp, 0, ICMP_HEADER);
  icmp[0] = v4 ? 3 : 1;
  icmp[1] = v4 ? code4[why] : code6[why];
  /* The datagram that failed is quoted: by its addresses and ports the kernel finds the socket that sent it. */
  size_t header = put_ip(icmp + ICMP_HEADER, to, from, IPPROTO_UDP, UDP_HEADER);
  put_udp(icmp + ICMP_HEADER + header, to, from, 0);
  put16(icmp + 2, checksum(v4 ? NULL : from, to, IPPROTO_ICMPV6, icmp, ICMP_HEADER + quoted));
  send_packet(raw, to, packet, at + ICMP_HEADER + quoted);
}
