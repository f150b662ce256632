/*
 * seccomp_run.c: runs a command behind the filter and without the dropped capabilities, as root of a new user namespace
 * and PID namespace but on the host's own files: `seccomp_run [-n] [-u UID] COMMAND …`. With -n it also sets
 * no_new_privs. It shows whether real programs work behind the filter without a whole sandbox; it isolates nothing.
 */
#define _GNU_SOURCE
#include "confinement/caps.h"
#include "confinement/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what, int error) {
  fprintf(stderr, "Cannot %s: %s\n", what, strerror(error));
  exit(125);
}

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(path, errno);
  close(fd);
}

static int status_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/* what runs in the namespaces: its caller is their first process, reaps, and ends with the command */
static void run(char **argv, int uid, int no_privileges) {
  int error;
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("make mounts private", errno);
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)) fail("mount proc", errno);
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) fail("become undumpable", errno);
  if ((error = seccomp_install(NULL, 0, NULL))) fail("install the filter", error);
  if ((error = caps_drop())) fail("drop capabilities", error);
  if (no_privileges && (error = no_new_privs())) fail("set no_new_privs", error);
  pid_t child = fork();
  if (child == 0) {
    if (uid && (setgroups(0, NULL) || setgid((gid_t)uid) || setuid((uid_t)uid))) fail("become the user", errno);
    execvp(argv[0], argv);
    fail(argv[0], errno);
  }
  int status = 0;
  for (pid_t pid; (pid = wait(&status)) != child;)
    if (pid < 0 && errno != EINTR) fail("wait", errno);
  _exit(status_of(status));
}

int main(int argc, char **argv) {
  int uid = 0, no_privileges = 0;
  for (int option; (option = getopt(argc, argv, "+nu:")) != -1;) {
    if (option == 'n') no_privileges = 1;
    else if (option == 'u') uid = atoi(optarg);
    else return 125;
  }
  if (optind >= argc) return fputs("usage: seccomp_run [-n] [-u UID] COMMAND …\n", stderr), 125;

  int ready[2], mapped[2];
  if (pipe2(ready, O_CLOEXEC) || pipe2(mapped, O_CLOEXEC)) fail("make pipes", errno);
  char byte = 0;
  pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)) fail("unshare", errno);
    if (write(ready[1], &byte, 1) != 1 || read(mapped[0], &byte, 1) != 1) fail("be mapped", errno);
    pid_t inner = fork();
    if (inner == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(argv + optind, uid, no_privileges);
    }
    int status = 0;
    while (waitpid(inner, &status, 0) < 0 && errno == EINTR) continue;
    _exit(status_of(status));
  }
  char path[64];
  if (read(ready[0], &byte, 1) != 1) fail("wait for the child", errno);
  /* each id to itself, so that the host's files have the owners that the command expects */
  snprintf(path, sizeof path, "/proc/%d/uid_map", outer);
  write_file(path, "0 0 65536");
  snprintf(path, sizeof path, "/proc/%d/gid_map", outer);
  write_file(path, "0 0 65536");
  if (write(mapped[1], &byte, 1) != 1) fail("release the child", errno);
  int status = 0;
  while (waitpid(outer, &status, 0) < 0 && errno == EINTR) continue;
  return status_of(status);
}
