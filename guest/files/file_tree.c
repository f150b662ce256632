/* file_tree.c: requests that go through a directory or a whole tree: list, walk, remove, measure. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "files/walk.h"

/* how many entries are done between two looks at whether anyone still waits for the answer */
#define LOOK_EVERY 1024
/* how often a directory may turn out to have been filled again while it was removed */
#define REFILLS 64
/* what a walk's field `attributes` says when directories that are mounted below its start are left out, too */
#define WALK_SKIPS_MOUNTS 2

/* Cuts slashes off the end: a path with one would be followed through a symlink. */
static void trim(char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') path[--length] = 0;
}

static void read_target(int parent, const char *name, char target[PATH_MAX]) {
  ssize_t length = readlinkat(parent, name, target, PATH_MAX - 1);
  target[length > 0 ? length : 0] = 0;
}

int handle_list(struct file_session *s, struct reader *r) {
  int result;
  const char *name;
  unsigned char type;
  char target[PATH_MAX];
  static struct walk walk;
  read_path(s, r, s->path);
  if (refused(s, r, "list", &result)) return result;
  int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return answer_fail(s, errno, "list", s->path, errno == ENOTDIR ? "it is not a directory" : NULL);
  walk = (struct walk){.pathless = true};
  int error = walk_begin(&walk, fd), broken = 0;
  while (!error && !broken && !(error = walk_next(&walk, &name, &type)) && name) {
    struct stat facts;
    /* gone since it was read */
    if (fstatat(walk_fd(&walk), name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    target[0] = 0;
    if (S_ISLNK(facts.st_mode)) read_target(walk_fd(&walk), name, target);
    struct entry entry = {
        .path = name, .type = entry_type(facts.st_mode), .facts = &facts, .target = target, .attributes = -1};
    broken = out_entry(s, &entry);
  }
  walk_end(&walk);
  if (broken) return broken;
  return error ? answer_fail(s, error, "list", s->path, NULL) : answer_end(s);
}

/* --- walk --- */

struct walk_request {
  struct file_session *s;
  bool contents, attributes, skips_mounts;
  /* the file system that the walk began in */
  dev_t dev;
  struct seen seen;
  /* why the walk stopped: what a file said, or that the connection broke */
  int error, broken;
};

static bool stopped(const struct walk_request *request) { return request->error || request->broken; }

static void tell(struct walk_request *request, const struct entry *entry) {
  int error = out_entry(request->s, entry);
  if (error == E2BIG) {
    request->error = error;
  } else {
    request->broken = error;
  }
}

/* Exactly `size` bytes and END: the reader has put that size into a header already. */
static void tell_contents(struct walk_request *request, int fd, uint64_t size) {
  struct file_session *s = request->s;
  bool over = false;
  while (size > 0 && !stopped(request)) {
    uint8_t *bytes;
    size_t want = size < WIRE_CHUNK ? (size_t)size : WIRE_CHUNK;
    request->broken = out_data_begin(s, &bytes);
    if (request->broken) return;
    ssize_t n = over ? 0 : read(fd, bytes, want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) request->error = errno;
    if (n < 0) return;
    over = n == 0;
    if (over) memset(bytes, 0, want);
    out_data_end(s, over ? want : (size_t)n);
    size -= over ? want : (uint64_t)n;
  }
  struct writer w = frame_begin(WIRE_END, s->id);
  if (!stopped(request)) request->broken = out_frame(s, &w);
  else writer_free(&w);
}

/* A regular file. One that vanished, or is something else by now, is left out. */
static void tell_file(struct walk_request *request, int parent, const char *name, const char *path,
                      struct stat *facts) {
  bool linked = facts->st_nlink > 1;
  const char *first = linked ? seen_before(&request->seen, facts->st_dev, facts->st_ino, path) : NULL;
  struct entry entry = {.path = path, .type = ENTRY_FILE, .facts = facts, .attributes = -1};
  if (first) {
    entry.type = ENTRY_LINK;
    entry.target = first;
    tell(request, &entry);
    return;
  }
  int fd = -1;
  if (request->contents || request->attributes) {
    fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENXIO) request->error = errno;
    if (fd < 0) return;
    if (fstat(fd, facts) != 0 || !S_ISREG(facts->st_mode)) {
      close(fd);
      return;
    }
  }
  entry.attributes = request->attributes ? fd : -1;
  tell(request, &entry);
  if (!stopped(request) && request->contents) tell_contents(request, fd, (uint64_t)facts->st_size);
  if (fd >= 0) close(fd);
}

static void tell_other(struct walk_request *request, int parent, const char *name, const char *path,
                       const struct stat *facts) {
  char target[PATH_MAX] = "";
  if (S_ISLNK(facts->st_mode)) read_target(parent, name, target);
  struct entry entry = {
      .path = path, .type = entry_type(facts->st_mode), .facts = facts, .target = target, .attributes = -1};
  tell(request, &entry);
}

/* A directory that is opened; its attributes come with it. */
static void tell_directory(struct walk_request *request, int fd, const char *path, const struct stat *facts) {
  struct entry entry = {
      .path = path, .type = ENTRY_DIRECTORY, .facts = facts, .attributes = request->attributes ? fd : -1};
  tell(request, &entry);
}

/* Tells an entry, and goes down into it when it is a directory. */
static void walk_entry(struct walk_request *request, struct walk *walk, const char *name) {
  char path[PATH_MAX];
  struct stat facts;
  int parent = walk_fd(walk);
  request->error = walk_path(walk, name, path);
  if (stopped(request) || fstatat(parent, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(facts.st_mode)) {
    tell_file(request, parent, name, path, &facts);
    return;
  }
  if (!S_ISDIR(facts.st_mode)) {
    tell_other(request, parent, name, path, &facts);
    return;
  }
  int fd = open_directory(parent, name);
  if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENOTDIR) request->error = errno;
  if (fd < 0) return;
  bool known = fstat(fd, &facts) == 0;
  if (known && request->skips_mounts && facts.st_dev != request->dev) {
    close(fd);
    return;
  }
  if (known) tell_directory(request, fd, path, &facts);
  if (stopped(request) || is_kernel_interface(fd)) {
    close(fd);
  } else {
    request->error = walk_enter(walk, name, fd);
  }
}

/* Puts the path that the walk failed at into s->other, as far as there is room. */
static void blame(struct file_session *s, const char *directory, const char *name) {
  int length = snprintf(s->other, PATH_MAX, "%s%s%s%s%s", s->path, s->path[1] ? "/" : "", directory,
                        *directory ? "/" : "", name);
  if (length < 0) s->other[0] = 0;
}

static void walk_below(struct walk_request *request, int fd) {
  static struct walk walk;
  const char *name;
  unsigned char type;
  walk = (struct walk){0};
  request->error = walk_begin(&walk, fd);
  while (!stopped(request)) {
    request->error = walk_next(&walk, &name, &type);
    if (request->error) break;
    if (name) {
      walk_entry(request, &walk, name);
      if (request->error) blame(request->s, walk.path, name);
    } else if (walk.depth == 1) {
      break;
    } else {
      request->error = walk_leave(&walk, &name);
    }
  }
  walk_end(&walk);
}

int handle_walk(struct file_session *s, struct reader *r) {
  int result;
  struct stat facts;
  struct walk_request request = {.s = s};
  read_path(s, r, s->path);
  request.contents = read_u8(r) != 0;
  uint8_t attributes = read_u8(r);
  request.attributes = attributes != 0;
  request.skips_mounts = attributes == WALK_SKIPS_MOUNTS;
  if (refused(s, r, "walk", &result)) return result;
  trim(s->path);
  int fd = open_directory(AT_FDCWD, s->path);
  if (fd >= 0) {
    if (fstat(fd, &facts) == 0) {
      request.dev = facts.st_dev;
      tell_directory(&request, fd, "", &facts);
    }
    if (stopped(&request)) close(fd);
    else walk_below(&request, fd);
  } else if (errno != ENOTDIR && errno != ELOOP) {
    request.error = errno;
  } else if (fstatat(AT_FDCWD, s->path, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    request.error = errno;
  } else if (S_ISREG(facts.st_mode)) {
    tell_file(&request, AT_FDCWD, s->path, "", &facts);
  } else {
    tell_other(&request, AT_FDCWD, s->path, "", &facts);
  }
  seen_free(&request.seen);
  if (request.broken) return request.broken;
  if (!request.error) return answer_end(s);
  return answer_fail(s, request.error, "walk", s->other[0] ? s->other : s->path, NULL);
}

/* --- remove --- */

/* Removes an entry, or goes down into it when it is a directory with something in it. Returns 0 or an errno. */
static int remove_entry(struct walk *walk, const char *name, bool directory) {
  int parent = walk_fd(walk);
  /* the kernel's own word on what it is decides in the end; the first try only saves a call */
  if (unlinkat(parent, name, directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT) return 0;
  if (errno == ENOTDIR || errno == EISDIR) {
    if (unlinkat(parent, name, directory ? 0 : AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) return errno;
  int fd = open_directory(parent, name);
  if (fd < 0) return errno == ENOENT ? 0 : errno;
  return walk_enter(walk, name, fd);
}

/* Empties the directory fd, which it takes over. Returns 0 or an errno. */
static int remove_below(const struct file_session *s, int fd) {
  static struct walk walk;
  const char *name;
  unsigned char type;
  unsigned refills = 0, done = 0;
  walk = (struct walk){.pathless = true, .rescan = true};
  int error = walk_begin(&walk, fd);
  while (!error) {
    error = walk_next(&walk, &name, &type);
    if (error || (!name && walk.depth == 1)) break;
    bool directory = name ? type == DT_DIR : true;
    bool left = !name;
    if (left) error = walk_leave(&walk, &name);
    if (error) break;
    size_t depth = walk.depth;
    /* without a name the level was opened again, and will come across the emptied directory by itself */
    if (name) error = remove_entry(&walk, name, directory);
    if (left && walk.depth > depth && ++refills > REFILLS) error = ENOTEMPTY;
    if (++done % LOOK_EVERY == 0 && client_gone(s)) error = EPIPE;
  }
  walk_end(&walk);
  return error;
}

/* Removes parent/name and, when recursive, everything below it. Returns 0 or an errno. */
static int remove_name(const struct file_session *s, int parent, const char *name, bool recursive) {
  if (unlinkat(parent, name, 0) == 0) return 0;
  if (errno != EISDIR) return errno;
  for (unsigned refills = 0;; refills++) {
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) return 0;
    if (!recursive || (errno != ENOTEMPTY && errno != EEXIST) || refills > REFILLS) return errno;
    int fd = open_directory(parent, name);
    int error = fd < 0 ? errno : remove_below(s, fd);
    if (error) return error;
  }
}

int handle_remove(struct file_session *s, struct reader *r) {
  int result;
  read_path(s, r, s->path);
  bool recursive = read_u8(r) != 0;
  bool force = read_u8(r) != 0;
  if (refused(s, r, "remove", &result)) return result;
  trim(s->path);
  char *name = strrchr(s->path, '/') + 1;
  if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    return answer_fail(s, EINVAL, "remove", s->path, "it ends in no name");
  }
  /* the parent is opened first, so that the name is looked up in one directory all the time */
  memcpy(s->other, s->path, (size_t)(name - s->path));
  s->other[name - s->path] = 0;
  int parent = open(s->other, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int error = parent < 0 ? errno : remove_name(s, parent, name, recursive);
  if (parent >= 0) close(parent);
  if (force && error == ENOENT) error = 0;
  return error ? answer_fail(s, error, "remove", s->path, NULL) : answer_ok(s);
}

/* --- usage --- */

struct usage {
  uint64_t bytes, inodes;
  struct seen seen;
};

static void count(struct usage *usage, const struct stat *facts) {
  if (!S_ISDIR(facts->st_mode) && facts->st_nlink > 1 && seen_before(&usage->seen, facts->st_dev, facts->st_ino, "")) {
    return;
  }
  usage->bytes += (uint64_t)facts->st_blocks * 512;
  usage->inodes++;
}

static int count_entry(struct usage *usage, struct walk *walk, const char *name) {
  struct stat facts;
  if (fstatat(walk_fd(walk), name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
  count(usage, &facts);
  if (!S_ISDIR(facts.st_mode)) return 0;
  int fd = open_directory(walk_fd(walk), name);
  if (fd < 0) return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : errno;
  return walk_enter(walk, name, fd);
}

static int count_below(const struct file_session *s, struct usage *usage, int fd) {
  static struct walk walk;
  const char *name;
  unsigned char type;
  unsigned done = 0;
  walk = (struct walk){.pathless = true};
  int error = walk_begin(&walk, fd);
  while (!error) {
    error = walk_next(&walk, &name, &type);
    if (error || (!name && walk.depth == 1)) break;
    error = name ? count_entry(usage, &walk, name) : walk_leave(&walk, &name);
    if (++done % LOOK_EVERY == 0 && client_gone(s)) error = EPIPE;
  }
  walk_end(&walk);
  return error;
}

int handle_usage(struct file_session *s, struct reader *r) {
  int result;
  struct stat facts;
  struct usage usage = {0};
  read_path(s, r, s->path);
  if (refused(s, r, "measure", &result)) return result;
  trim(s->path);
  int error = fstatat(AT_FDCWD, s->path, &facts, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
  if (!error) count(&usage, &facts);
  if (!error && S_ISDIR(facts.st_mode)) {
    int fd = open_directory(AT_FDCWD, s->path);
    error = fd < 0 ? errno : count_below(s, &usage, fd);
  }
  seen_free(&usage.seen);
  if (error) return answer_fail(s, error, "measure", s->path, NULL);
  struct writer w = frame_begin(WIRE_OK, s->id);
  write_u64(&w, usage.bytes);
  write_u64(&w, usage.inodes);
  error = out_frame(s, &w);
  return error ? error : out_flush(s);
}
