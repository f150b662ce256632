/*
 * flatten.c: makes one overlay layer out of several.
 *
 * The merged tree is walked with a list of directories still to do instead of recursion, because code in a sandbox
 * decides how deep it is. Each of them is remembered by file handles, not by paths or open descriptors: a handle costs
 * the same at any depth. At most one directory's sources are open at a time.
 *
 * A merged directory knows where the layers under the flattened ones go on with it (`below`). Comparing that with its
 * parent's gives the result's own opaque and redirect marks.
 */
#define _GNU_SOURCE
#include "layers/flatten.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "layers/copy.h"
#include "layers/merge.h"

/* A file of the store that can be opened again without a path. */
struct handle {
  struct file_handle *of;
};

/* One layer's part of a merged directory. */
struct source {
  size_t layer;
  struct handle handle;
};

/* A merged directory whose entries are still to be made. */
struct directory {
  struct directory *next;
  struct handle out;
  char *below; /* "" is the root; NULL: nothing is below */
  size_t count;
  struct source sources[];
};

/* An inode with several names that had to be copied, so that its other names become links to the copy. */
struct copied {
  struct copied *next;
  size_t layer;
  uint64_t device, inode;
  struct handle copy;
};

#define COPIED_BUCKETS 4096

struct names {
  char **table; /* open addressing; room is a power of two */
  size_t count, room;
};

struct flatten {
  const int *layers;
  size_t layer_count;
  int out_root;
  struct directory *todo;
  struct copied *copied[COPIED_BUCKETS];
  char *why;
  size_t why_size;
};

static int flatten_root(struct flatten *f);
static int flatten_directory(struct flatten *f, struct directory *d);
static void free_directory(struct directory *d);
static void free_copied(struct flatten *f);

int flatten_layers(const int *layer_fds, size_t count, int out_fd, char *why, size_t why_size) {
  if (why_size > 0) why[0] = '\0';
  struct flatten *f = calloc(1, sizeof *f);
  if (!f) return ENOMEM;
  f->layers = layer_fds;
  f->layer_count = count;
  f->out_root = out_fd;
  f->why = why;
  f->why_size = why_size;
  int error = flatten_root(f);
  while (!error && f->todo) {
    struct directory *d = f->todo;
    f->todo = d->next;
    error = flatten_directory(f, d);
    free_directory(d);
  }
  while (f->todo) {
    struct directory *d = f->todo;
    f->todo = d->next;
    free_directory(d);
  }
  free_copied(f);
  free(f);
  /* the layers it was made from are deleted once the result is published, so it has to be on the disk by then */
  if (!error && syncfs(out_fd)) error = errno;
  if (error && why_size > 0 && !why[0]) snprintf(why, why_size, "%s", strerror(error));
  return error;
}

/* ---- failing and remembering ---- */

/* says why once, at the place nearest to the cause */
__attribute__((format(printf, 3, 4))) static int fail(struct flatten *f, int error, const char *what, ...) {
  if (f->why_size == 0 || f->why[0]) return error;
  char text[512];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  snprintf(f->why, f->why_size, "%s: %s", text, strerror(error));
  return error;
}

static int handle_of(int fd, struct handle *out) {
  struct file_handle *h = malloc(sizeof *h + MAX_HANDLE_SZ);
  if (!h) return ENOMEM;
  h->handle_bytes = MAX_HANDLE_SZ;
  int mount_id;
  if (name_to_handle_at(fd, "", h, &mount_id, AT_EMPTY_PATH)) {
    int error = errno;
    free(h);
    return error;
  }
  struct file_handle *small = realloc(h, sizeof *h + h->handle_bytes);
  out->of = small ? small : h;
  return 0;
}

static int open_handle(int mount_fd, const struct handle *h, int flags) {
  return open_by_handle_at(mount_fd, h->of, flags | O_CLOEXEC);
}

static void free_directory(struct directory *d) {
  if (!d) return;
  for (size_t i = 0; i < d->count; i++) free(d->sources[i].handle.of);
  free(d->out.of);
  free(d->below);
  free(d);
}

static void free_copied(struct flatten *f) {
  for (size_t i = 0; i < COPIED_BUCKETS; i++) {
    while (f->copied[i]) {
      struct copied *c = f->copied[i];
      f->copied[i] = c->next;
      free(c->copy.of);
      free(c);
    }
  }
}

/* puts a merged directory on the list; takes its `below`, leaves its descriptors open */
static int remember(struct flatten *f, int out_fd, struct merged *m) {
  struct directory *d = calloc(1, sizeof *d + m->count * sizeof d->sources[0]);
  if (!d) return ENOMEM;
  d->below = m->below;
  m->below = NULL;
  int error = handle_of(out_fd, &d->out);
  for (; !error && d->count < m->count; d->count++) {
    d->sources[d->count].layer = m->layers[d->count];
    error = handle_of(m->fds[d->count], &d->sources[d->count].handle);
    if (error) break;
  }
  if (error) {
    free_directory(d);
    return fail(f, error, "the file system gives no file handles");
  }
  d->next = f->todo;
  f->todo = d;
  return 0;
}

/* ---- names of a directory, over all its sources ---- */

static uint64_t hash_text(const char *s) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *s; s++) h = (h ^ (uint8_t)*s) * 0x100000001b3u;
  return h ^ (h >> 29);
}

static void free_names(struct names *n) {
  for (size_t i = 0; i < n->room; i++) free(n->table[i]);
  free(n->table);
}

static bool grow_names(struct names *n) {
  struct names bigger = {.room = n->room ? n->room * 2 : 64, .count = n->count};
  bigger.table = calloc(bigger.room, sizeof *bigger.table);
  if (!bigger.table) return false;
  for (size_t i = 0; i < n->room; i++) {
    if (!n->table[i]) continue;
    size_t at = hash_text(n->table[i]) & (bigger.room - 1);
    while (bigger.table[at]) at = (at + 1) & (bigger.room - 1);
    bigger.table[at] = n->table[i];
  }
  free(n->table);
  *n = bigger;
  return true;
}

static bool add_name(struct names *n, const char *name) {
  if (n->count * 4 >= n->room * 3 && !grow_names(n)) return false;
  size_t at = hash_text(name) & (n->room - 1);
  for (; n->table[at]; at = (at + 1) & (n->room - 1)) {
    if (strcmp(n->table[at], name) == 0) return true;
  }
  n->table[at] = strdup(name);
  if (!n->table[at]) return false;
  n->count++;
  return true;
}

static int read_names(int fd, struct names *names) {
  int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return errno;
  DIR *dir = fdopendir(own);
  if (!dir) {
    int error = errno;
    close(own);
    return error;
  }
  int error = 0;
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (!entry) {
      error = errno;
      break;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (!add_name(names, entry->d_name)) {
      error = ENOMEM;
      break;
    }
  }
  closedir(dir);
  return error;
}

/* ---- making the result ---- */

static struct copied **copied_bucket(struct flatten *f, size_t layer, const struct stat *st) {
  uint64_t h = ((uint64_t)st->st_ino * 0x9e3779b97f4a7c15u) ^ (uint64_t)st->st_dev ^ ((uint64_t)layer << 32);
  return &f->copied[(h >> 20) % COPIED_BUCKETS];
}

/* makes `name` a link to an earlier copy of the same inode; false when there is none that can take a link */
static bool link_copied(struct flatten *f, size_t layer, const struct stat *st, int out_fd, const char *name) {
  for (struct copied *c = *copied_bucket(f, layer, st); c; c = c->next) {
    if (c->layer != layer || c->inode != st->st_ino || c->device != st->st_dev) continue;
    int fd = open_handle(f->out_root, &c->copy, O_PATH | O_NOFOLLOW);
    if (fd < 0) return false;
    bool linked = linkat(fd, "", out_fd, name, AT_EMPTY_PATH) == 0;
    close(fd);
    return linked;
  }
  return false;
}

static int remember_copied(struct flatten *f, size_t layer, const struct stat *st, int fd) {
  struct copied **bucket = copied_bucket(f, layer, st), *c = calloc(1, sizeof *c);
  if (!c) return ENOMEM;
  c->layer = layer;
  c->device = st->st_dev;
  c->inode = st->st_ino;
  int error = handle_of(fd, &c->copy);
  if (error) {
    free(c);
    return error;
  }
  c->next = *bucket;
  *bucket = c;
  return 0;
}

/* a file of any kind but a directory: linked where the file system can, else copied */
static int place_file(struct flatten *f, size_t layer, int from_dir, int out_fd, const char *name) {
  if (linkat(from_dir, name, out_fd, name, 0) == 0) return 0;
  if (errno != EXDEV && errno != EMLINK && errno != EPERM) return errno;
  struct stat st;
  if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW)) return errno;
  bool shared = st.st_nlink > 1 && !is_whiteout(&st);
  if (shared && link_copied(f, layer, &st, out_fd, name)) return 0;
  int made = -1;
  int error = copy_file(from_dir, out_fd, name, &st, &made);
  if (!error && shared) error = remember_copied(f, layer, &st, made);
  if (made >= 0) close(made);
  return error;
}

/* the overlay marks of a result directory, given where its parent goes on below */
static int mark(int fd, const char *name, const char *below, const char *parent_below) {
  if (!below) return parent_below && fsetxattr(fd, OPAQUE_MARK, "y", 1, 0) ? errno : 0;
  /* of unknown origin: without that the overlay notes one at the first look, for which a full volume has no room */
  if (fsetxattr(fd, ORIGIN_MARK, "", 0, 0)) return errno;
  const char *redirect = below;
  if (parent_below) {
    size_t length = strlen(parent_below);
    /* in the same directory below: the name says it all, and is nothing to say when it is the same */
    if (strncmp(below, parent_below, length) == 0 && below[length] == '/' && !strchr(below + length + 1, '/')) {
      redirect = below + length + 1;
      if (strcmp(redirect, name) == 0) return 0;
    }
  }
  return fsetxattr(fd, REDIRECT_MARK, redirect, strlen(redirect), 0) ? errno : 0;
}

static int place_directory(struct flatten *f, const struct merged *parent, int out_fd, const char *name,
                           struct merged *m) {
  if (mkdirat(out_fd, name, 0700)) return errno;
  int fd = openat(out_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  struct stat st;
  int error = fstat(m->fds[0], &st) ? errno : copy_facts(m->fds[0], fd, &st);
  if (!error) error = mark(fd, name, m->below, parent->below);
  if (!error) error = remember(f, fd, m);
  close(fd);
  return error;
}

static int place(struct flatten *f, const struct merged *parent, int out_fd, const char *name) {
  struct found r;
  int error = merged_lookup(f->layers, f->layer_count, parent, name, &r);
  if (error) return fail(f, error, "\"%s\" cannot be looked up", name);
  if (r.kind == FOUND_DIRECTORY) {
    error = place_directory(f, parent, out_fd, name, &r.directory);
  } else if (r.kind == FOUND_FILE || (r.kind == FOUND_WHITEOUT && parent->below)) {
    /* a whiteout where nothing is below hides nothing, and a directory of one layer would list it */
    error = place_file(f, parent->layers[r.first], parent->fds[r.first], out_fd, name);
  }
  close_merged(&r.directory);
  return error ? fail(f, error, "\"%s\" cannot be made", name) : 0;
}

/* opens the sources of a remembered directory; to be closed with close_merged() whatever is returned */
static int open_sources(struct flatten *f, struct directory *d, struct merged *m) {
  m->count = 0;
  m->below = d->below;
  d->below = NULL;
  for (; m->count < d->count; m->count++) {
    const struct source *s = &d->sources[m->count];
    m->layers[m->count] = s->layer;
    m->fds[m->count] = open_handle(f->layers[s->layer], &s->handle, O_RDONLY | O_DIRECTORY);
    if (m->fds[m->count] < 0) return fail(f, errno, "a directory of layer %zu cannot be opened again", s->layer);
  }
  return 0;
}

/* fills one result directory; its subdirectories are made here and filled later */
static int flatten_directory(struct flatten *f, struct directory *d) {
  int out_fd = open_handle(f->out_root, &d->out, O_RDONLY | O_DIRECTORY);
  if (out_fd < 0) return fail(f, errno, "a new directory cannot be opened again");
  struct merged m;
  struct names names = {0};
  int error = open_sources(f, d, &m);
  for (size_t i = 0; !error && i < m.count; i++) error = read_names(m.fds[i], &names);
  for (size_t i = 0; !error && i < names.room; i++) {
    if (names.table[i]) error = place(f, &m, out_fd, names.table[i]);
  }
  /* last, as each name that was made moved the time forward; what comes later happens in the subdirectories */
  struct stat st;
  if (!error) error = fstat(m.fds[0], &st) ? errno : copy_times(out_fd, &st);
  close_merged(&m);
  close(out_fd);
  free_names(&names);
  return error;
}

/* the root of the merged tree, down to a layer that has nothing below it */
static int merge_roots(struct flatten *f, struct merged *m) {
  m->count = 0;
  m->below = strdup("");
  if (!m->below) return ENOMEM;
  while (m->count < f->layer_count && m->below) {
    char *opaque;
    int error = read_mark(f->layers[m->count], OPAQUE_MARK, &opaque);
    if (error) return error;
    if (opaque && opaque[0] == 'y') {
      free(m->below);
      m->below = NULL;
    }
    free(opaque);
    m->fds[m->count] = f->layers[m->count];
    m->layers[m->count] = m->count;
    m->count++;
  }
  return 0;
}

static int flatten_root(struct flatten *f) {
  if (f->layer_count == 0 || f->layer_count > FLATTEN_MAX_LAYERS) {
    return fail(f, EINVAL, "%zu layers are not between 1 and %d", f->layer_count, FLATTEN_MAX_LAYERS);
  }
  struct stat st;
  int error = fstat(f->layers[0], &st) ? errno : copy_facts(f->layers[0], f->out_root, &st);
  if (error) return fail(f, error, "the root cannot be made");
  struct merged m;
  error = merge_roots(f, &m);
  if (!error && !m.below && fsetxattr(f->out_root, OPAQUE_MARK, "y", 1, 0)) error = errno;
  if (!error) error = remember(f, f->out_root, &m);
  free(m.below);
  return error;
}
