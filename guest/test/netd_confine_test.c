/* netd_confine_test.c: confines itself as netd does and prints what of the kernel and the host is left. Run as root. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netd/netd_process.h"

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result >= 0 ? "allowed" : strerrorname_np(errno));
}

static long map(int protection) {
  void *at = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? -1 : 0;
}

static long make_executable(void) {
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mprotect(at, 4096, PROT_READ | PROT_EXEC);
}

static long process(void) {
  long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  int pair[2], error = netd_confine();
  if (error) {
    printf("not confined: %s\n", strerror(error));
    return 1;
  }
  say("datagrams", socket(AF_INET6, SOCK_DGRAM, 0));
  say("a pair of sockets", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  say("memory", map(PROT_READ | PROT_WRITE));
  say("memory for programs", map(PROT_READ | PROT_EXEC));
  say("memory made for programs", make_executable());
  say("a file", open("/", O_RDONLY));
  say("a unix socket", socket(AF_UNIX, SOCK_STREAM, 0));
  say("routing", socket(AF_NETLINK, SOCK_RAW, 0));
  say("packets", socket(AF_PACKET, SOCK_RAW, 0));
  say("a process", process());
  say("another program", execl("/proc/self/exe", "x", NULL));
  say("a signal", kill(getppid(), 0));
  say("a namespace", unshare(CLONE_NEWNS));
  say("a mount", mount("none", "/nowhere", "tmpfs", 0, NULL));
  say("tracing", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  say("another user", setuid(0));
  return 0;
}
