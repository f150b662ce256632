/* netd_process.c: sets the limits of netd_process.h. */
#define _GNU_SOURCE
#include "netd/netd_process.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confinement/allow_list.h"
#include "confinement/caps.h"
#include "egress/egress_root.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* what the loop, the sockets that netd was given, and the C library's memory need */
static const unsigned calls[] = {
    SYS_epoll_pwait, SYS_epoll_ctl, SYS_accept4, SYS_recvmsg, SYS_sendmsg, SYS_recvfrom, SYS_sendto, SYS_ppoll, SYS_close,
    SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_connect, SYS_shutdown, SYS_fcntl, SYS_read,
    SYS_write, SYS_writev, SYS_clock_gettime, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_restart_syscall, SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_getrandom, SYS_futex, SYS_exit,
    SYS_exit_group,
#if defined(__x86_64__)
    SYS_epoll_wait, SYS_poll,
#endif
};

/* Datagrams go out through sockets of netd's own. A pair is the channel of a new egress process: it has no name, and
 * reaches no other socket. */
static const unsigned families[] = {AF_INET, AF_INET6};
static const unsigned pairs[] = {AF_UNIX};

static const struct argument_rule rules[] = {
    {.call = SYS_socket, .argument = 0, .values = families, .count = COUNT(families), .error = EAFNOSUPPORT},
    {.call = SYS_socketpair, .argument = 0, .values = pairs, .count = COUNT(pairs), .error = EAFNOSUPPORT},
    /* nothing that is written can be run */
    {.call = SYS_mmap, .argument = 2, .unwanted = PROT_EXEC, .error = EPERM},
    {.call = SYS_mprotect, .argument = 2, .unwanted = PROT_EXEC, .error = EPERM},
};

/* every sandbox needs some descriptors, and each connection two in Node */
static void raise_descriptor_limit(void) {
  struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* Node has secrets of policies in memory, which must not get to disk. A limit of 1 keeps the host's core dump helper from
 * being started, too, which 0 does not. */
static void end_core_dumps(void) {
  struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
  setrlimit(RLIMIT_CORE, &one);
}

void process_limit(void) {
  raise_descriptor_limit();
  end_core_dumps();
}

int process_become(uid_t user) {
  int error = caps_bound(0);
  if (error) return error;
  if (user && (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)) return errno;
  error = caps_limit(0);
  return error ? error : no_new_privs();
}

int process_user(const char *variable, uid_t *user) {
  const char *text = getenv(variable);
  *user = 0;
  if (!text) return 0;
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || value == 0 || value > INT_MAX) return EINVAL;
  *user = (uid_t)value;
  return 0;
}

void netd_begin(int control) {
  prctl(PR_SET_NAME, "sandkeep-netd");
  if (dup2(control, NETD_CONTROL) < 0) _exit(1);
  syscall(SYS_close_range, NETD_CONTROL + 1, ~0u, 0);
  setsid();
  /* Node would inherit what the launcher blocks. */
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
}

int netd_confine(void) {
  uid_t user;
  int error = process_user("SANDKEEP_NETD_UID", &user);
  if (error) return error;
  process_limit();
  if (user) error = egress_root_enter(NULL, NULL);
  if (!error) error = process_become(user);
  const struct allow_list list = {.calls = calls, .call_count = COUNT(calls), .rules = rules, .rule_count = COUNT(rules)};
  return error || !user ? error : allow_list_install(&list);
}
