/* caller.c: see caller.h. */
#define _GNU_SOURCE
#include "agent/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUPS 64
#define PAGE 4096u

/* ---- who it is ---- */

/* /proc/<thread>/status; false when it has gone */
static bool read_status(pid_t thread, char *text, size_t room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, room - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* what follows "\nName:" */
static const char *line_of(const char *status, const char *name) {
  const char *line = strstr(status, name);
  return line ? line + strlen(name) : NULL;
}

int caller_find(pid_t thread, struct caller *out) {
  *out = (struct caller){.thread = thread, .memory = -1, .pidfd = -1};
  const char *process = read_status(thread, out->status, sizeof out->status) ? line_of(out->status, "\nTgid:") : NULL;
  if (!process) return ESRCH;
  out->process = (pid_t)atoi(process);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", thread);
  out->memory = open(path, O_RDWR | O_CLOEXEC);
  if (out->memory < 0) return errno;
  out->pidfd = (int)syscall(SYS_pidfd_open, out->process, 0);
  return out->pidfd < 0 ? errno : 0;
}

void caller_drop(struct caller *c) {
  if (c->memory >= 0) close(c->memory);
  if (c->pidfd >= 0) close(c->pidfd);
}

/* ---- its memory and descriptors ---- */

int caller_read(const struct caller *c, uint64_t address, void *to, size_t length) {
  return pread(c->memory, to, length, (off_t)address) == (ssize_t)length ? 0 : EFAULT;
}

int caller_write(const struct caller *c, uint64_t address, const void *from, size_t length) {
  return pwrite(c->memory, from, length, (off_t)address) == (ssize_t)length ? 0 : EFAULT;
}

int caller_descriptor(const struct caller *c, uint64_t fd, const struct seccomp_pass *pass) {
  const uint64_t args[] = {(uint32_t)c->pidfd, (uint32_t)fd, 0};
  return (int)syscall(SYS_pidfd_getfd, args[0] | (uint64_t)pass->words[0] << 32, args[1] | (uint64_t)pass->words[1] << 32,
                      args[2] | (uint64_t)pass->words[2] << 32);
}

/* ---- its files ---- */

/* a path ends somewhere in its page or in the next; the page after its end may not be there */
static int read_path(const struct caller *c, uint64_t address, char path[PATH_MAX]) {
  for (size_t length = 0; length < PATH_MAX;) {
    size_t piece = PAGE - (address + length) % PAGE;
    if (piece > PATH_MAX - length) piece = PATH_MAX - length;
    int error = caller_read(c, address + length, path + length, piece);
    if (error) return error;
    if (memchr(path + length, 0, piece)) return *path ? 0 : ENOENT;
    length += piece;
  }
  return ENAMETOOLONG;
}

/* looks at files as the caller would: by the user and the groups that the kernel takes for files */
static int look_as(const char *status) {
  const char *user = line_of(status, "\nUid:"), *group = line_of(status, "\nGid:"), *others = line_of(status, "\nGroups:");
  unsigned uid, gid;
  if (!user || !group || !others || sscanf(user, "%*u %*u %*u %u", &uid) != 1 || sscanf(group, "%*u %*u %*u %u", &gid) != 1) return ESRCH;
  gid_t groups[GROUPS];
  size_t count = 0;
  for (char *end; count < GROUPS && *others != '\n'; others = end, count++) {
    groups[count] = (gid_t)strtoul(others, &end, 10);
    if (end == others) break;
  }
  if (setgroups(count, groups) < 0) return errno;
  setfsgid(gid);
  setfsuid(uid);
  return 0;
}

void caller_leave(void) {
  setfsuid(0);
  setfsgid(0);
  if (setgroups(0, NULL) < 0) abort();
}

int caller_enter(pid_t thread) {
  char status[CALLER_STATUS];
  return read_status(thread, status, sizeof status) ? look_as(status) : ESRCH;
}

static int open_of(const struct caller *c, const char *what) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", c->thread, what);
  return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool is_our_root(int root) {
  struct stat ours, theirs;
  return stat("/", &ours) == 0 && fstat(root, &theirs) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* in our own root: "self" means the caller */
static int open_here(const struct caller *c, int directory, const char *path) {
  static const char self[] = "/proc/self/";
  char own[PATH_MAX + 16];
  if (strncmp(path, self, strlen(self)) != 0) return openat(directory, path, O_PATH | O_CLOEXEC);
  snprintf(own, sizeof own, "/proc/%d/%s", c->process, path + strlen(self));
  return open(own, O_PATH | O_CLOEXEC);
}

/* in a root of its own, which nothing on the way may leave */
static int open_below(int root, int directory, const char *path) {
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
  return (int)syscall(SYS_openat2, *path == '/' ? root : directory, path, &how, sizeof how);
}

int caller_open(const struct caller *c, uint64_t address) {
  char path[PATH_MAX];
  errno = read_path(c, address, path);
  if (errno) return -1;
  int root = open_of(c, "root"), directory = open_of(c, "cwd"), fd = -1;
  if (root >= 0 && directory >= 0) {
    bool ours = is_our_root(root);
    errno = look_as(c->status);
    if (!errno) fd = ours ? open_here(c, directory, path) : open_below(root, directory, path);
  }
  int error = errno;
  caller_leave();
  if (root >= 0) close(root);
  if (directory >= 0) close(directory);
  errno = error;
  return fd;
}
