/*
 * file_draft.c: writes a file beside its place and puts it there whole, so that a write that is cut off, by whatever
 * kills it, leaves what was there before.
 *
 * A draft has no name while it is written (O_TMPFILE), so nothing of it is left when its process dies. A new file gets
 * its name by one link(); one that replaces another gets a name beside it for the moment between link() and rename().
 *
 * A file is written in place, as open() with O_TRUNC does it, where a draft would change what else there is to see:
 * when it has other names (hard links) or extended attributes, or an owner that cannot be kept; where its directory
 * takes no new file; and where there is no room for old and new together.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files/files.h"

/* The directory that an absolute path lies in; false for one that ends with a slash, which names a directory. */
static bool directory_of(const char *path, char directory[PATH_MAX]) {
  size_t length = (size_t)(strrchr(path, '/') - path);
  if (!path[length + 1]) return false;
  if (length == 0) length = 1;
  memcpy(directory, path, length);
  directory[length] = 0;
  return true;
}

/* Whether the file has attributes, such as an access list, that a new file would lack. */
static bool has_attributes(const char *path) {
  char names[1024];
  ssize_t length = llistxattr(path, names, sizeof names);
  if (length < 0) return errno == ERANGE;
  for (const char *name = names; name < names + length; name += strlen(name) + 1) {
    if (strncmp(name, "user.", 5) == 0 || strncmp(name, "system.", 7) == 0) return true;
  }
  return false;
}

/* Whether a new file can stand for this one; makes the draft like it. */
static bool is_alike(int draft, const char *path, const struct stat *old) {
  struct stat new;
  if (old->st_nlink > 1 || has_attributes(path) || fstat(draft, &new) != 0) return false;
  bool owned = new.st_uid == old->st_uid && new.st_gid == old->st_gid;
  if (!owned && fchown(draft, old->st_uid, old->st_gid) != 0) return false;
  /* as a write does, without the bits that give rights */
  return fchmod(draft, old->st_mode & 0777) == 0;
}

bool draft_open(struct draft *d, const char *path, mode_t mode, bool replace) {
  struct stat old;
  char directory[PATH_MAX];
  *d = (struct draft){.fd = -1};
  bool there = fstatat(AT_FDCWD, path, &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && errno != ENOENT) return false;
  if (snprintf(d->path, sizeof d->path, "%s", path) >= (int)sizeof d->path) return false;
  if (!replace && there && S_ISLNK(old.st_mode)) {
    /* what it points to is written; where that is missing, open() makes it */
    if (!realpath(path, d->path) || fstatat(AT_FDCWD, d->path, &old, AT_SYMLINK_NOFOLLOW) != 0) return false;
  }
  if (there && (replace ? S_ISDIR(old.st_mode) : !S_ISREG(old.st_mode))) return false;
  /* who may not write to a file may not replace it either */
  if (!replace && there && access(d->path, W_OK) != 0) return false;
  if (!directory_of(d->path, directory)) return false;
  d->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (d->fd >= 0 && there && !replace && !is_alike(d->fd, d->path, &old)) draft_drop(d);
  return d->fd >= 0;
}

void draft_drop(struct draft *d) {
  if (d->fd >= 0) close(d->fd);
  d->fd = -1;
}

static int link_at(int fd, const char *path) {
  if (linkat(fd, "", AT_FDCWD, path, AT_EMPTY_PATH) == 0) return 0;
  if (errno == EEXIST) return EEXIST;
  char self[32];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Gives the draft a name of its own beside its place, then the place's. */
static int replace_by(const struct draft *d) {
  char beside[PATH_MAX];
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return EAGAIN;
  const char *name = strrchr(d->path, '/') + 1;
  int length = snprintf(beside, sizeof beside, "%.*s.%016llx.new", (int)(name - d->path), d->path,
                        (unsigned long long)number);
  if (length >= (int)sizeof beside) return ENAMETOOLONG;
  int error = link_at(d->fd, beside);
  if (error) return error;
  if (rename(beside, d->path) == 0) return 0;
  error = errno;
  unlink(beside);
  return error;
}

/* ".<16 hexadecimal digits>.new" */
bool is_draft_name(const char *name) {
  return name[0] == '.' && strspn(name + 1, "0123456789abcdef") == 16 && strcmp(name + 17, ".new") == 0;
}

int draft_place(const struct draft *d, bool exclusive) {
  int error = link_at(d->fd, d->path);
  return error == EEXIST && !exclusive ? replace_by(d) : error;
}

int draft_copy(const struct draft *d, int to) {
  static char buffer[64 << 10];
  if (lseek(d->fd, 0, SEEK_SET) < 0) return errno;
  for (;;) {
    ssize_t got = read(d->fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    for (ssize_t done = 0; done < got;) {
      ssize_t n = write(to, buffer + done, (size_t)(got - done));
      if (n < 0 && errno != EINTR) return errno;
      if (n > 0) done += n;
    }
  }
}
