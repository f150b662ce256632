/*
 * grants.c: see grants.h.
 *
 * A held-back call does not go on: between our look and the call the caller could exchange what the call is about. We make
 * the call ourselves, on descriptors of our own, and answer with the result. The one exception is the installation of a
 * filter, of which we look at nothing but that it is one.
 */
#define _GNU_SOURCE
#include "agent/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/caller.h"
#include "confinement/filters.h"
#include "shared/loop.h"
#include "confinement/socket_count.h"
#include "view/view.h"
#include "view/view_disk.h"

/* how long the process waits for another call, in ms */
#define PATIENCE 5000
/* a kernel that is newer than our headers may write more than struct seccomp_notif */
#define NOTICE 4096
/* processes that may fail for one call */
#define FAILURES 3

static struct source notices;
static struct seccomp_pass key;
/* shared with the process, and outlives it */
struct shared {
  /* the call that it is about: if that has an id, the agent answers it should the process die */
  union {
    struct seccomp_notif notice;
    char room[NOTICE];
  };
  bool has_received; /* a call, since the process began */
  struct filters filters;
};
static struct shared *shared;
static struct seccomp_notif *notice;
static pid_t process;
/* processes in a row that ended in a bad way before they had received a call */
static int failures;

/* ---- answers ---- */

static void answer(int64_t value, int error) {
  struct seccomp_notif_resp response = {.id = notice->id, .val = error ? 0 : value, .error = -error};
  ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_SEND, &response); /* fails when the caller has gone */
}

static void let_go_on(void) {
  struct seccomp_notif_resp response = {.id = notice->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

/* an argument that is an int to the kernel, with a word of the pass above it */
static uint64_t passed(uint64_t argument, int word) { return (uint32_t)argument | (uint64_t)key.words[word] << 32; }

static long with_pass(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e) {
  return syscall(number, passed(a, 0), passed(b, 1), passed(c, 2), d, e);
}

/* for calls of at most two arguments: the pass is above those that they do not have */
static long with_later_pass(long number, uint64_t a, uint64_t b) {
  return syscall(number, a, b, passed(0, 0), passed(0, 1), passed(0, 2));
}

/* ---- sockets ---- */

static bool has_socket_left(int family) {
  return family == AF_NETLINK ? socket_count_netlink() < GRANTS_NETLINK : socket_count_datagram() < GRANTS_DATAGRAM;
}

/* the caller's own, since the owner of a socket decides who may share its port; -1 with errno */
static int open_socket(const __u64 *args) {
  errno = has_socket_left((int)args[0]) ? caller_enter((pid_t)notice->pid) : EMFILE;
  int fd = errno ? -1 : (int)with_pass(SYS_socket, args[0], (uint32_t)args[1] | SOCK_CLOEXEC, args[2], 0, 0), error = errno;
  caller_leave();
  errno = error;
  return fd;
}

static void grant_socket(void) {
  const __u64 *args = notice->data.args;
  int type = (int)args[1], fd = open_socket(args);
  if (fd < 0) {
    answer(0, errno);
    return;
  }
  struct seccomp_notif_addfd add = {.id = notice->id,
                                    .flags = SECCOMP_ADDFD_FLAG_SEND,
                                    .srcfd = (uint32_t)fd,
                                    .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0};
  if (ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0) answer(0, errno);
  close(fd);
}

/* whether it may be a socket whose connections wait for a program, of TCP and not connected itself */
static bool may_wait(int fd) {
  struct tcp_info facts = {0};
  socklen_t size = sizeof facts;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &facts, &size) == 0 && facts.tcpi_state != TCP_ESTABLISHED;
}

static int set_buffer(const struct caller *c, const __u64 *args) {
  int fd = caller_descriptor(c, args[0], &key);
  if (fd < 0) return errno;
  int family = 0, bytes = 0;
  socklen_t size = sizeof family;
  int error = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ? errno : 0;
  /* as if for netlink: what asks for it works with the usual buffer */
  if (!error && family != AF_NETLINK) {
    error = (uint32_t)args[4] < sizeof bytes ? EINVAL : caller_read(c, args[3], &bytes, sizeof bytes);
    if (bytes > GRANTS_WAITING && may_wait(fd)) bytes = GRANTS_WAITING;
    if (!error && with_pass(SYS_setsockopt, (uint32_t)fd, args[1], args[2], (uintptr_t)&bytes, sizeof bytes) < 0) error = errno;
  }
  close(fd);
  return error;
}

/* ---- what the sandbox is ---- */

static int tell_disk(const struct caller *c, int fd, uint64_t to) {
  if (fd < 0) return errno;
  struct statfs facts;
  int error = with_later_pass(SYS_fstatfs, (uint32_t)fd, (uintptr_t)&facts) < 0 ? errno : 0;
  close(fd);
  if (error) return error;
  view_disk(&facts);
  return caller_write(c, to, &facts, sizeof facts);
}

static int tell_memory(const struct caller *c, uint64_t to) {
  struct sysinfo facts;
  view_sysinfo(&facts);
  return caller_write(c, to, &facts, sizeof facts);
}

/* ---- the process ---- */

static int grant_to(const struct caller *c, const __u64 *args) {
  switch (notice->data.nr) {
    case SYS_setsockopt: return set_buffer(c, args);
    case SYS_statfs: return tell_disk(c, caller_open(c, args[0]), args[1]);
    case SYS_fstatfs: return tell_disk(c, caller_descriptor(c, args[0], &key), args[1]);
    case SYS_sysinfo: return tell_memory(c, args[0]);
    default: return ENOSYS;
  }
}

static int grant(void) {
  struct caller c;
  int error = caller_find((pid_t)notice->pid, &c);
  uint64_t id = notice->id;
  if (!error && ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0) error = errno;
  if (!error) error = grant_to(&c, notice->data.args);
  caller_drop(&c);
  return error;
}

/* a call that only its caller can make; whatever it then installs, it is one filter */
static void grant_filter(void) {
  int error = filters_permit(&shared->filters, (pid_t)notice->pid);
  if (error) answer(0, error);
  else let_go_on();
}

/* all others are the agent's: pipes and connections that it closes must be closed */
static void keep_only(const int *fds, size_t count) {
  for (int from = 3;;) {
    int next = INT_MAX;
    for (size_t i = 0; i < count; i++) {
      if (fds[i] >= from && fds[i] < next) next = fds[i];
    }
    if (next > from) close_range((unsigned)from, next == INT_MAX ? ~0u : (unsigned)next - 1, 0);
    if (next == INT_MAX) return;
    from = next + 1;
  }
}

static _Noreturn void work(void) {
  prctl(PR_SET_NAME, "sandkeep-grants");
  int kept[3 + SOCKET_COUNT_FILES + VIEW_DISKS] = {notices.fd, view_source()->cpu_time, view_source()->processes};
  size_t count = 3 + socket_count_descriptors(kept + 3);
  keep_only(kept, count + view_disk_descriptors(kept + count));
  struct pollfd polled = {.fd = notices.fd, .events = POLLIN};
  while (poll(&polled, 1, PATIENCE) > 0) {
    memset(notice, 0, NOTICE);
    if (ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_RECV, notice) < 0) {
      if (errno == ENOENT || errno == EINTR) continue; /* the caller has gone meanwhile */
      _exit(1);
    }
    shared->has_received = true;
    switch (notice->data.nr) {
      case SYS_socket: grant_socket(); break;
      case SYS_seccomp:
      case SYS_prctl: grant_filter(); break;
      default: answer(0, grant());
    }
    notice->id = 0;
  }
  _exit(0);
}

/*
 * Without a process, as when the sandbox has as many as it may have or each is killed at once, a call fails as it would for
 * want of memory.
 */
static void refuse(void) {
  memset(notice, 0, NOTICE);
  if (ioctl(notices.fd, SECCOMP_IOCTL_NOTIF_RECV, notice) == 0) answer(0, ENOMEM);
  notice->id = 0;
}

/* ---- the agent ---- */

/* the process receives the call itself, and all others while it lives */
static void on_notice(struct source *source, uint32_t events) {
  (void)events;
  notice->id = 0;
  if (failures == FAILURES) {
    /* the call would be there to start another process for, and that for ever; one is tried for the next */
    failures--;
    refuse();
    return;
  }
  shared->has_received = false;
  process = fork();
  if (process == 0) work();
  if (process < 0) refuse();
  else loop_change(source, 0);
}

bool grants_waited(pid_t pid, int status) {
  if (process <= 0 || pid != process) return false;
  /* root inside may stop it, and callers would wait */
  if (WIFSTOPPED(status)) {
    kill(pid, SIGKILL);
    return true;
  }
  process = 0;
  bool is_failure = !shared->has_received && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  failures = is_failure ? failures + 1 : 0;
  if (notice->id) answer(0, ENOMEM);
  loop_change(&notices, EPOLLIN);
  return true;
}

void grants_limit_filters(uint32_t most) {
  if (shared) shared->filters.most = most < FILTERS_MOST ? most : FILTERS_MOST;
}

int grants_open(void) { return socket_count_open(); }

int grants_begin(int listener, const struct seccomp_pass *pass) {
  key = *pass;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return errno;
  notice = &shared->notice;
  grants_limit_filters(FILTERS_MOST);
  return loop_add(&notices, listener, EPOLLIN, on_notice);
}
