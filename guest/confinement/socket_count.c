/* socket_count.c: see socket_count.h. */
#define _GNU_SOURCE
#include "confinement/socket_count.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* longer than either file with every protocol that the kernel knows */
#define ROOM 16384

/* of the sandbox's network namespace: sockets of each protocol, and sockets altogether */
static int protocols = -1, sockets = -1;

int socket_count_open(void) {
  protocols = open("/proc/net/protocols", O_RDONLY | O_CLOEXEC);
  sockets = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
  return protocols < 0 || sockets < 0 ? errno : 0;
}

size_t socket_count_descriptors(int *fds) {
  fds[0] = protocols;
  fds[1] = sockets;
  return SOCKET_COUNT_FILES;
}

/* all of a file, with a line break before its first line; false when it does not fit or cannot be read */
static bool read_all(int fd, char text[ROOM]) {
  size_t length = 1;
  ssize_t n = 1;
  text[0] = '\n';
  while (length < ROOM && (n = pread(fd, text + length, ROOM - length, (off_t)length - 1)) > 0) length += (size_t)n;
  if (n != 0 || length == 1) return false;
  text[length] = 0;
  return true;
}

/* of lines "NAME SIZE SOCKETS …"; -1 when there is none of that name */
static long of_protocol(const char *text, const char *name) {
  char start[32];
  snprintf(start, sizeof start, "\n%s ", name);
  const char *line = strstr(text, start);
  long size, count;
  return line && sscanf(line + strlen(start), "%ld %ld", &size, &count) == 2 ? count : -1;
}

long socket_count_netlink(void) {
  char text[ROOM];
  long count = read_all(protocols, text) ? of_protocol(text, "NETLINK") : -1;
  return count < 0 ? LONG_MAX : count;
}

long socket_count_datagram(void) {
  /* kernels before 5.15 count all local sockets as UNIX; others may have no IPv6 */
  static const char *const OTHERS[] = {"UNIX", "UNIX-STREAM", "NETLINK", "TCP", "TCPv6"};
  char text[ROOM];
  long left;
  /* all of them first: what is closed meanwhile then counts, rather than be missed */
  if (!read_all(sockets, text) || sscanf(text, "\nsockets: used %ld", &left) != 1) return LONG_MAX;
  if (!read_all(protocols, text)) return LONG_MAX;
  for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
    long count = of_protocol(text, OTHERS[i]);
    if (count > 0) left -= count;
  }
  return left;
}
