/* egress.c: starts, watches and talks to the process of egress.h. */
#define _GNU_SOURCE
#include "egress/egress.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/keeper.h"
#include "shared/loop.h"

/* of the channel; there is "room" while at most a quarter of it is taken, so that one more message always fits */
#define CHANNEL_BUFFER (1 << 20)
#define LONGEST_SAID 16384
/* an answer of 64 KiB in hex, and its words */
#define LONGEST_RECEIVED (160 << 10)

/* how long to wait before starting it again: longer each time, until it has lived for a while */
#define FIRST_PAUSE 50
#define LONGEST_PAUSE 5000
#define LIVED_LONG 10000
/* a process that has read nothing for so long while the channel was full does not work any more */
#define STUCK 20000

static const struct egress_events *events;

static struct source channel = {.fd = -1};
static struct source keeper = {.fd = -1};
static bool running;
static int64_t started, start_at, full_since;
static int pause_ms;
static char received[LONGEST_RECEIVED];
static size_t received_length;

/* ---- the process ---- */

static void channel_ready(struct source *source, uint32_t what);
static void close_source(struct source *source) {
  if (source->fd < 0) return;
  loop_remove(source);
  close(source->fd);
  source->fd = -1;
}

/* what sendmsg says; a descriptor goes beside the bytes unless fd is -1 */
static ssize_t send_beside(int socket, const void *bytes, size_t length, int fd) {
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = length};
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
  return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* one letter to the keeper, with a descriptor beside it unless fd is -1 */
static int tell(char letter, int fd) { return send_beside(keeper.fd, &letter, 1, fd) == 1 ? 0 : errno; }

static int start(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return errno;
  int room = CHANNEL_BUFFER;
  /* Without the capability to exceed the system's maximum this gives that maximum, which does as well. */
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  int error = loop_add(&channel, pair[0], EPOLLIN, channel_ready);
  if (error) {
    close(pair[0]);
    channel.fd = -1;
  } else {
    error = tell(KEEPER_START, pair[1]);
    if (error) close_source(&channel);
  }
  close(pair[1]);
  if (error) return error;
  running = true;
  started = loop_now();
  full_since = 0;
  received_length = 0;
  return 0;
}

/* the channel is of no use any more: the process goes too, and keeper_ready() sees to the rest */
static void give_up(const char *why) {
  fprintf(stderr, "Stopped the egress process: %s\n", why);
  close_source(&channel);
  tell(KEEPER_END, -1);
}

static void schedule(void) {
  if (loop_now() - started > LIVED_LONG) pause_ms = 0;
  start_at = loop_now() + pause_ms;
  pause_ms = pause_ms ? pause_ms * 2 : FIRST_PAUSE;
  if (pause_ms > LONGEST_PAUSE) pause_ms = LONGEST_PAUSE;
}

static void keeper_ready(struct source *source, uint32_t what) {
  (void)what;
  char letter;
  ssize_t got = recv(source->fd, &letter, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  /* The launcher starts another keeper when it starts netd again. */
  if (got != 1) {
    fprintf(stderr, "{\"process\":\"netd\",\"level\":\"warn\",\"sentence\":\"The keeper of the egress process has ended; the "
                    "network process ends, too, to be started again with another one\"}\n");
    _exit(1);
  }
  if (letter != KEEPER_ENDED) return;
  running = false;
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
  ssize_t got = recv(channel.fd, received + received_length, sizeof received - received_length, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    /* It closed the channel, so it is ending or ought to be. */
    give_up("it closed its channel");
    return;
  }
  received_length += (size_t)got;
  char *at = received, *end = received + received_length, *newline;
  while (channel.fd >= 0 && (newline = memchr(at, '\n', (size_t)(end - at)))) {
    hear(at, (size_t)(newline - at));
    at = newline + 1;
  }
  received_length = (size_t)(end - at);
  memmove(received, at, received_length);
  if (received_length == sizeof received) give_up("a line of it was too long");
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

int egress_open(int fd, const struct egress_events *handlers) {
  events = handlers;
  int error = loop_add(&keeper, fd, EPOLLIN, keeper_ready);
  if (error) return error;
  start_at = loop_now();
  egress_tick();
  return 0;
}

int egress_tick(void) {
  int64_t now = loop_now();
  if (channel.fd >= 0 && full_since && now - full_since > STUCK) give_up("it reads nothing any more");
  if (!running && now >= start_at) {
    int error = start();
    if (error) {
      fprintf(stderr, "Cannot start the egress process: %s\n", strerror(error));
      schedule();
    } else {
      events->room();
    }
  }
  if (!running) return start_at > now ? (int)(start_at - now) : 1;
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

  ssize_t sent = send_beside(channel.fd, text, (size_t)length, fd);
  if (sent == length) return true;
  /* Half a line would garble all that follows. */
  if (sent > 0) give_up("a message to it was cut short");
  return false;
}
