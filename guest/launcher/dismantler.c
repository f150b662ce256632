/* dismantler.c: see dismantler.h. It ends when its socket does, after the last namespace. */
#define _GNU_SOURCE
#include "launcher/dismantler.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "shared/connection.h"
#include "shared/title.h"

/* the caller that waits for the end uses the same disk, and goes first: so long each is held, in ms */
#define HELD 30
/* namespaces that wait at once; later ones wait in the socket */
#define WAITING 128

struct held {
  int mounts;
  int64_t until;
};

union rights {
  struct cmsghdr head;
  char room[CMSG_SPACE(sizeof(int))];
};

/* the launcher's end of its socket, or -1 */
static int dismantler = -1;

/* false when the launcher is gone */
static bool receive(int fd, struct held *out) {
  char byte;
  struct iovec body = {.iov_base = &byte, .iov_len = 1};
  union rights ancillary;
  struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof ancillary};
  if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0) return false;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  out->mounts = -1;
  if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int))) {
    memcpy(&out->mounts, CMSG_DATA(head), sizeof(int));
  }
  out->until = loop_now() + HELD;
  return true;
}

static _Noreturn void serve(int fd) {
  struct held queue[WAITING];
  size_t first = 0, count = 0;
  fd = connection_worker(fd);
  prctl(PR_SET_NAME, "sandkeep-mounts", 0, 0, 0);
  title_set("sandkeep-mounts");
  for (;;) {
    int64_t left = count > 0 ? queue[first].until - loop_now() : -1;
    if (count > 0 && left <= 0) {
      close(queue[first].mounts);
      first = (first + 1) % WAITING;
      count--;
      continue;
    }
    struct pollfd polled = {.fd = count < WAITING ? fd : -1, .events = POLLIN};
    if (poll(&polled, 1, (int)left) <= 0 || !polled.revents) continue;
    /* the end of this process closes those that it still holds */
    if (!receive(fd, &queue[(first + count) % WAITING])) _exit(0);
    count++;
  }
}

static bool start(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return false;
  pid_t pid = fork();
  if (pid == 0) serve(pair[1]);
  close(pair[1]);
  dismantler = pair[0];
  if (pid > 0) return true;
  close(dismantler);
  dismantler = -1;
  return false;
}

void dismantler_start(void) {
  if (dismantler < 0) start();
}

static bool hand_over(int mounts) {
  struct iovec body = {.iov_base = "", .iov_len = 1};
  union rights ancillary;
  memset(&ancillary, 0, sizeof ancillary);
  ancillary.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&ancillary.head), &mounts, sizeof(int));
  struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof ancillary};
  return sendmsg(dismantler, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

void dismantle(int mounts) {
  bool is_held = (dismantler >= 0 || start()) && hand_over(mounts);
  if (!is_held && dismantler >= 0 && (errno == EPIPE || errno == ECONNRESET)) {
    /* it was killed */
    close(dismantler);
    dismantler = -1;
    is_held = start() && hand_over(mounts);
  }
  /* it is busy with a large one, or stopped: a process of its own holds this one */
  if (!is_held && fork() == 0) {
    usleep(HELD * 1000);
    _exit(0);
  }
  close(mounts);
}
