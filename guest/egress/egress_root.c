/* egress_root.c: makes the root of egress_root.h out of bind mounts and enters it. */
#define _GNU_SOURCE
#include "egress/egress_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* a folder that every host has, and that the egress process needs nothing of */
#define PLACE "/sys"

/* the folders above a path */
static int make_parents(char *path) {
  for (char *at = path + sizeof PLACE; (at = strchr(at, '/')); at++) {
    *at = 0;
    int error = mkdir(path, 0755) < 0 && errno != EEXIST ? errno : 0;
    *at = '/';
    if (error) return error;
  }
  return 0;
}

static int show_link(const char *from, const char *to) {
  char target[PATH_MAX];
  ssize_t length = readlink(from, target, sizeof target - 1);
  if (length < 0) return errno;
  target[length] = 0;
  return symlink(target, to) < 0 && errno != EEXIST ? errno : 0;
}

static int show(const char *path, unsigned long flags) {
  char to[PATH_MAX];
  struct stat facts;
  if (lstat(path, &facts) < 0) return errno == ENOENT ? 0 : errno;
  if (snprintf(to, sizeof to, PLACE "%s", path) >= (int)sizeof to) return ENAMETOOLONG;
  int error = make_parents(to);
  if (error) return error;
  if (S_ISLNK(facts.st_mode)) return show_link(path, to);
  if (S_ISDIR(facts.st_mode)) {
    if (mkdir(to, 0755) < 0 && errno != EEXIST) return errno;
  } else {
    int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno != EROFS) return errno;
    if (fd >= 0) close(fd);
  }
  if (mount(path, to, NULL, MS_BIND, NULL) < 0) return errno;
  return mount(NULL, to, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | flags, NULL) < 0 ? errno : 0;
}

static int show_all(const char *view, const char *logs) {
  char path[PATH_MAX];
  for (const char *line = view ? view : "", *end; *line; line = *end ? end + 1 : end) {
    end = strchrnul(line, '\n');
    if (end - line >= (ptrdiff_t)sizeof path) return ENAMETOOLONG;
    memcpy(path, line, (size_t)(end - line));
    path[end - line] = 0;
    if (path[0] != '/') continue;
    int error = show(path, MS_RDONLY | (strncmp(path, "/dev/", 5) == 0 ? 0 : MS_NODEV));
    if (error) return error;
  }
  return logs ? show(logs, MS_NODEV | MS_NOEXEC) : 0;
}

int egress_root_enter(const char *view, const char *logs) {
  if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return errno;
  if (mount("egress", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") < 0) return errno;
  /* The folders on the way must be readable for a user that is not root. */
  mode_t before = umask(022);
  int error = show_all(view, logs);
  umask(before);
  if (error) return error;
  if (chdir(PLACE) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) return errno;
  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) return errno;
  return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0 ? errno : 0;
}
