/*
 * fuse.h: serves one flat, read-only directory of small files to the kernel (FUSE). The text of a file is made when a
 * program reads it from its beginning, and that program reads the rest of the same text: no reader sees half of two.
 *
 * The kernel asks on the descriptor of /dev/fuse that the file system was mounted with. A request is one read(), its
 * answer one write(). Requests come from the kernel, but names and offsets in them from hostile programs.
 */
#ifndef SANDKEEP_FUSE_H
#define SANDKEEP_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the longest text of a file */
#define FUSE_TEXT (256u << 10)
/* what fuse_answer() writes at most */
#define FUSE_ROOM (FUSE_TEXT + 4096)

struct fuse_file {
  const char *name;
  /* writes the text to `out`, never more than `room` bytes; returns its length */
  size_t (*text)(char *out, size_t room);
};

struct fuse_directory {
  const struct fuse_file *files;
  size_t count;
};

/* Answers one request; returns the length of the answer in `out`, 0 for a request that has none. Exposed for fuzzing. */
size_t fuse_answer(const struct fuse_directory *directory, const void *request, size_t length, uint8_t *out);

/* Reads one request from `fd` and answers it. 0, EAGAIN when there was none, ENODEV when the file system is gone. */
int fuse_serve(const struct fuse_directory *directory, int fd);

#endif
