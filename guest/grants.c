/*
 * grants.c: see grants.h.
 *
 * The agent never lets a held-back call go on: between its look and the call the caller could exchange what the call
 * is about. It makes the call itself, on a descriptor of its own, and answers with the result.
 */
#define _GNU_SOURCE
#include "grants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loop.h"

static struct source notices;
static struct seccomp_pass key;
/* of the sandbox's network namespace; says how many sockets of each protocol there are */
static int protocols = -1;

/* an argument that is an int to the kernel, with a word of the pass above it */
static uint64_t passed(uint64_t argument, int word) { return (uint32_t)argument | (uint64_t)key.words[word] << 32; }

static long with_pass(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e) {
  return syscall(number, passed(a, 0), passed(b, 1), passed(c, 2), d, e);
}

static void answer(uint64_t id, int64_t value, int error) {
  struct seccomp_notif_resp response = {.id = id, .val = error ? 0 : value, .error = -error};
  ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_SEND, &response); /* fails when the caller has gone */
}

/* how many netlink sockets there are, or more than any limit when it cannot be found out */
static long netlink_sockets(void) {
  char text[8192];
  ssize_t n = pread(protocols, text, sizeof text - 1, 0);
  if (n <= 0) return GRANTS_NETLINK;
  text[n] = 0;
  const char *line = strstr(text, "\nNETLINK ");
  long size, count;
  return line && sscanf(line, " NETLINK %ld %ld", &size, &count) == 2 ? count : GRANTS_NETLINK;
}

static void grant_socket(const struct seccomp_notif *notice) {
  const __u64 *args = notice->data.args;
  if (netlink_sockets() >= GRANTS_NETLINK) {
    answer(notice->id, 0, EMFILE);
    return;
  }
  int type = (int)args[1];
  int fd = (int)with_pass(SYS_socket, args[0], (uint32_t)(type | SOCK_CLOEXEC), args[2], 0, 0);
  if (fd < 0) {
    answer(notice->id, 0, errno);
    return;
  }
  struct seccomp_notif_addfd add = {.id = notice->id,
                                    .flags = SECCOMP_ADDFD_FLAG_SEND,
                                    .srcfd = (uint32_t)fd,
                                    .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0};
  if (ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0) answer(notice->id, 0, errno);
  close(fd);
}

/* the process that a thread belongs to; 0 when it has gone */
static pid_t process_of(pid_t thread) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  const char *line = strstr(text, "\nTgid:");
  return line ? (pid_t)atoi(line + strlen("\nTgid:")) : 0;
}

/* the caller's descriptor as one of ours */
static int take_descriptor(pid_t process, uint64_t fd) {
  int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
  if (pidfd < 0) return -1;
  int taken = (int)with_pass(SYS_pidfd_getfd, (uint32_t)pidfd, fd, 0, 0, 0);
  int error = errno;
  close(pidfd);
  errno = error;
  return taken;
}

static int set_buffer(int fd, pid_t process, const __u64 *args) {
  int family = 0, bytes = 0;
  socklen_t size = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0) return errno;
  if (family == AF_NETLINK) return 0; /* as if: what asks for it works with the usual buffer */
  if ((uint32_t)args[4] < sizeof bytes) return EINVAL;
  struct iovec here = {.iov_base = &bytes, .iov_len = sizeof bytes};
  struct iovec there = {.iov_base = (void *)(uintptr_t)args[3], .iov_len = sizeof bytes};
  if (process_vm_readv(process, &here, 1, &there, 1, 0) != (ssize_t)sizeof bytes) return EFAULT;
  return with_pass(SYS_setsockopt, (uint32_t)fd, args[1], args[2], (uintptr_t)&bytes, sizeof bytes) < 0 ? errno : 0;
}

static void grant_buffer(const struct seccomp_notif *notice) {
  pid_t process = process_of((pid_t)notice->pid);
  int fd = process > 0 ? take_descriptor(process, notice->data.args[0]) : -1;
  int error = fd < 0 ? errno : set_buffer(fd, process, notice->data.args);
  if (fd >= 0) close(fd);
  answer(notice->id, 0, error);
}

/* one notice each time: others in the loop get their turn in between */
static void on_notice(struct source *source, uint32_t events) {
  (void)events;
  /* a kernel that is newer than our headers may write more */
  _Alignas(struct seccomp_notif) char room[4096] = {0};
  struct seccomp_notif *notice = (struct seccomp_notif *)(void *)room;
  if (ioctl(source->fd, SECCOMP_IOCTL_NOTIF_RECV, notice) < 0) return; /* the caller has gone meanwhile */
  if (notice->data.nr == SYS_socket) grant_socket(notice);
  else if (notice->data.nr == SYS_setsockopt) grant_buffer(notice);
  else answer(notice->id, 0, ENOSYS);
}

int grants_begin(int listener, const struct seccomp_pass *pass) {
  key = *pass;
  protocols = open("/proc/net/protocols", O_RDONLY | O_CLOEXEC);
  if (protocols < 0) return errno;
  return loop_add(&notices, listener, EPOLLIN, on_notice);
}
