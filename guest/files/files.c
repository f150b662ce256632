/*
 * files.c: takes file requests off a connection and does them, one after the other.
 *
 * The requests, in the notation of wire.h; src/runtime/linux/files/file-session.ts is the other side and says the same.
 * A path is absolute, at most PATH_MAX - 1 bytes, of any bytes but NUL. A u8 that is a flag is 0 or not 0.
 *
 *   READ      str path, u64 offset, u64 length (2^64-1: to the end)    -> DATA*, END | FAIL, also after some DATA
 *   WRITE     str path, u32 mode, u32 flags, u32 uid, u32 gid, u64 modified ms; always followed by DATA*, END of the
 *             same id, whatever the answer. END { u8 } says that the data broke off: what was there stays there, but
 *             where file_draft.c says that files are written in place    -> OK, after END | FAIL, also before END
 *               flags: 1 make parents, 2 append, 4 fail if it exists, 8 replace whatever is there but a directory,
 *                      16 set the mode also of a file that exists, 32 set uid and gid, 64 set the time of modification
 *   STAT      str path, u8 follow                                      -> ENTRY, its path empty
 *   LIST      str path                                                 -> ENTRY*, END; each path is a name
 *   MKDIR     str path, u32 mode, u8 recursive                         -> OK { u8 made: 0 if it was there }
 *   MOVE      str from, str to                                         -> OK
 *   REMOVE    str path, u8 recursive, u8 force (fine if missing)       -> OK
 *   CHMOD     str path, u32 mode                                       -> OK
 *   CHOWN     str path, u32 uid, u32 gid (2^32-1: keep), u8 follow     -> OK
 *   SYMLINK   str target, str path                                     -> OK; the target is any text
 *   LINK      str from, str to                                         -> OK
 *   UTIME     str path, u64 modified ms, u8 follow                     -> OK
 *   FIFO      str path, u32 mode                                       -> OK
 *   WATCH     str path, u8 recursive                                   -> OK, then CHANGED* until the connection is
 *                                                         closed, or END when the path itself is gone, or FAIL
 *   WALK      str path, u8 contents, u8 attributes                     -> ENTRY*, END | FAIL, also after some ENTRY;
 *               directories before what is in them, "" is the path itself, others are relative to it. With contents,
 *               DATA*, END follow each ENTRY_FILE: exactly `size` bytes, cut or filled up with zeros if it changes
 *   WHITEOUT  str path                                                 -> OK                        (privileged only)
 *   SETXATTR  str path, str name, bytes value                          -> OK; the overlay's own only when privileged
 *   USAGE     str path                                  -> OK { u64 bytes, u64 inodes }             (privileged only)
 *
 *   ENTRY     str path, u8 type (enum entry_type), u64 size, u32 permission bits, u32 uid, u32 gid, u64 modified ms,
 *             u32 links, u32 device major, u32 device minor, str target, u16 count x { str name, bytes value },
 *             u64 accessed ms, u64 changed ms (neither from agents of earlier versions)
 *   CHANGED   u8 kind (1 created, 2 written, 3 removed, 4 moved, 5 metadata), u8 is a directory, str path,
 *             str to (moved: where it is now; empty when unknown)
 *
 * Requests may be sent without waiting for answers; answers come in the order of the requests. A payload that does not
 * hold its fields is answered FAIL (EBADMSG), an unknown type FAIL (ENOSYS), and the connection goes on. It ends when a
 * header is too long, when WRITE is followed by anything but its DATA and END, or when anything follows WATCH.
 */
#define _GNU_SOURCE
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static int handle(struct file_session *s, const struct header *header, const uint8_t *payload);

void serve_files(int fd, const struct file_context *context) {
  static uint8_t out[OUT_ROOM];
  static struct file_session session;
  session = (struct file_session){.fd = fd, .privileged = context->privileged, .in_place = context->in_place, .out = out};
  /* modes are the caller's, who says what he wants */
  umask(0);
  /* a write beyond a file size limit shall fail, not kill */
  signal(SIGXFSZ, SIG_IGN);
  int error = 0;
  while (!error) {
    struct header header;
    uint8_t *payload;
    error = recv_frame(fd, &header, &payload);
    if (error) return;
    error = handle(&session, &header, payload);
    free(payload);
  }
}

void read_path(struct file_session *s, struct reader *r, char path[PATH_MAX]) {
  struct span text = read_str(r);
  uint32_t length = text.length < PATH_MAX ? text.length : PATH_MAX - 1;
  memcpy(path, text.data, length);
  path[length] = 0;
  if (s->path_error) return;
  s->bad_path = path;
  if (text.length >= PATH_MAX) s->path_error = ENAMETOOLONG;
  if (path[0] != '/') s->path_error = EINVAL;
}

bool refused(struct file_session *s, const struct reader *r, const char *verb, int *result) {
  if (!reader_done(r)) {
    *result = answer_malformed(s);
    return true;
  }
  if (s->path_error) {
    *result = answer_fail(s, s->path_error, verb, s->bad_path,
                          s->path_error == EINVAL ? "the path is not absolute" : NULL);
    return true;
  }
  return false;
}

int answer_result(struct file_session *s, int code, const char *verb, const char *path) {
  return code == 0 ? answer_ok(s) : answer_fail(s, errno, verb, path, NULL);
}

/* Makes every directory on the way to path[0..length), 0755, from the top; 0 or an errno. */
static int make_way(char *path, size_t length) {
  for (size_t i = 1; i <= length; i++) {
    if (i < length && path[i] != '/') continue;
    char cut = path[i];
    path[i] = 0;
    int error = mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : errno;
    /* a directory that is there need not be one we could make: /proc answers ENOENT, a read-only mount EROFS */
    struct stat facts;
    if (error && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) error = 0;
    path[i] = cut;
    if (error) return error;
  }
  return 0;
}

int make_parents(const char *path) {
  char parent[PATH_MAX];
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  while (length > 0 && path[length - 1] != '/') length--;
  while (length > 1 && path[length - 1] == '/') length--;
  if (length <= 1) return 0;
  memcpy(parent, path, length);
  parent[length] = 0;
  return make_way(parent, length);
}

static int handle_stat(struct file_session *s, struct reader *r) {
  int result;
  char target[PATH_MAX] = "";
  struct stat facts;
  read_path(s, r, s->path);
  bool follow = read_u8(r) != 0;
  if (refused(s, r, "stat", &result)) return result;
  if (fstatat(AT_FDCWD, s->path, &facts, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    return answer_fail(s, errno, "stat", s->path, NULL);
  }
  if (S_ISLNK(facts.st_mode)) {
    ssize_t length = readlink(s->path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
  }
  struct entry entry = {
      .path = "", .type = entry_type(facts.st_mode), .facts = &facts, .target = target, .attributes = -1};
  int error = out_entry(s, &entry);
  return error ? error : out_flush(s);
}

/* As mkdir -p: *made tells whether this call made the last directory. Returns 0 or an errno. */
static int make_directory(const char *path, mode_t mode, bool recursive, bool *made) {
  *made = mkdir(path, mode) == 0;
  int error = *made ? 0 : errno;
  if (!recursive || !error) return error;
  if (error == ENOENT) {
    error = make_parents(path);
    if (error) return error;
    *made = mkdir(path, mode) == 0;
    error = *made ? 0 : errno;
  }
  struct stat facts;
  if (error && stat(path, &facts) == 0) return S_ISDIR(facts.st_mode) ? 0 : EEXIST;
  return error;
}

static int handle_mkdir(struct file_session *s, struct reader *r) {
  int result;
  bool made;
  read_path(s, r, s->path);
  mode_t mode = read_u32(r) & 07777;
  bool recursive = read_u8(r) != 0;
  if (refused(s, r, "make the directory", &result)) return result;
  int error = make_directory(s->path, mode, recursive, &made);
  if (error) return answer_fail(s, error, "make the directory", s->path, NULL);
  struct writer w = frame_begin(WIRE_OK, s->id);
  write_u8(&w, made);
  error = out_frame(s, &w);
  return error ? error : out_flush(s);
}

static int handle_move(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  read_path(s, r, s->other);
  if (refused(s, r, "move", &result)) return result;
  return answer_result(s, rename(s->path, s->other), "move", s->path);
}

static int handle_chmod(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  mode_t mode = read_u32(r) & 07777;
  if (refused(s, r, "change the mode of", &result)) return result;
  return answer_result(s, chmod(s->path, mode), "change the mode of", s->path);
}

static int handle_chown(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  uid_t uid = read_u32(r);
  gid_t gid = read_u32(r);
  int flags = read_u8(r) ? 0 : AT_SYMLINK_NOFOLLOW;
  if (refused(s, r, "change the owner of", &result)) return result;
  return answer_result(s, fchownat(AT_FDCWD, s->path, uid, gid, flags), "change the owner of", s->path);
}

static int handle_symlink(struct file_session *s, struct reader *r) {
  int result;
  char target[PATH_MAX];
  struct span text = read_str(r);
  read_path(s, r, s->path);
  if (refused(s, r, "make the symlink", &result)) return result;
  if (text.length >= sizeof target || text.length == 0) {
    return answer_fail(s, text.length ? ENAMETOOLONG : EINVAL, "make the symlink", s->path,
                       text.length ? "its target is too long" : "its target is empty");
  }
  memcpy(target, text.data, text.length);
  target[text.length] = 0;
  return answer_result(s, symlink(target, s->path), "make the symlink", s->path);
}

static int handle_link(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  read_path(s, r, s->other);
  if (refused(s, r, "link", &result)) return result;
  return answer_result(s, linkat(AT_FDCWD, s->path, AT_FDCWD, s->other, 0), "link", s->path);
}

static int handle_utime(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  uint64_t ms = read_u64(r);
  int flags = read_u8(r) ? 0 : AT_SYMLINK_NOFOLLOW;
  if (refused(s, r, "set the time of", &result)) return result;
  if (ms > TIME_LIMIT) return answer_fail(s, EINVAL, "set the time of", s->path, "the time is out of range");
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                              {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};
  return answer_result(s, utimensat(AT_FDCWD, s->path, times, flags), "set the time of", s->path);
}

static int handle_fifo(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  mode_t mode = read_u32(r) & 07777;
  if (refused(s, r, "make the fifo", &result)) return result;
  return answer_result(s, mkfifo(s->path, mode), "make the fifo", s->path);
}

/* The overlay takes a character device 0/0 as "the file below is gone". */
static int handle_whiteout(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  if (refused(s, r, "white out", &result)) return result;
  return answer_result(s, mknod(s->path, S_IFCHR, makedev(0, 0)), "white out", s->path);
}

/* What a copy of files may have. Inside a sandbox the kernel decides as for any program of the same user. */
static bool may_set(const struct file_session *s, const char *name) {
  return (s->privileged && strncmp(name, "trusted.overlay.", 16) == 0) || strncmp(name, "user.", 5) == 0 ||
         strcmp(name, "security.capability") == 0;
}

static int handle_setxattr(struct file_session *s, struct reader *r) {
  int result;
  char name[XATTR_NAME_MAX + 1];
  read_path(s, r, s->path);
  struct span text = read_str(r);
  struct span value = read_bytes(r);
  if (refused(s, r, "set an attribute of", &result)) return result;
  if (text.length > XATTR_NAME_MAX) {
    return answer_fail(s, ERANGE, "set an attribute of", s->path, "its name is too long");
  }
  memcpy(name, text.data, text.length);
  name[text.length] = 0;
  if (!may_set(s, name)) return answer_fail(s, EPERM, "set an attribute of", s->path, "its name is not allowed");
  return answer_result(s, lsetxattr(s->path, name, value.data, value.length, 0), "set an attribute of", s->path);
}

static int handle(struct file_session *s, const struct header *header, const uint8_t *payload) {
  static const struct {
    uint8_t type;
    bool privileged;
    int (*handle)(struct file_session *, struct reader *);
  } handlers[] = {
      {WIRE_READ, false, handle_read},         {WIRE_WRITE, false, handle_write},
      {WIRE_STAT, false, handle_stat},         {WIRE_LIST, false, handle_list},
      {WIRE_MKDIR, false, handle_mkdir},       {WIRE_MOVE, false, handle_move},
      {WIRE_REMOVE, false, handle_remove},     {WIRE_CHMOD, false, handle_chmod},
      {WIRE_CHOWN, false, handle_chown},       {WIRE_SYMLINK, false, handle_symlink},
      {WIRE_LINK, false, handle_link},         {WIRE_UTIME, false, handle_utime},
      {WIRE_FIFO, false, handle_fifo},         {WIRE_WATCH, false, handle_watch},
      {WIRE_WALK, false, handle_walk},         {WIRE_WHITEOUT, true, handle_whiteout},
      {WIRE_SETXATTR, false, handle_setxattr},  {WIRE_USAGE, true, handle_usage},
  };
  s->id = header->id;
  s->path_error = 0;
  s->path[0] = s->other[0] = 0;
  struct reader r = reader_of(payload, header->length);
  for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
    if (handlers[i].type != header->type) continue;
    if (!handlers[i].privileged || s->privileged) return handlers[i].handle(s, &r);
    return send_fail(s->fd, s->id, EPERM, WIRE_WHAT_REQUEST,
                     "Cannot do the file request: only the launcher may ask for it");
  }
  return send_fail(s->fd, s->id, ENOSYS, WIRE_WHAT_REQUEST, "Cannot do the file request: type %u is unknown",
                   header->type);
}
