/* loop.c: the epoll loop of loop.h, one per process. */
#define _GNU_SOURCE
#include "shared/loop.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static int epoll_fd = -1;
/* the pass under way: a source that is removed must not be called any more */
static struct epoll_event batch[BATCH];
static int batch_count;

int loop_open(void) {
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  return epoll_fd < 0 ? errno : 0;
}

void loop_close(void) {
  if (epoll_fd >= 0) close(epoll_fd);
  epoll_fd = -1;
}

int loop_add(struct source *source, int fd, uint32_t events, void (*ready)(struct source *, uint32_t)) {
  source->fd = fd;
  source->events = events;
  source->ready = ready;
  struct epoll_event event = {.events = events, .data.ptr = source};
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
}

int loop_change(struct source *source, uint32_t events) {
  if (source->events == events) return 0;
  source->events = events;
  struct epoll_event event = {.events = events, .data.ptr = source};
  return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0 ? errno : 0;
}

void loop_remove(struct source *source) {
  if (source->fd >= 0) epoll_ctl(epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
  for (int i = 0; i < batch_count; i++) {
    if (batch[i].data.ptr == source) batch[i].data.ptr = NULL;
  }
}

int loop_add_children(struct source *source, void (*ready)(struct source *, uint32_t)) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return fd < 0 ? errno : loop_add(source, fd, EPOLLIN, ready);
}

void loop_heard_children(const struct source *source) {
  struct signalfd_siginfo info;
  while (read(source->fd, &info, sizeof info) > 0) continue;
}

int loop_pass(int timeout) {
  int count = epoll_wait(epoll_fd, batch, BATCH, timeout);
  if (count < 0) return errno == EINTR ? 0 : errno;
  batch_count = count;
  for (int i = 0; i < batch_count; i++) {
    struct source *source = batch[i].data.ptr;
    if (source) source->ready(source, batch[i].events);
  }
  batch_count = 0;
  return 0;
}

int64_t loop_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
