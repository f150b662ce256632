/*
 * hog.c: uses one thing up, as hostile code would: `hog WHAT [WHERE]`, with the kinds that main() lists.
 *
 * It takes as much as it gets, prints "COUNT what stopped it" (megabytes for `disk`, `tcp` and `udp`) and keeps what it has until it is
 * killed. `memory` and `files-everywhere` usually end before that, by the kernel's hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void report(long count, int error) {
  printf("%ld %s\n", count, error ? strerror(error) : "enough");
  fflush(stdout);
}

static _Noreturn void keep(void) {
  for (;;) pause();
}

static void *idle(void *nothing) {
  (void)nothing;
  keep();
}

static _Noreturn void hog_threads(long most) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  long count = 0;
  int error = 0;
  for (pthread_t thread; count < most && !(error = pthread_create(&thread, &small, idle, NULL));) count++;
  report(count, error);
  keep();
}

static _Noreturn void hog_processes(void) {
  long count = 0;
  for (;;) {
    pid_t child = fork();
    if (child == 0) keep();
    if (child < 0) break;
    count++;
  }
  report(count, errno);
  keep();
}

static long open_all(void) {
  struct rlimit limit;
  if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
  long count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) count++;
  return count;
}

static _Noreturn void hog_files(void) {
  long count = open_all();
  report(count, errno);
  keep();
}

/* as many processes as there may be, each with as many files as it may have */
static _Noreturn void hog_files_everywhere(void) {
  long count = 0;
  for (;;) {
    pid_t child = fork();
    if (child == 0) open_all(), keep();
    if (child < 0) break;
    count++;
  }
  report(count, errno);
  open_all();
  keep();
}

static _Noreturn void hog_memory(void) {
  size_t piece = (size_t)4 << 20;
  for (long count = 0;; count++) {
    char *memory = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) report(count, errno), keep();
    memset(memory, 1, piece);
  }
}

/* names as long as may be: they are what an empty file costs */
static int hog_inodes(const char *directory, long most) {
  char name[256];
  if ((mkdir(directory, 0700) && errno != EEXIST) || chdir(directory)) return report(0, errno), 1;
  long count = 0;
  int error = 0;
  for (; count < most; count++) {
    snprintf(name, sizeof name, "%0250ld", count);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
      error = errno;
      break;
    }
    close(fd);
  }
  report(count, error);
  return 0;
}

/* random content, so that no file system makes it smaller; synced, so that a limit is met now, not later */
static int hog_disk(const char *path) {
  static char piece[1 << 20];
  int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (random < 0 || fd < 0 || read(random, piece, sizeof piece) < 0) return report(0, errno), 1;
  long bytes = 0;
  for (ssize_t wrote; (wrote = write(fd, piece, sizeof piece)) >= 0 && !fsync(fd); bytes += wrote) continue;
  report(bytes >> 20, errno);
  return 0;
}

/* one more of something that the kernel counts for each user; -1 with errno when there is no more */
static int take_inotify(void) { return inotify_init1(IN_CLOEXEC); }

static int take_timer(void) {
  timer_t timer;
  struct sigevent silent = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  return timer_create(CLOCK_MONOTONIC, &silent, &timer);
}

/* until it is waited for it stays pending */
static int take_signal(void) { return sigqueue(getpid(), SIGRTMIN, (union sigval){0}); }

static int take_terminal(void) { return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC); }

static int take_aio(void) {
  unsigned long context = 0;
  return (int)syscall(SYS_io_setup, 1024, &context);
}

static _Noreturn void hog_each(int (*take)(void), long most) {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &held, NULL);
  struct rlimit limit;
  if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
  long count = 0;
  while (count < most && take() >= 0) count++;
  report(count, count < most ? errno : 0);
  keep();
}

/* a routing socket whose answers are never read */
static int take_netlink(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), room = 1 << 26;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
  } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
               .link = {.ifi_family = AF_UNSPEC, .ifi_index = 1}};
  for (int i = 0; i < 20000 && send(fd, &request, sizeof request, 0) > 0; i++) continue;
  return fd;
}

/* a datagram that is begun, as long as one may be, and never sent */
static int take_datagram(void) {
  static char piece[60000];
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), reuse = 1;
  if (fd < 0) return -1;
  /* there are more sockets than ports */
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse, sizeof reuse);
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(4000), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(fd, (struct sockaddr *)&own, sizeof own)) return -1;
  return sendto(fd, piece, sizeof piece, MSG_MORE, (struct sockaddr *)&address, sizeof address) < 0 ? -1 : fd;
}

/* what the kernel holds for a socket, in bytes */
static long held(int fd) {
  uint32_t facts[16] = {0};
  socklen_t size = sizeof facts;
  getsockopt(fd, SOL_SOCKET, SO_MEMINFO, facts, &size);
  return (long)facts[SK_MEMINFO_RMEM_ALLOC] + facts[SK_MEMINFO_WMEM_QUEUED];
}

/* connected pairs on the loopback, of which one end writes all it may and the other reads nothing */
static _Noreturn void hog_buffers(int type, long pairs) {
  static int fds[2048];
  static char piece[32768];
  size_t count = 0;
  for (long i = 0; i < pairs && count + 2 <= sizeof fds / sizeof *fds; i++) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = socket(AF_INET, type | SOCK_CLOEXEC, 0), other = socket(AF_INET, type | SOCK_CLOEXEC, 0), room = 1 << 26;
    setsockopt(one, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(one, (struct sockaddr *)&address, size) || getsockname(one, (struct sockaddr *)&address, &size)) break;
    if (type == SOCK_STREAM) listen(one, 1);
    if (connect(other, (struct sockaddr *)&address, size)) break;
    if (type == SOCK_STREAM) one = accept4(one, NULL, NULL, SOCK_CLOEXEC);
    for (int idle = 0, sends = 0; idle < 10 && sends < 2000; sends++) {
      if (send(other, piece, type == SOCK_STREAM ? sizeof piece : 1000, MSG_DONTWAIT) < 0) idle++, usleep(500);
    }
    fds[count++] = one;
    fds[count++] = other;
  }
  long bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += held(fds[i]);
  report(bytes >> 20, 0);
  keep();
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
  if (!strcmp(what, "threads")) hog_threads(10000);
  if (!strcmp(what, "processes")) hog_processes();
  if (!strcmp(what, "files")) hog_files();
  if (!strcmp(what, "files-everywhere")) hog_files_everywhere();
  if (!strcmp(what, "memory")) hog_memory();
  if (!strcmp(what, "inodes") && *argument) return hog_inodes(argument, 1000000);
  if (!strcmp(what, "disk") && *argument) return hog_disk(argument);
  long most = *argument ? atol(argument) : 1000000;
  if (!strcmp(what, "inotify")) hog_each(take_inotify, most);
  if (!strcmp(what, "timers")) hog_each(take_timer, most);
  if (!strcmp(what, "signals")) hog_each(take_signal, most);
  if (!strcmp(what, "terminals")) hog_each(take_terminal, most);
  if (!strcmp(what, "aio")) hog_each(take_aio, most);
  if (!strcmp(what, "netlink")) hog_each(take_netlink, most);
  if (!strcmp(what, "datagrams")) hog_each(take_datagram, most);
  if (!strcmp(what, "tcp")) hog_buffers(SOCK_STREAM, most);
  if (!strcmp(what, "udp")) hog_buffers(SOCK_DGRAM, most);
  fprintf(stderr,
          "usage: hog threads | processes | files | files-everywhere | memory | inodes DIR | disk FILE\n"
          "       hog inotify | timers | signals | terminals | aio | netlink | datagrams | tcp | udp [MOST]\n");
  return 64;
}
