/*
 * merge.c: looks names up through overlay layers, as the kernel's fs/overlayfs does.
 *
 * What a layer says about a name below one of its directories:
 *
 *   nothing                                   ask the layer below
 *   a character device 0/0 (a whiteout)       there is no such name, and no layer below is asked
 *   anything else that is no directory        this is it, and no layer below is asked
 *   a directory                               it is merged with the directories of that name below, where
 *     trusted.overlay.opaque = "y"            nothing is below
 *     trusted.overlay.redirect = "name"       below it is called `name`
 *     trusted.overlay.redirect = "/a/b"       below it is found at /a/b, seen from the root of the layers
 */
#define _GNU_SOURCE
#include "layers/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The state of a lookup as it goes down the layers. */
struct lookup {
  char *query;   /* a name below the parent, or a path from the root when it begins with a slash */
  bool stop;     /* no layer below is to be asked */
  bool whiteout; /* the last element was a whiteout */
  bool directory;
};

bool is_whiteout(const struct stat *st) { return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0); }

int read_mark(int fd, const char *name, char **value) {
  *value = NULL;
  char buffer[XATTR_SIZE_MAX];
  ssize_t n = fgetxattr(fd, name, buffer, sizeof buffer);
  if (n < 0) return errno == ENODATA || errno == ENOTSUP ? 0 : errno;
  *value = strndup(buffer, (size_t)n);
  return *value ? 0 : ENOMEM;
}

char *join_text(const char *a, const char *b, const char *c) {
  size_t length = strlen(a) + strlen(b) + strlen(c) + 1;
  char *s = malloc(length);
  if (s) snprintf(s, length, "%s%s%s", a, b, c);
  return s;
}

/* a redirect is a single name, or an absolute path without empty elements; anything else the kernel refuses too */
static bool valid_redirect(const char *r) {
  if (r[0] != '/') return r[0] && !strchr(r, '/') && strcmp(r, ".") && strcmp(r, "..");
  for (const char *s = r; *s == '/';) {
    const char *end = strchrnul(s + 1, '/');
    size_t length = (size_t)(end - s - 1);
    if (length == 0 || (length == 1 && s[1] == '.') || (length == 2 && s[1] == '.' && s[2] == '.')) return false;
    s = end;
  }
  return true;
}

/*
 * Looks one element up in one directory. *child is a descriptor of it, if it is a directory, else -1; *redirect is its
 * redirect or NULL.
 * Returns 0 or an errno; l says what it means for the layers below.
 */
static int look_element(struct lookup *l, int base, const char *name, bool last, int *child, char **redirect,
                        bool *is_file) {
  *child = -1;
  *redirect = NULL;
  *is_file = false;
  struct stat st;
  if (fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW)) return errno == ENOENT || errno == ENAMETOOLONG ? 0 : errno;
  if (is_whiteout(&st)) {
    l->stop = true;
    l->whiteout = last;
    return 0;
  }
  if (!S_ISDIR(st.st_mode)) {
    l->stop = true;
    *is_file = last && !l->directory;
    return 0;
  }
  int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  if (last) l->directory = true;
  char *opaque = NULL;
  int error = read_mark(fd, OPAQUE_MARK, &opaque);
  if (!error && opaque && opaque[0] == 'y') {
    l->stop = true;
  } else if (!error) {
    error = read_mark(fd, REDIRECT_MARK, redirect);
    if (!error && *redirect && !valid_redirect(*redirect)) error = EINVAL;
    /* an opaque ancestor ends the search below it, but this directory's content is somewhere else */
    if (!error && *redirect && (*redirect)[0] == '/') l->stop = false;
  }
  free(opaque);
  if (error) {
    free(*redirect);
    *redirect = NULL;
    close(fd);
    return error;
  }
  *child = fd;
  return 0;
}

/* sets what the layers below are asked for: a redirected name, or the same again */
static int follow(char **prefix, const char *element, const char *redirect, bool absolute) {
  char *next;
  if (redirect && redirect[0] == '/') next = strdup(redirect);
  else if (absolute) next = join_text(*prefix, "/", redirect ? redirect : element);
  else next = strdup(redirect ? redirect : element);
  if (!next) return ENOMEM;
  free(*prefix);
  *prefix = next;
  return 0;
}

/* looks l->query, a path from the root, up in one layer; *child is the directory it leads to, or -1 */
static int look_path(struct lookup *l, int root, int *child) {
  *child = -1;
  char *path = l->query;
  char *prefix = strdup("");
  if (!prefix) return ENOMEM;
  int base = -1, error = 0;
  char *at = path;
  for (;;) {
    char *element = at + 1, *end = strchrnul(element, '/');
    bool last = !*end;
    char *name = strndup(element, (size_t)(end - element));
    if (!name) {
      error = ENOMEM;
      break;
    }
    int next;
    char *redirect;
    bool is_file;
    error = look_element(l, base < 0 ? root : base, name, last, &next, &redirect, &is_file);
    if (!error && next >= 0) error = follow(&prefix, name, redirect, true);
    free(name);
    free(redirect);
    if (base >= 0) close(base);
    base = error && next >= 0 ? (close(next), -1) : next;
    if (error || base < 0) break;
    at = end;
    if (last) break;
  }
  if (!error) {
    /* what was not walked follows what was, as the layers below would have it */
    char *query = join_text(prefix, at, "");
    if (query) {
      free(l->query);
      l->query = query;
      *child = base;
      base = -1;
    } else {
      error = ENOMEM;
    }
  }
  if (base >= 0) close(base);
  free(prefix);
  return error;
}

void close_merged(struct merged *m) {
  for (size_t i = 0; i < m->count; i++) close(m->fds[i]);
  m->count = 0;
  free(m->below);
  m->below = NULL;
}

static void keep(struct merged *m, int fd, size_t layer) {
  m->fds[m->count] = fd;
  m->layers[m->count++] = layer;
}

int merged_lookup(const int *roots, size_t root_count, const struct merged *parent, const char *name, struct found *r) {
  r->kind = FOUND_NOTHING;
  r->directory.count = 0;
  r->directory.below = NULL;
  struct lookup l = {.query = strdup(name)};
  if (!l.query) return ENOMEM;
  int error = 0, child;
  size_t layer = 0;
  bool absolute = false;
  for (size_t i = 0; !error && !absolute && !l.stop && i < parent->count; i++) {
    char *redirect;
    bool is_file;
    layer = parent->layers[i];
    error = look_element(&l, parent->fds[i], l.query, true, &child, &redirect, &is_file);
    if (is_file || (l.whiteout && r->kind == FOUND_NOTHING)) {
      r->kind = is_file ? FOUND_FILE : FOUND_WHITEOUT;
      r->first = i;
    }
    if (child >= 0) {
      r->kind = FOUND_DIRECTORY;
      keep(&r->directory, child, layer);
      error = follow(&l.query, l.query, redirect, false);
      absolute = l.query[0] == '/';
    }
    free(redirect);
  }
  for (size_t i = layer + 1; !error && absolute && !l.stop && i < root_count; i++) {
    error = look_path(&l, roots[i], &child);
    if (!error && child >= 0) keep(&r->directory, child, i);
  }
  if (!error && r->kind == FOUND_DIRECTORY && !l.stop && (absolute || parent->below)) {
    r->directory.below = absolute ? strdup(l.query) : join_text(parent->below, "/", l.query);
    if (!r->directory.below) error = ENOMEM;
  }
  free(l.query);
  if (error) close_merged(&r->directory);
  return error;
}
