/* merge.h: what several overlay layers together say about a name, by the rules with which the kernel looks it up. */
#ifndef SANDKEEP_MERGE_H
#define SANDKEEP_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "layers/flatten.h"

#define OPAQUE_MARK "trusted.overlay.opaque"
#define REDIRECT_MARK "trusted.overlay.redirect"
#define ORIGIN_MARK "trusted.overlay.origin"

/* The directories, topmost first, that one merged directory consists of. */
struct merged {
  size_t count;
  int fds[FLATTEN_MAX_LAYERS];
  size_t layers[FLATTEN_MAX_LAYERS]; /* which layer each is of */
  /* the path at which layers under all of ours go on with it; "" is their root, NULL: they do not */
  char *below;
};

enum found_kind { FOUND_NOTHING, FOUND_FILE, FOUND_WHITEOUT, FOUND_DIRECTORY };

struct found {
  enum found_kind kind;
  size_t first;            /* a file or whiteout: which of the parent's directories has it */
  struct merged directory; /* a directory: to be closed with close_merged() */
};

/* looks a name up below a merged directory; `roots` are the layers' roots. Returns 0 or an errno */
int merged_lookup(const int *roots, size_t root_count, const struct merged *parent, const char *name, struct found *r);
void close_merged(struct merged *m);
/* reads an xattr into a fresh string; *value is NULL when there is none */
int read_mark(int fd, const char *name, char **value);
bool is_whiteout(const struct stat *st);
/* joins three texts into a fresh one; NULL when out of memory */
char *join_text(const char *a, const char *b, const char *c);

#endif
