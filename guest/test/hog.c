/*
 * hog.c: uses one thing up, as hostile code would: `hog WHAT [WHERE]`, with the kinds that main() lists.
 *
 * It takes as much as it gets, prints "COUNT what stopped it" (megabytes for `disk`) and keeps what it has until it is
 * killed. `memory` and `files-everywhere` usually end before that, by the kernel's hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
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
  fprintf(stderr,
          "usage: hog threads | processes | files | files-everywhere | memory | inodes DIR | disk FILE\n"
          "       hog inotify | timers | signals | terminals | aio [MOST]\n");
  return 64;
}
