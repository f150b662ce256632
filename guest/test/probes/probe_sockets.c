/* probe_sockets.c: kinds of sockets beyond local, TCP and UDP, power over the network, and sockets of the host. */
#define _GNU_SOURCE
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static enum ending make_socket(const struct probe *p) {
  return reached(socket((int)p->first, (int)p->second, (int)p->third));
}

static enum ending make_pair(const struct probe *p) {
  int fds[2];
  /* ENOTSUP comes after both sockets were made */
  return socketpair((int)p->first, (int)p->second, (int)p->third, fds) && errno != EOPNOTSUPP
             ? is_closed("%s", strerror(errno))
             : is_open("the kernel made the sockets");
}

/* Every family there is or will be, but the four that are wanted. */
static enum ending any_other_family(const struct probe *p) {
  (void)p;
  static const int TYPES[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
  for (int family = 0; family < 128; family++) {
    if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK) continue;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
      for (int protocol = 0; protocol < 8; protocol++)
        if (socket(family, TYPES[i], protocol) >= 0)
          return is_open("family %d, type %d, protocol %d", family, TYPES[i], protocol);
  }
  return is_closed("none can be made");
}

static enum ending any_other_netlink(const struct probe *p) {
  (void)p;
  for (int protocol = 1; protocol < 32; protocol++)
    if (socket(AF_NETLINK, SOCK_RAW, protocol) >= 0) return is_open("protocol %d", protocol);
  return is_closed("none can be made");
}

/* rtnetlink asks for CAP_NET_ADMIN before it looks for the interface, which does not exist. */
static enum ending change_link(const struct probe *p) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return is_closed("%s", strerror(errno));
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
  } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = (uint16_t)p->first,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
               .link = {.ifi_family = AF_UNSPEC, .ifi_index = 0x7ffffff0}};
  char answer[1024];
  if (send(fd, &request, sizeof request, 0) < 0) return is_closed("%s", strerror(errno));
  ssize_t got = recv(fd, answer, sizeof answer, 0);
  if (got < (ssize_t)(sizeof(struct nlmsghdr) + sizeof(struct nlmsgerr))) return untried("no answer from rtnetlink");
  struct nlmsgerr error;
  memcpy(&error, answer + sizeof(struct nlmsghdr), sizeof error);
  errno = -error.error;
  return reached(error.error ? -1 : 0);
}

/* Sets the loopback's MTU to what it is. */
static enum ending set_mtu(const struct probe *p) {
  (void)p;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_name = "lo"};
  if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request)) return untried("no loopback: %s", strerror(errno));
  return reached(ioctl(fd, SIOCSIFMTU, &request));
}

static enum ending set_option(const struct probe *p) {
  int fd = socket(AF_INET, p->third ? (int)p->third : SOCK_DGRAM, 0), one = 1;
  if (fd < 0) return untried("no socket: %s", strerror(errno));
  return reached(setsockopt(fd, (int)p->first, (int)p->second, &one, sizeof one));
}

static enum ending other_interfaces(const struct probe *p) {
  (void)p;
  struct if_nameindex *interfaces = if_nameindex();
  if (!interfaces) return is_closed("%s", strerror(errno));
  for (struct if_nameindex *i = interfaces; i->if_index; i++)
    if (strcmp(i->if_name, "lo")) return is_open("there is \"%s\"", i->if_name);
  return is_closed("there is only lo");
}

/* The argument is the name of a socket with a listener outside. */
static enum ending abstract_socket(const struct probe *p) {
  (void)p;
  if (!probe_argument) return untried("needs the name of a socket outside");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(probe_argument);
  if (length > sizeof address.sun_path - 1) return untried("the name is too long");
  memcpy(address.sun_path + 1, probe_argument, length);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  return ended(connect(fd, (struct sockaddr *)&address, size));
}

/* Abstract sockets and bound paths of all processes in this network namespace: none but ours may be listed. */
static enum ending unix_sockets(const struct probe *p) {
  (void)p;
  char line[512];
  FILE *file = fopen("/proc/net/unix", "re");
  if (!file) return is_closed("%s", strerror(errno));
  while (fgets(line, sizeof line, file)) {
    char *name = strpbrk(line, "/@");
    if (!name) continue;
    name[strcspn(name, "\n")] = 0;
    fclose(file);
    return is_open("a socket \"%s\" is listed", name);
  }
  fclose(file);
  return is_closed("no named socket is listed");
}

/* The argument is ADDRESS:PORT (IPv4). */
static enum ending connect_to(const struct probe *p) {
  (void)p;
  char address[64];
  struct sockaddr_in target = {.sin_family = AF_INET};
  if (!probe_argument) return untried("needs ADDRESS:PORT");
  snprintf(address, sizeof address, "%s", probe_argument);
  char *colon = strchr(address, ':');
  if (!colon) return untried("needs ADDRESS:PORT");
  *colon = 0;
  target.sin_port = htons((uint16_t)atoi(colon + 1));
  if (inet_pton(AF_INET, address, &target.sin_addr) != 1) return untried("needs ADDRESS:PORT");
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&target, sizeof target)) return is_closed("%s", strerror(errno));
  /* a proxy accepts before it decides: only a byte from the other side counts */
  struct timeval patience = {.tv_sec = 5};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte;
  ssize_t got = recv(fd, &byte, 1, 0);
  if (got == 1) return is_open("the other side answered");
  return is_closed("accepted, then nothing (%s)", got ? strerror(errno) : "closed");
}

const struct probe SOCKET_PROBES[] = {
    {"socket-raw-ipv4", make_socket, NULL, AF_INET, SOCK_RAW, IPPROTO_ICMP},
    {"socket-raw-ipv4-any", make_socket, NULL, AF_INET, SOCK_RAW, IPPROTO_RAW},
    {"socket-raw-ipv6", make_socket, NULL, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
    {"socket-packet-in-inet", make_socket, NULL, AF_INET, SOCK_PACKET, 0x300},
    {"socket-packet-raw", make_socket, NULL, AF_PACKET, SOCK_RAW, 0x300},
    {"socket-packet-datagram", make_socket, NULL, AF_PACKET, SOCK_DGRAM, 0},
    {"socket-crypto-alg", make_socket, NULL, AF_ALG, SOCK_SEQPACKET, 0},
    {"socket-vsock-stream", make_socket, NULL, AF_VSOCK, SOCK_STREAM, 0},
    {"socket-vsock-datagram", make_socket, NULL, AF_VSOCK, SOCK_DGRAM, 0},
    {"socket-bluetooth", make_socket, NULL, AF_BLUETOOTH, SOCK_RAW, 1},
    {"socket-can", make_socket, NULL, AF_CAN, SOCK_RAW, 1},
    {"socket-tipc", make_socket, NULL, AF_TIPC, SOCK_SEQPACKET, 0},
    {"socket-ipsec-key", make_socket, NULL, AF_KEY, SOCK_RAW, 2},
    {"socket-rds", make_socket, NULL, AF_RDS, SOCK_SEQPACKET, 0},
    {"socket-xdp", make_socket, NULL, 44, SOCK_RAW, 0},
    {"socket-smc", make_socket, NULL, 43, SOCK_STREAM, 0},
    {"socket-kcm", make_socket, NULL, 41, SOCK_DGRAM, 0},
    {"socket-sctp", make_socket, NULL, AF_INET, SOCK_STREAM, IPPROTO_SCTP},
    {"socket-sctp-seqpacket", make_socket, NULL, AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP},
    {"socket-dccp", make_socket, NULL, AF_INET, SOCK_DCCP, IPPROTO_DCCP},
    {"socket-udplite", make_socket, NULL, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE},
    {"socket-mptcp", make_socket, NULL, AF_INET, SOCK_STREAM, 262},
    {"socket-ping", make_socket, NULL, AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
    {"socket-any-other-family", any_other_family, NULL, 0, 0, 0},
    {"socketpair-vsock", make_pair, NULL, AF_VSOCK, SOCK_STREAM, 0},
    {"socketpair-inet", make_pair, NULL, AF_INET, SOCK_STREAM, 0},
    {"netlink-netfilter", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
    {"netlink-audit", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
    {"netlink-xfrm", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_XFRM},
    {"netlink-generic", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
    {"netlink-uevent", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
    {"netlink-socket-diagnostics", make_socket, NULL, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG},
    {"netlink-any-other", any_other_netlink, NULL, 0, 0, 0},
    {"net-admin-delete-link", change_link, NULL, RTM_DELLINK, 0, 0},
    {"net-admin-change-link", change_link, NULL, RTM_SETLINK, 0, 0},
    {"net-admin-set-mtu", set_mtu, NULL, 0, 0, 0},
    {"net-admin-mark", set_option, NULL, SOL_SOCKET, SO_MARK, 0},
    {"net-admin-transparent", set_option, NULL, SOL_IP, IP_TRANSPARENT, 0},
    {"net-admin-force-buffer", set_option, NULL, SOL_SOCKET, SO_RCVBUFFORCE, 0},
    {"net-admin-debug", set_option, NULL, SOL_SOCKET, SO_DEBUG, 0},
    {"net-admin-tcp-repair", set_option, NULL, SOL_TCP, TCP_REPAIR, SOCK_STREAM},
    {"net-other-interfaces", other_interfaces, NULL, 0, 0, 0},
    {"net-unix-sockets-listed", unix_sockets, NULL, 0, 0, 0},
    {"abstract-socket", abstract_socket, NULL, 0, 0, 0},
    {"connect", connect_to, NULL, 0, 0, 0},
    {0},
};
