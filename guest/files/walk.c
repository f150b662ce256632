/* walk.c: the tree walk of walk.h, and the memory of hard links. */
#define _GNU_SOURCE
#include "files/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* what one read of a directory may return */
#define ENTRIES_ROOM (32u << 10)

/* O_NONBLOCK: a name that is swapped for a FIFO must not stop us while it is opened. */
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK)

int open_directory(int parent, const char *name) { return openat(parent, name, DIRECTORY_FLAGS | O_NOFOLLOW); }

static struct walk_level *top(const struct walk *w) { return &w->levels[w->depth - 1]; }

static void level_close(struct walk_level *level) {
  if (level->fd >= 0) close(level->fd);
  free(level->buffer);
  level->fd = -1;
  level->buffer = NULL;
  level->at = level->length = 0;
}

/* Adds a level for fd; the directory that falls out of the open ones is closed, its place in it kept in `next`. */
static int push(struct walk *w, int fd, size_t path_length) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return errno;
  if (w->depth == w->room) {
    size_t room = w->room ? w->room * 2 : WALK_OPEN;
    struct walk_level *bigger = realloc(w->levels, room * sizeof *bigger);
    if (!bigger) return ENOMEM;
    w->levels = bigger;
    w->room = room;
  }
  if (w->depth >= WALK_OPEN) level_close(&w->levels[w->depth - WALK_OPEN]);
  w->levels[w->depth++] = (struct walk_level){
      .dev = facts.st_dev, .ino = facts.st_ino, .fd = fd, .path_length = path_length};
  return 0;
}

int walk_begin(struct walk *w, int fd) {
  w->levels = NULL;
  w->depth = w->room = 0;
  w->path[0] = 0;
  int error = push(w, fd, 0);
  if (error) close(fd);
  return error;
}

void walk_end(struct walk *w) {
  while (w->depth > 0) level_close(&w->levels[--w->depth]);
  free(w->levels);
  w->levels = NULL;
  w->room = 0;
}

int walk_fd(const struct walk *w) { return top(w)->fd; }

static int fill(struct walk_level *level) {
  if (!level->buffer) level->buffer = malloc(ENTRIES_ROOM);
  if (!level->buffer) return ENOMEM;
  ssize_t length = getdents64(level->fd, level->buffer, ENTRIES_ROOM);
  /* a directory that was removed while it was open has no entries */
  if (length < 0 && errno != ENOENT) return errno;
  level->at = 0;
  level->length = length > 0 ? (size_t)length : 0;
  return 0;
}

int walk_next(struct walk *w, const char **name, unsigned char *type) {
  struct walk_level *level = top(w);
  for (;;) {
    if (level->at >= level->length) {
      int error = fill(level);
      if (error) return error;
      if (level->length == 0) {
        *name = NULL;
        return 0;
      }
    }
    struct dirent64 *entry = (struct dirent64 *)(level->buffer + level->at);
    level->last = level->at;
    level->at += entry->d_reclen;
    level->next = entry->d_off;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    *name = entry->d_name;
    *type = entry->d_type;
    return 0;
  }
}

int walk_path(const struct walk *w, const char *name, char path[PATH_MAX]) {
  size_t length = top(w)->path_length;
  size_t name_length = strlen(name);
  size_t slash = length > 0 ? 1 : 0;
  if (length + slash + name_length + 1 > PATH_MAX) return ENAMETOOLONG;
  memmove(path, w->path, length);
  if (slash) path[length] = '/';
  memmove(path + length + slash, name, name_length + 1);
  return 0;
}

int walk_enter(struct walk *w, const char *name, int fd) {
  int error = w->pathless ? 0 : walk_path(w, name, w->path);
  if (!error) error = push(w, fd, w->pathless ? 0 : strlen(w->path));
  if (error) {
    close(fd);
    w->path[top(w)->path_length] = 0;
  }
  return error;
}

/* Opens the level again through its child, and goes to where it was left. */
static int reopen(struct walk *w, struct walk_level *level, int child) {
  struct stat facts;
  int fd = openat(child, "..", DIRECTORY_FLAGS);
  if (fd < 0) return errno;
  int error = fstat(fd, &facts) != 0 ? errno : 0;
  if (!error && (facts.st_dev != level->dev || facts.st_ino != level->ino)) error = ESTALE;
  if (!error && !w->rescan && lseek(fd, level->next, SEEK_SET) < 0) error = errno;
  if (error) {
    close(fd);
    return error;
  }
  level->fd = fd;
  return 0;
}

int walk_leave(struct walk *w, const char **name) {
  struct walk_level *child = top(w);
  struct walk_level *level = child - 1;
  int error = 0;
  *name = NULL;
  if (level->fd >= 0) {
    *name = ((struct dirent64 *)(level->buffer + level->last))->d_name;
  } else {
    error = reopen(w, level, child->fd);
  }
  level_close(child);
  w->depth--;
  w->path[level->path_length] = 0;
  return error;
}

bool is_kernel_interface(int fd) {
  static const unsigned long kinds[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,   CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                        DEVPTS_SUPER_MAGIC,  DEBUGFS_MAGIC, TRACEFS_MAGIC,      SECURITYFS_MAGIC,
                                        BPF_FS_MAGIC,        0x19800202 /* mqueue */};
  struct statfs facts;
  if (fstatfs(fd, &facts) != 0) return false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if ((unsigned long)facts.f_type == kinds[i]) return true;
  }
  return false;
}

/* The place of a file in an open-addressed table whose room is a power of two. */
static struct seen_file *place(const struct seen *seen, dev_t dev, ino_t ino) {
  uint64_t hash = ((uint64_t)ino ^ ((uint64_t)dev << 40)) * 0x9e3779b97f4a7c15ull;
  size_t at = (size_t)(hash >> 32) & (seen->room - 1);
  while (seen->files[at].path && (seen->files[at].dev != dev || seen->files[at].ino != ino)) {
    at = (at + 1) & (seen->room - 1);
  }
  return &seen->files[at];
}

static bool grow(struct seen *seen) {
  struct seen bigger = {.room = seen->room ? seen->room * 2 : 256};
  bigger.files = calloc(bigger.room, sizeof *bigger.files);
  if (!bigger.files) return false;
  for (size_t i = 0; i < seen->room; i++) {
    struct seen_file *file = &seen->files[i];
    if (file->path) *place(&bigger, file->dev, file->ino) = *file;
  }
  free(seen->files);
  seen->files = bigger.files;
  seen->room = bigger.room;
  return true;
}

const char *seen_before(struct seen *seen, dev_t dev, ino_t ino, const char *path) {
  size_t size = strlen(path) + 1;
  if (seen->count * 2 >= seen->room && seen->room < 2 * SEEN_LIMIT && !grow(seen)) return NULL;
  struct seen_file *file = place(seen, dev, ino);
  if (file->path) return file->path;
  if (seen->count >= SEEN_LIMIT - 1 || seen->bytes + size > SEEN_BYTES) return NULL;
  char *copy = strdup(path);
  if (!copy) return NULL;
  *file = (struct seen_file){.dev = dev, .ino = ino, .path = copy};
  seen->count++;
  seen->bytes += size;
  return NULL;
}

void seen_free(struct seen *seen) {
  for (size_t i = 0; i < seen->room; i++) free(seen->files[i].path);
  free(seen->files);
  *seen = (struct seen){0};
}
