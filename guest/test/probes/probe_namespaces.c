/* probe_namespaces.c: making namespaces, joining those of PID 1, and being in one of the host's. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static enum ending unshare_one(const struct probe *p) { return ended(unshare((int)p->first)); }

static enum ending clone_one(const struct probe *p) {
  long pid = syscall(SYS_clone, (unsigned long)p->first | SIGCHLD, NULL, NULL, NULL, NULL);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, NULL, 0);
  return ended(pid);
}

static enum ending clone3_one(const struct probe *p) {
  struct clone_args arguments = {.flags = (uint64_t)p->first, .exit_signal = SIGCHLD};
  long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, NULL, 0);
  return ended(pid);
}

static enum ending join(const struct probe *p) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  /* joining the user namespace that one is in is an error even for the permitted */
  return reached(setns(fd, 0));
}

static enum ending join_by_pidfd(const struct probe *p) {
  long fd = syscall(SYS_pidfd_open, 1, 0);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return reached(setns((int)fd, (int)p->first));
}

/* The kernel tells a namespace's owner only when that is our own user namespace: then root inside has power over it. */
static enum ending owned(const struct probe *p) {
  int fd = open(p->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return ended(ioctl(fd, (unsigned long)p->first));
}

/* The kernel gives its first namespaces fixed inode numbers. */
static enum ending initial(const struct probe *p) {
  struct stat facts;
  if (stat(p->path, &facts)) return is_closed("%s", strerror(errno));
  return (long)facts.st_ino == p->first ? is_open("it is the host's own") : is_closed("it is another");
}

const struct probe NAMESPACE_PROBES[] = {
    {"unshare-user", unshare_one, NULL, CLONE_NEWUSER, 0, 0},
    {"unshare-mount", unshare_one, NULL, CLONE_NEWNS, 0, 0},
    {"unshare-net", unshare_one, NULL, CLONE_NEWNET, 0, 0},
    {"unshare-pid", unshare_one, NULL, CLONE_NEWPID, 0, 0},
    {"unshare-ipc", unshare_one, NULL, CLONE_NEWIPC, 0, 0},
    {"unshare-uts", unshare_one, NULL, CLONE_NEWUTS, 0, 0},
    {"unshare-cgroup", unshare_one, NULL, CLONE_NEWCGROUP, 0, 0},
    {"unshare-time", unshare_one, NULL, 0x80, 0, 0},
    {"unshare-user-and-mount", unshare_one, NULL, CLONE_NEWUSER | CLONE_NEWNS, 0, 0},
    {"clone-user", clone_one, NULL, CLONE_NEWUSER, 0, 0},
    {"clone-mount", clone_one, NULL, CLONE_NEWNS, 0, 0},
    {"clone-net", clone_one, NULL, CLONE_NEWNET, 0, 0},
    {"clone-pid", clone_one, NULL, CLONE_NEWPID, 0, 0},
    {"clone-ipc", clone_one, NULL, CLONE_NEWIPC, 0, 0},
    {"clone-uts", clone_one, NULL, CLONE_NEWUTS, 0, 0},
    {"clone-cgroup", clone_one, NULL, CLONE_NEWCGROUP, 0, 0},
    {"clone-user-upper-bits", clone_one, NULL, CLONE_NEWUSER | 0x100000000, 0, 0},
    {"clone3-user", clone3_one, NULL, CLONE_NEWUSER, 0, 0},
    {"clone3-mount", clone3_one, NULL, CLONE_NEWUSER | CLONE_NEWNS, 0, 0},
    {"clone3-time", clone3_one, NULL, CLONE_NEWUSER | 0x80, 0, 0},
    {"join-init-user", join, "/proc/1/ns/user", 0, 0, 0},
    {"join-init-mount", join, "/proc/1/ns/mnt", 0, 0, 0},
    {"join-init-net", join, "/proc/1/ns/net", 0, 0, 0},
    {"join-init-pid", join, "/proc/1/ns/pid", 0, 0, 0},
    {"join-init-ipc", join, "/proc/1/ns/ipc", 0, 0, 0},
    {"join-init-uts", join, "/proc/1/ns/uts", 0, 0, 0},
    {"join-init-cgroup", join, "/proc/1/ns/cgroup", 0, 0, 0},
    {"join-init-time", join, "/proc/1/ns/time", 0, 0, 0},
    {"join-own-net", join, "/proc/self/ns/net", 0, 0, 0},
    {"join-own-mount", join, "/proc/self/ns/mnt", 0, 0, 0},
    {"join-init-by-pidfd", join_by_pidfd, NULL, CLONE_NEWNS | CLONE_NEWNET, 0, 0},
    {"namespace-net-is-ours", owned, "/proc/self/ns/net", NS_GET_USERNS, 0, 0},
    {"initial-user", initial, "/proc/self/ns/user", 0xEFFFFFFD, 0, 0},
    {"initial-pid", initial, "/proc/self/ns/pid", 0xEFFFFFFC, 0, 0},
    {"initial-uts", initial, "/proc/self/ns/uts", 0xEFFFFFFE, 0, 0},
    {"initial-ipc", initial, "/proc/self/ns/ipc", 0xEFFFFFFF, 0, 0},
    {"initial-time", initial, "/proc/self/ns/time", 0xEFFFFFFA, 0, 0},
    {"initial-cgroup", initial, "/proc/self/ns/cgroup", 0xEFFFFFFB, 0, 0},
    {0},
};
