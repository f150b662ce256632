/* packet.h: the packets that netd sends into a sandbox as if they came from outside. */
#ifndef SANDKEEP_PACKET_H
#define SANDKEEP_PACKET_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address and a port. Without padding and with unused bytes zero, so that memcmp() compares it. */
struct endpoint {
  uint16_t family; /* AF_INET or AF_INET6 */
  uint16_t port;
  uint8_t address[16];
};

/* false when it is of another family */
bool endpoint_of(const struct sockaddr_storage *from, struct endpoint *out);
socklen_t endpoint_to(const struct endpoint *from, struct sockaddr_storage *out);
/* the address as text */
void endpoint_text(const struct endpoint *endpoint, char out[INET6_ADDRSTRLEN]);

/* Why a datagram did not get there. */
enum unreachable { UNREACHABLE_PORT, UNREACHABLE_HOST, UNREACHABLE_PROHIBITED };

/* Both send through a raw socket of the sandbox (net.h) and let go of what the kernel does not take at once, as
 * networks do. The endpoints are of one family. */
void packet_send(int raw, const struct endpoint *from, const struct endpoint *to, const void *data, size_t length);
/* tells `to` that its datagrams to `from` get nowhere */
void packet_unreachable(int raw, const struct endpoint *from, const struct endpoint *to, enum unreachable why);

#endif
