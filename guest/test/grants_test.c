/*
 * grants_test.c: grants.c with a process that always dies before it has received a call. A program behind a real filter makes
 * ten calls; prints how many of them failed for want of memory and how many processes were started for them.
 */
#define _GNU_SOURCE
#include "agent/grants.h"
#include "shared/loop.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 10

pid_t __real_fork(void);
pid_t __wrap_fork(void);

static int started;

/* of grants.c and of nothing else */
pid_t __wrap_fork(void) {
  started++;
  pid_t pid = __real_fork();
  if (pid == 0) kill(getpid(), SIGKILL);
  return pid;
}

static int hold_back_statfs(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statfs, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static _Noreturn void call(int to) {
  int listener = hold_back_statfs();
  if (write(to, &listener, sizeof listener) < 0 || read(to, &listener, 1) < 0) _exit(99);
  int failed = 0;
  for (int i = 0; i < CALLS; i++) {
    struct statfs facts;
    failed += statfs("/", &facts) < 0 && errno == ENOMEM;
  }
  if (write(to, &failed, sizeof failed) < 0) _exit(99);
  for (;;) pause(); /* without a program behind the filter the listener would be at its end */
}

static int failed = -1;

static void on_child(struct source *source, uint32_t events) {
  (void)events;
  loop_heard_children(source);
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) grants_waited(pid, status);
}

static void on_result(struct source *source, uint32_t events) {
  (void)events;
  if (read(source->fd, &failed, sizeof failed) != sizeof failed) failed = 99;
}

int main(void) {
  int pair[2], theirs = -1;
  static struct source children, result;
  static const struct seccomp_pass pass;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return 1;
  pid_t caller = __real_fork();
  if (caller == 0) call(pair[1]);
  if (read(pair[0], &theirs, sizeof theirs) != sizeof theirs || theirs < 0) return 1;
  int listener = (int)syscall(SYS_pidfd_getfd, (int)syscall(SYS_pidfd_open, caller, 0), theirs, 0);
  if (listener < 0 || loop_open() || loop_add_children(&children, on_child) || grants_begin(listener, &pass)) return 1;
  if (loop_add(&result, pair[0], EPOLLIN, on_result) || write(pair[0], "", 1) != 1) return 1;
  /* what starts processes for ever would do so here */
  while (failed < 0 && started < 1000) loop_pass(-1);
  kill(caller, SIGKILL);
  while (wait(NULL) > 0) continue;
  printf("%d of %d calls failed, %d processes\n", failed, CALLS, started);
  return 0;
}
