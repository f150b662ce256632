/* egress.c: starts, watches and talks to the process of egress.h. */
#define _GNU_SOURCE
#include "egress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"

/* where Node finds its end of the channel */
#define CHANNEL_FD 3
/* of the channel; there is "room" while at most a quarter of it is taken, so that one more message always fits */
#define CHANNEL_BUFFER (1 << 20)
#define LONGEST_SAID 16384
/* an answer of 64 KiB in hex, and its words */
#define LONGEST_HEARD (160 << 10)

/* how long to wait before starting it again: longer each time, until it has lived for a while */
#define FIRST_PAUSE 50
#define LONGEST_PAUSE 5000
#define LIVED_LONG 10000
/* a process that has read nothing for so long while the channel was full does not work any more */
#define STUCK 20000

static char *const *command;
static const struct egress_events *events;

static struct source channel = {.fd = -1};
static struct source process = {.fd = -1};
static pid_t pid = -1;
static int64_t started, start_at, full_since;
static int pause_ms;
static char heard[LONGEST_HEARD];
static size_t heard_length;

/* ---- the child ---- */

static void run(int fd, pid_t parent) {
  /* It ends with netd. If netd is gone already, nobody is left to send the signal. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (fd == CHANNEL_FD) {
    /* dup2() onto itself would leave close-on-exec set */
    fd = dup(fd);
  }
  if (fd < 0 || dup2(fd, CHANNEL_FD) < 0) _exit(1);
  syscall(SYS_close_range, CHANNEL_FD + 1, ~0u, 0);
  setenv("NODE_CHANNEL_FD", "3", 1);
  setenv("NODE_CHANNEL_SERIALIZATION_MODE", "json", 1);
  execv(command[0], command);
  fprintf(stderr, "Cannot run the egress process \"%s\": %s\n", command[0], strerror(errno));
  _exit(127);
}

static void channel_ready(struct source *source, uint32_t what);
static void process_ready(struct source *source, uint32_t what);

static int start(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return errno;
  int room = CHANNEL_BUFFER;
  /* Without the capability to exceed the system's maximum this gives that maximum, which does as well. */
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  pid_t parent = getpid();
  pid = fork();
  if (pid == 0) run(pair[1], parent);
  int error = pid < 0 ? errno : 0;
  close(pair[1]);
  int fd = error ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
  if (!error && fd < 0) error = errno;
  if (!error) error = loop_add(&process, fd, EPOLLIN, process_ready);
  if (!error) error = loop_add(&channel, pair[0], EPOLLIN, channel_ready);
  if (error) {
    close(pair[0]);
    channel.fd = -1;
    return error;
  }
  started = loop_now();
  full_since = 0;
  heard_length = 0;
  return 0;
}

static void close_source(struct source *source) {
  if (source->fd < 0) return;
  loop_remove(source);
  close(source->fd);
  source->fd = -1;
}

/* the channel is of no use any more: the process goes too, and process_ready() sees to the rest */
static void give_up(const char *why) {
  fprintf(stderr, "Stopped the egress process: %s\n", why);
  close_source(&channel);
  if (pid > 0) kill(pid, SIGKILL);
}

static void schedule(void) {
  if (loop_now() - started > LIVED_LONG) pause_ms = 0;
  start_at = loop_now() + pause_ms;
  pause_ms = pause_ms ? pause_ms * 2 : FIRST_PAUSE;
  if (pause_ms > LONGEST_PAUSE) pause_ms = LONGEST_PAUSE;
}

static void process_ready(struct source *source, uint32_t what) {
  (void)source;
  (void)what;
  waitpid(pid, NULL, 0);
  pid = -1;
  close_source(&process);
  close_source(&channel);
  events->gone();
  schedule();
}

/* ---- what it says ---- */

static void hear(char *line, size_t length) {
  /* Only strings are for us; the objects are Node's own. */
  if (length < 2 || line[0] != '"' || line[length - 1] != '"') return;
  line[length - 1] = 0;
  events->said(line + 1);
}

static void read_channel(void) {
  ssize_t got = recv(channel.fd, heard + heard_length, sizeof heard - heard_length, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    /* It closed the channel, so it is ending or ought to be. */
    give_up("it closed its channel");
    return;
  }
  heard_length += (size_t)got;
  char *at = heard, *end = heard + heard_length, *newline;
  while (channel.fd >= 0 && (newline = memchr(at, '\n', (size_t)(end - at)))) {
    hear(at, (size_t)(newline - at));
    at = newline + 1;
  }
  heard_length = (size_t)(end - at);
  memmove(heard, at, heard_length);
  if (heard_length == sizeof heard) give_up("a line of it was too long");
}

static void channel_ready(struct source *source, uint32_t what) {
  if (what & EPOLLOUT) {
    full_since = 0;
    loop_change(source, EPOLLIN);
    events->room();
  }
  if (channel.fd >= 0 && what & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_channel();
}

/* ---- what egress.h offers ---- */

void egress_open(char *const argv[], const struct egress_events *handlers) {
  command = argv;
  events = handlers;
  start_at = loop_now();
  egress_tick();
}

int egress_tick(void) {
  int64_t now = loop_now();
  if (channel.fd >= 0 && full_since && now - full_since > STUCK) give_up("it reads nothing any more");
  if (pid < 0 && now >= start_at) {
    int error = start();
    if (error) {
      fprintf(stderr, "Cannot start the egress process: %s\n", strerror(error));
      if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = -1;
      }
      close_source(&process);
      schedule();
    } else {
      events->room();
    }
  }
  if (pid < 0) return start_at > now ? (int)(start_at - now) : 1;
  return full_since ? 1000 : -1;
}

bool egress_has_room(void) {
  if (channel.fd < 0) return false;
  struct pollfd poll_fd = {.fd = channel.fd, .events = POLLOUT};
  if (poll(&poll_fd, 1, 0) == 1 && poll_fd.revents & POLLOUT) return true;
  if (!full_since) full_since = loop_now();
  loop_change(&channel, EPOLLIN | EPOLLOUT);
  return false;
}

bool egress_say(int fd, const char *format, ...) {
  char text[LONGEST_SAID];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text - 1, format, args);
  va_end(args);
  if (length < 0 || (size_t)length >= sizeof text - 1 || !egress_has_room()) return false;
  text[length++] = '\n';

  struct iovec part = {.iov_base = text, .iov_len = (size_t)length};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  ssize_t sent = sendmsg(channel.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == length) return true;
  /* Half a line would garble all that follows. */
  if (sent > 0) give_up("a message to it was cut short");
  return false;
}
