/* probe_files.c: attributes of the overlay below, links out of it, files of ids beyond the sandbox's range. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A file of our own on the file system that `path` is on; NULL when that cannot be written. */
static const char *own_file(const char *directory) {
  static char path[128];
  snprintf(path, sizeof path, "%s/probe-file-%d", directory, getpid());
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  close(fd);
  return path;
}

/* The overlay keeps its whiteouts and redirections in trusted.overlay.*: to set one is to reach other layers' files. */
static enum ending set_attribute(const struct probe *p) {
  const char *file = own_file("/var/tmp");
  if (!file) return untried("no file: %s", strerror(errno));
  int result = setxattr(file, p->path, "y", 1, 0), error = errno;
  unlink(file);
  errno = error;
  return ended(result);
}

static enum ending link_to(const struct probe *p) {
  char target[128];
  snprintf(target, sizeof target, "/var/tmp/probe-link-%d", getpid());
  int result = link(p->path, target), error = errno;
  if (!result) unlink(target);
  errno = error;
  return ended(result);
}

/* A descriptor without a name gets one only with CAP_DAC_READ_SEARCH, unless we opened it ourselves. */
static enum ending link_init_exe(const struct probe *p) {
  (void)p;
  int fd = open("/proc/1/exe", O_PATH | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  int result = linkat(fd, "", AT_FDCWD, "/var/tmp/probe-exe", AT_EMPTY_PATH), error = errno;
  if (!result) unlink("/var/tmp/probe-exe");
  errno = error;
  return ended(result);
}

static enum ending give_to_unmapped(const struct probe *p) {
  const char *file = own_file("/var/tmp");
  if (!file) return untried("no file: %s", strerror(errno));
  int result = chown(file, (uid_t)p->first, (gid_t)p->first), error = errno;
  unlink(file);
  errno = error;
  return ended(result);
}

static enum ending make_immutable(const struct probe *p) {
  const char *file = own_file("/var/tmp");
  if (!file) return untried("no file: %s", strerror(errno));
  int fd = open(file, O_RDONLY | O_CLOEXEC), flags = 0;
  int result = ioctl(fd, FS_IOC_GETFLAGS, &flags);
  if (!result) flags |= (int)p->first, result = ioctl(fd, FS_IOC_SETFLAGS, &flags);
  int error = errno;
  if (!result) flags &= ~(int)p->first, ioctl(fd, FS_IOC_SETFLAGS, &flags);
  close(fd);
  unlink(file);
  errno = error;
  return ended(result);
}

static char found[256];
static uid_t overflow;

static int find_unmapped(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  if (place->level == 1 && (!strcmp(path, "/proc") || !strcmp(path, "/sys") || !strcmp(path, "/dev")))
    return FTW_SKIP_SUBTREE;
  if (kind != FTW_F || !S_ISREG(facts->st_mode) || facts->st_uid != overflow || facts->st_mode & 0044)
    return FTW_CONTINUE;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FTW_CONTINUE;
  close(fd);
  snprintf(found, sizeof found, "%s", path);
  return FTW_STOP;
}

/* Files of nobody's that only their owner may read are the host's: CAP_DAC_OVERRIDE inside must not open them. */
static enum ending read_unmapped(const struct probe *p) {
  (void)p;
  char line[32];
  overflow = read_line("/proc/sys/kernel/overflowuid", line, sizeof line) > 0 ? (uid_t)atoi(line) : 65534;
  if (nftw("/", find_unmapped, 64, FTW_PHYS | FTW_ACTIONRETVAL) == FTW_STOP) return is_open("%s opens", found);
  return is_closed("none opens");
}

const struct probe FILE_PROBES[] = {
    {"xattr-overlay-opaque", set_attribute, "trusted.overlay.opaque", 0, 0, 0},
    {"xattr-overlay-redirect", set_attribute, "trusted.overlay.redirect", 0, 0, 0},
    {"xattr-overlay-metacopy", set_attribute, "trusted.overlay.metacopy", 0, 0, 0},
    {"xattr-trusted", set_attribute, "trusted.probe", 0, 0, 0},
    {"xattr-security", set_attribute, "security.probe", 0, 0, 0},
    {"link-init-exe", link_init_exe, NULL, 0, 0, 0},
    {"link-out-of-init-root", link_to, "/proc/1/root/etc/passwd", 0, 0, 0},
    {"chown-to-unmapped", give_to_unmapped, NULL, 70000, 0, 0},
    {"chown-to-nobody-outside", give_to_unmapped, NULL, 4294967294, 0, 0},
    {"chattr-immutable", make_immutable, NULL, FS_IMMUTABLE_FL, 0, 0},
    {"chattr-append-only", make_immutable, NULL, FS_APPEND_FL, 0, 0},
    {"read-unmapped-files", read_unmapped, NULL, 0, 0, 0},
    {0},
};
