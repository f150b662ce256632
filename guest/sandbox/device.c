/* device.c: makes the file system of device.h. */
#define _GNU_SOURCE
#include "sandbox/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shared/mountapi.h"

static const struct {
  const char *path;
  unsigned major, minor;
} devices[] = {{"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
               {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0}};

static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
                                       {"/proc/self/fd/0", "dev/stdin"},
                                       {"/proc/self/fd/1", "dev/stdout"},
                                       {"/proc/self/fd/2", "dev/stderr"},
                                       {"pts/ptmx", "dev/ptmx"}};

/* "dev/pts", "dev/shm" and "view" are where the sandbox mounts its own; the others stay empty */
static const char *const folders[] = {"dev", "dev/pts", "dev/shm", "dev/mqueue", "empty", "view"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* a detached tmpfs; made by the launcher, because devices are dead on what a user namespace mounts */
static int mount_tmpfs(void) {
  int fs = sys_fsopen("tmpfs", FSOPEN_CLOEXEC);
  if (fs < 0) return -1;
  int fd = -1;
  if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) == 0 &&
      sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "64k", 0) == 0 &&
      sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "64", 0) == 0 &&
      sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
    fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  }
  int error = errno;
  close(fs);
  errno = error;
  return fd;
}

static int fill(int fd, uid_t base) {
  for (size_t i = 0; i < COUNT(folders); i++) {
    if (mkdirat(fd, folders[i], 0755) < 0 || fchownat(fd, folders[i], base, base, 0) < 0) return -1;
  }
  for (size_t i = 0; i < COUNT(devices); i++) {
    const char *path = devices[i].path;
    if (mknodat(fd, path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0) return -1;
    if (fchownat(fd, path, base, base, 0) < 0) return -1;
  }
  for (size_t i = 0; i < COUNT(links); i++) {
    if (symlinkat(links[i][0], fd, links[i][1]) < 0) return -1;
  }
  if (mknodat(fd, "mask", S_IFREG | 0444, 0) < 0) return -1;
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
  return sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr);
}

int device_tree(uid_t base) {
  int fd = mount_tmpfs();
  if (fd < 0) return -1;
  mode_t before = umask(0);
  int failed = fill(fd, base), error = errno;
  umask(before);
  if (!failed) return fd;
  close(fd);
  errno = error;
  return -1;
}
