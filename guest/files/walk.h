/*
 * walk.h: goes through a directory tree that others may be changing, of any depth, without recursion and with a bounded
 * number of open directories; and remembers files by identity, for hard links.
 *
 * Names are always used relative to an open directory and never through a symlink, so that a directory swapped for a
 * symlink while the walk goes on leads nowhere. Only the deepest WALK_OPEN levels stay open; a level above them is
 * opened again through ".." when the walk comes back to it, and must then still be the same directory.
 */
#ifndef SANDKEEP_WALK_H
#define SANDKEEP_WALK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WALK_OPEN 32

struct walk_level {
  dev_t dev;
  ino_t ino;
  /* -1 while closed */
  int fd;
  /* where the kernel goes on reading the directory */
  int64_t next;
  /* entries that were read: those before `at` have been returned, `last` is the latest of them */
  char *buffer;
  size_t at, length, last;
  /* how much of walk.path leads to this level */
  size_t path_length;
};

struct walk {
  struct walk_level *levels;
  size_t depth, room;
  /* a level that is opened again is read from its beginning: for walks that remove what they see */
  bool rescan;
  /* path of the current directory relative to the first one, "" there; not kept when `pathless` */
  bool pathless;
  char path[PATH_MAX];
};

/* Opens a directory below `parent` without following a symlink; -1 with errno set. */
int open_directory(int parent, const char *name);

/* Starts in the directory `fd`, and owns it from here on, also on failure. All of these return 0 or an errno. */
int walk_begin(struct walk *w, int fd);
void walk_end(struct walk *w);
/* the next entry of the current directory; *name is NULL after the last, and valid until the next call otherwise */
int walk_next(struct walk *w, const char **name, unsigned char *type);
/* goes down into `fd`, the opened entry `name`, and owns it; ENAMETOOLONG when the path grows past PATH_MAX */
int walk_enter(struct walk *w, const char *name, int fd);
/*
 * Goes up from a directory that is done. *name is the entry that was left, or NULL when the level had to be opened
 * again; ESTALE when what is above is not where the walk came from.
 */
int walk_leave(struct walk *w, const char **name);
int walk_fd(const struct walk *w);
/* puts the relative path of an entry of the current directory into `path`; ENAMETOOLONG when it does not fit */
int walk_path(const struct walk *w, const char *name, char path[PATH_MAX]);
/* whether a directory belongs to a file system that shows the kernel's state rather than files (/proc, /sys …) */
bool is_kernel_interface(int fd);

/*
 * Files with several names, each with the first path it was seen at. Memory is bounded: past SEEN_LIMIT files or
 * SEEN_BYTES of paths nothing more is remembered, and a file may be taken for a new one.
 */
#define SEEN_LIMIT (1u << 18)
#define SEEN_BYTES (16u << 20)

struct seen_file {
  dev_t dev;
  ino_t ino;
  char *path;
};
struct seen {
  struct seen_file *files;
  size_t count, room, bytes;
};
/* the path that the file was first seen at; NULL when it is new, and remembered now under `path` if there is room */
const char *seen_before(struct seen *seen, dev_t dev, ino_t ino, const char *path);
void seen_free(struct seen *seen);

#endif
