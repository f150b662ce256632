/* egress_filter_test.c: puts itself behind the egress process's filter and prints what of the kernel is left. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress/egress_filter.h"

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result >= 0 ? "allowed" : strerrorname_np(errno));
}

static void *nothing(void *argument) { return argument; }

static long thread(void) {
  pthread_t made;
  errno = pthread_create(&made, NULL, nothing, NULL);
  return errno ? -1 : pthread_join(made, NULL);
}

/* a process that is made all the same must not go on printing */
static long clone_with(unsigned long flags) {
  long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  int pair[2];
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || egress_filter_install()) return 1;
  say("a thread", thread());
  say("the internet", socket(AF_INET6, SOCK_STREAM, 0));
  say("the host's addresses", socket(AF_NETLINK, SOCK_RAW, 0));
  say("a pair of sockets", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  say("a process", clone_with(SIGCHLD));
  say("a process in a namespace", clone_with(SIGCHLD | CLONE_NEWNET));
  say("a namespace", unshare(CLONE_NEWNS));
  say("a thread in a user namespace", clone_with(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWUSER));
  say("a unix socket", socket(AF_UNIX, SOCK_STREAM, 0));
  say("packets", socket(AF_PACKET, SOCK_RAW, 0));
  say("crypto sockets", socket(AF_ALG, SOCK_SEQPACKET, 0));
  say("tracing", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  say("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
  say("a mount", mount("none", "/nowhere", "tmpfs", 0, NULL));
  return 0;
}
