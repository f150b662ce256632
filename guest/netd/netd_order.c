/* netd_order.c: sends and receives the orders of netd_order.h. */
#define _GNU_SOURCE
#include "netd/netd_order.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool netd_is_name(const char *name) {
  size_t length = strnlen(name, NETD_NAME + 1);
  return length >= 1 && length <= NETD_NAME &&
         strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

int netd_order_send(int fd, struct netd_order order, const struct net_listeners *sockets) {
  struct iovec part = {.iov_base = &order, .iov_len = sizeof order};
  _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof *sockets)] = {0};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (sockets) {
    int there[NET_LISTENERS];
    size_t count = 0;
    for (int i = 0; i < NET_LISTENERS; i++) {
      if (sockets->fd[i] < 0) continue;
      order.sockets |= 1u << i;
      there[count++] = sockets->fd[i];
    }
    size_t size = count * sizeof there[0];
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), there, size);
  }
  ssize_t sent;
  do sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

/* the descriptors that came with a message, each in the place that the order says; the rest stays -1 */
static void take_sockets(struct msghdr *message, uint32_t which, struct net_listeners *out) {
  size_t count = 0, used = 0;
  struct cmsghdr *head = CMSG_FIRSTHDR(message);
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  }
  for (int i = 0; i < NET_LISTENERS; i++) {
    out->fd[i] = -1;
    if (!(which & 1u << i) || used == count) continue;
    memcpy(&out->fd[i], CMSG_DATA(head) + used++ * sizeof(int), sizeof(int));
  }
}

int netd_order_receive(int fd, struct netd_order *order, struct net_listeners *sockets) {
  struct iovec part = {.iov_base = order, .iov_len = sizeof *order};
  _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof *sockets)];
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  memset(order, 0, sizeof *order);
  ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno;
  if (got == 0) return EPIPE;
  take_sockets(&message, order->sockets, sockets);
  if (got == sizeof *order && netd_is_name(order->machine)) return 0;
  net_close(sockets);
  return EBADMSG;
}
