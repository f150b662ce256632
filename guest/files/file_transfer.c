/* file_transfer.c: reads and writes the contents of files as streams; only regular files, so that nothing can hang. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/files.h"

/* O_NONBLOCK: opening a FIFO, or reading a kernel file that waits for news, must fail rather than hang. */
#define SAFE_FLAGS (O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

enum write_flag {
  WRITE_PARENTS = 1,
  WRITE_APPEND = 2,
  WRITE_EXCLUSIVE = 4,
  WRITE_REPLACE = 8,
  WRITE_MODE = 16,
  WRITE_OWNER = 32,
  WRITE_TIME = 64,
};

struct write_request {
  mode_t mode;
  uint32_t flags;
  uid_t uid;
  gid_t gid;
  uint64_t modified;
};

/* Whether it is a file of /proc about this process. Its memory is laid out as that of the agent and of the launcher. */
static bool tells_of_us(int fd) {
  char link[32], name[64], own[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name, sizeof name);
  int expected = snprintf(own, sizeof own, "/proc/%d/", getpid());
  return length > expected && memcmp(name, own, (size_t)expected) == 0;
}

/* Opens a regular file. Looks before it opens, since merely opening some devices does something. -1 with errno. */
static int open_regular(const char *path, int flags, mode_t mode, const char **reason) {
  struct stat facts;
  *reason = NULL;
  bool there = fstatat(AT_FDCWD, path, &facts, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) == 0;
  if (there && flags & O_EXCL) {
    errno = EEXIST;
    return -1;
  }
  if (!there || S_ISREG(facts.st_mode)) {
    int fd = open(path, flags | SAFE_FLAGS, mode);
    /* and looks again at what it opened, since the name may stand for something else by now */
    if (fd < 0) return fd;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) {
      if (!tells_of_us(fd)) return fd;
      close(fd);
      errno = EACCES;
      return -1;
    }
    close(fd);
  }
  *reason = S_ISDIR(facts.st_mode) ? NULL : "it is not a regular file";
  errno = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
  return -1;
}

/* Sends up to `length` bytes. Returns 0 or the errno of the connection; *error is what the file said. */
static int send_contents(struct file_session *s, int fd, uint64_t length, int *error) {
  while (length > 0) {
    uint8_t *bytes;
    int broken = out_data_begin(s, &bytes);
    if (broken) return broken;
    ssize_t n = read(fd, bytes, length < WIRE_CHUNK ? (size_t)length : WIRE_CHUNK);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) *error = errno;
    if (n <= 0) return 0;
    out_data_end(s, (size_t)n);
    length -= (uint64_t)n;
  }
  return 0;
}

int handle_read(struct file_session *s, struct reader *r) {
  int result, error = 0;
  const char *reason;
  read_path(s, r, s->path);
  uint64_t offset = read_u64(r);
  uint64_t length = read_u64(r);
  if (refused(s, r, "read", &result)) return result;
  if (offset > INT64_MAX) return answer_fail(s, EINVAL, "read", s->path, "the offset is out of range");
  int fd = open_regular(s->path, O_RDONLY, 0, &reason);
  if (fd < 0) return answer_fail(s, errno, "read", s->path, reason);
  if (offset > 0 && lseek(fd, (off_t)offset, SEEK_SET) < 0) error = errno;
  int broken = error ? 0 : send_contents(s, fd, length, &error);
  close(fd);
  if (broken) return broken;
  return error ? answer_fail(s, error, "read", s->path, NULL) : answer_end(s);
}

/* Makes a new file where another may be. Where nothing may be removed, a file may still be overwritten. */
static int open_replacing(const char *path, int flags, mode_t mode, const char **reason) {
  int fd = open_regular(path, flags | O_NOFOLLOW | O_EXCL, mode, reason);
  if (fd >= 0 || errno != EEXIST) return fd;
  if (unlink(path) == 0) return open_regular(path, flags | O_NOFOLLOW | O_EXCL, mode, reason);
  return open_regular(path, flags | O_NOFOLLOW, mode, reason);
}

static int open_for_writing(const char *path, const struct write_request *request, const char **reason) {
  /* without the bits that give rights: those are set, if at all, once the contents are there */
  mode_t mode = request->mode & 0777;
  int flags = O_WRONLY | O_CREAT;
  if (request->flags & WRITE_EXCLUSIVE) flags |= O_EXCL;
  if (request->flags & WRITE_APPEND) flags |= O_APPEND;
  int fd = request->flags & WRITE_REPLACE ? open_replacing(path, flags, mode, reason)
                                          : open_regular(path, flags, mode, reason);
  /* an existing file is cut only after it turned out to be a regular one */
  if (fd >= 0 && !(request->flags & WRITE_APPEND) && ftruncate(fd, 0) != 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

static int open_target(const char *path, const struct write_request *request, const char **reason) {
  int fd = open_for_writing(path, request, reason);
  if (fd >= 0 || errno != ENOENT || !(request->flags & WRITE_PARENTS)) return fd;
  int error = make_parents(path);
  if (error) {
    errno = error;
    return -1;
  }
  return open_for_writing(path, request, reason);
}

static int write_all(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(fd, bytes, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes += n;
    length -= (size_t)n;
  }
  return 0;
}

/* Owner before mode, since a change of owner clears setuid; the time last, since everything else changes it. */
static int finish(int fd, const struct write_request *request) {
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                              {.tv_sec = (time_t)(request->modified / 1000),
                               .tv_nsec = (long)(request->modified % 1000) * 1000000}};
  if (request->flags & WRITE_OWNER && fchown(fd, request->uid, request->gid) != 0) return errno;
  if (request->flags & WRITE_MODE && fchmod(fd, request->mode) != 0) return errno;
  if (request->flags & WRITE_TIME && futimens(fd, times) != 0) return errno;
  return 0;
}

/* What is written to: the draft while there is one, otherwise the file in its place. */
struct target {
  struct draft draft;
  int fd;
  const struct write_request *request;
};

/* Goes on in place with what the draft holds: there is no room for old and new together, or the place takes no other. */
static int go_on_in_place(struct target *t) {
  const char *reason;
  int fd = open_target(t->draft.path, t->request, &reason);
  int error = fd < 0 ? errno : draft_copy(&t->draft, fd);
  draft_drop(&t->draft);
  t->fd = fd;
  return error;
}

static int write_to(struct target *t, const uint8_t *bytes, size_t length) {
  if (t->draft.fd < 0) return write_all(t->fd, bytes, length);
  off_t before = lseek(t->draft.fd, 0, SEEK_CUR);
  int error = write_all(t->draft.fd, bytes, length);
  if (error != ENOSPC && error != EDQUOT) return error;
  /* the file in the place may have what is missing */
  struct stat old;
  if (stat(t->draft.path, &old) != 0 || old.st_size == 0) return error;
  if (ftruncate(t->draft.fd, before) != 0) return errno;
  error = go_on_in_place(t);
  return error ? error : write_all(t->fd, bytes, length);
}

/*
 * Takes DATA until END and writes it. A failure is answered at once, so that the other side can stop early, and the
 * rest is dropped. Returns 0, ECANCELED when the request is `answered` by then, or the errno of a broken connection.
 */
static int take_contents(struct file_session *s, struct target *t, bool answered) {
  for (;;) {
    struct header header;
    uint8_t *payload;
    int broken = recv_frame(s->fd, &header, &payload);
    if (broken) return broken;
    bool end = header.type == WIRE_END && header.length <= 1;
    bool broken_off = end && header.length == 1;
    bool data = header.type == WIRE_DATA;
    int error = data && !answered ? write_to(t, payload, header.length) : 0;
    free(payload);
    if (header.id != s->id || (!end && !data)) {
      if (!answered) answer_malformed(s);
      return EPROTO;
    }
    if (error || (broken_off && !answered)) {
      broken = answer_fail(s, error ? error : ECANCELED, "write", s->path, error ? NULL : "its data broke off");
      if (broken) return broken;
      answered = true;
    }
    if (end) return answered ? ECANCELED : 0;
  }
}

/* Drops the DATA that follows a request that was answered with FAIL already. */
static int drop_contents(struct file_session *s, int sent) {
  if (sent) return sent;
  int broken = take_contents(s, NULL, true);
  return broken == ECANCELED ? 0 : broken;
}

/* Layers, which only the launcher writes, are not used before they are complete. */
static bool begin_draft(const struct file_session *s, struct target *t) {
  uint32_t flags = t->request->flags;
  t->draft.fd = -1;
  if (s->privileged || s->in_place || flags & WRITE_APPEND) return false;
  struct stat old;
  if (flags & WRITE_EXCLUSIVE && fstatat(AT_FDCWD, s->path, &old, AT_SYMLINK_NOFOLLOW) == 0) return false;
  bool replace = (flags & WRITE_REPLACE) != 0;
  mode_t mode = t->request->mode & 0777;
  if (draft_open(&t->draft, s->path, mode, replace)) return true;
  if (!(flags & WRITE_PARENTS) || access(s->path, F_OK) == 0 || make_parents(s->path) != 0) return false;
  return draft_open(&t->draft, s->path, mode, replace);
}

static int put_in_place(struct target *t) {
  if (t->draft.fd < 0) return finish(t->fd, t->request);
  int error = finish(t->draft.fd, t->request);
  if (error) return error;
  bool exclusive = (t->request->flags & WRITE_EXCLUSIVE) != 0;
  error = draft_place(&t->draft, exclusive);
  if (!error || exclusive) return error;
  error = go_on_in_place(t);
  return error ? error : finish(t->fd, t->request);
}

int handle_write(struct file_session *s, struct reader *r) {
  int result;
  const char *reason;
  struct write_request request;
  read_path(s, r, s->path);
  request.mode = read_u32(r) & 07777;
  request.flags = read_u32(r);
  request.uid = read_u32(r);
  request.gid = read_u32(r);
  request.modified = read_u64(r);
  if (refused(s, r, "write", &result)) return drop_contents(s, result);
  if (request.flags >= 2 * WRITE_TIME || request.modified > TIME_LIMIT) {
    return drop_contents(s, answer_fail(s, EINVAL, "write", s->path, "its flags or its time are out of range"));
  }
  struct target target = {.fd = -1, .request = &request};
  if (!begin_draft(s, &target)) target.fd = open_target(s->path, &request, &reason);
  if (target.draft.fd < 0 && target.fd < 0) {
    return drop_contents(s, answer_fail(s, errno, "write", s->path, reason));
  }
  int broken = take_contents(s, &target, false);
  int error = broken ? 0 : put_in_place(&target);
  draft_drop(&target.draft);
  if (target.fd >= 0 && close(target.fd) != 0 && !error) error = errno;
  if (broken) return broken == ECANCELED ? 0 : broken;
  return error ? answer_fail(s, error, "write", s->path, NULL) : answer_ok(s);
}
