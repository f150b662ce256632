/* copy.c: the copies behind copy.h. Content is shared where the file system can, and holes stay holes. */
#define _GNU_SOURCE
#include "layers/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OVERLAY_PREFIX "trusted.overlay."
/* what an overlay inside an overlay would call its own marks: contents, to us */
#define NESTED_PREFIX "trusted.overlay.overlay."

/* copies every xattr that is content; the marks of the overlay itself are decided anew */
static int copy_xattrs(int from, int to) {
  char *list = malloc(XATTR_LIST_MAX), *value = malloc(XATTR_SIZE_MAX);
  int error = list && value ? 0 : ENOMEM;
  ssize_t length = error ? 0 : flistxattr(from, list, XATTR_LIST_MAX);
  if (length < 0) error = errno == ENOTSUP ? 0 : errno;
  for (char *name = list; !error && length > 0 && name < list + length; name += strlen(name) + 1) {
    if (strncmp(name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) == 0 &&
        strncmp(name, NESTED_PREFIX, strlen(NESTED_PREFIX)) != 0) {
      continue;
    }
    ssize_t n = fgetxattr(from, name, value, XATTR_SIZE_MAX);
    if (n < 0 || fsetxattr(to, name, value, (size_t)n, 0)) error = errno;
  }
  free(list);
  free(value);
  return error;
}

/* owner first: changing it clears set-id bits and file capabilities; mode last: an ACL rewrites its group bits */
int copy_facts(int from, int to, const struct stat *st) {
  if (fchown(to, st->st_uid, st->st_gid)) return errno;
  int error = copy_xattrs(from, to);
  if (error) return error;
  return fchmod(to, st->st_mode & 07777) ? errno : 0;
}

int copy_times(int fd, const struct stat *st) {
  struct timespec times[2] = {st->st_atim, st->st_mtim};
  return futimens(fd, times) ? errno : 0;
}

static int copy_range(int from, int to, off_t start, off_t end) {
  char buffer[1 << 16];
  while (start < end) {
    size_t want = (size_t)(end - start) < sizeof buffer ? (size_t)(end - start) : sizeof buffer;
    ssize_t n = pread(from, buffer, want, start);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    for (ssize_t done = 0; done < n;) {
      ssize_t w = pwrite(to, buffer + done, (size_t)(n - done), start + done);
      if (w < 0 && errno == EINTR) continue;
      if (w < 0) return errno;
      done += w;
    }
    start += n;
  }
  return 0;
}

static int copy_content(int from, int to, off_t size) {
  /* on btrfs, where each layer is a subvolume and links cannot cross, the copy shares the blocks */
  if (ioctl(to, FICLONE, from) == 0) return 0;
  if (ftruncate(to, size)) return errno;
  for (off_t at = 0; at < size;) {
    off_t start = lseek(from, at, SEEK_DATA);
    if (start < 0) return errno == ENXIO ? 0 : errno; /* a hole to the end */
    off_t end = lseek(from, start, SEEK_HOLE);
    if (end < 0) return errno;
    int error = copy_range(from, to, start, end);
    if (error) return error;
    at = end;
  }
  return 0;
}

static int copy_regular(int from_dir, int to_dir, const char *name, const struct stat *st, int *made) {
  /* NONBLOCK: it was a regular file a moment ago, and if it is not one now we must not wait on it */
  int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (from < 0) return errno;
  int to = openat(to_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int error = to < 0 ? errno : copy_content(from, to, st->st_size);
  if (!error) error = copy_facts(from, to, st);
  if (!error) error = copy_times(to, st);
  close(from);
  if (error && to >= 0) close(to);
  else *made = to;
  return error;
}

/* symlinks, fifos, sockets, devices: they cannot be opened, so their facts are copied by name */
static int copy_special(int from_dir, int to_dir, const char *name, const struct stat *st, int *made) {
  if (S_ISLNK(st->st_mode)) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
    if (n < 0) return errno;
    target[n] = '\0';
    if (symlinkat(target, to_dir, name)) return errno;
  } else if (mknodat(to_dir, name, st->st_mode & (S_IFMT | 0777), st->st_rdev)) {
    return errno;
  }
  if (fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW)) return errno;
  /* nothing but us is in to_dir, so the name is still what was just made: not a symlink */
  if (!S_ISLNK(st->st_mode) && fchmodat(to_dir, name, st->st_mode & 07777, 0)) return errno;
  struct timespec times[2] = {st->st_atim, st->st_mtim};
  if (utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW)) return errno;
  *made = openat(to_dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  return *made < 0 ? errno : 0;
}

int copy_file(int from_dir, int to_dir, const char *name, const struct stat *st, int *made) {
  return S_ISREG(st->st_mode) ? copy_regular(from_dir, to_dir, name, st, made)
                              : copy_special(from_dir, to_dir, name, st, made);
}
