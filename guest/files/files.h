/* files.h: file operations over one connection; the requests and answers are written down at the top of files.c. */
#ifndef SANDKEEP_FILES_H
#define SANDKEEP_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "shared/wire.h"

struct file_context {
  /* host root, chrooted into a layer: may also make whiteouts, set attributes and measure */
  bool privileged;
  /* the disk limit is a count of the files that have names: files are written in place, not as drafts without one */
  bool in_place;
};

/*
 * Answers file requests until the other side closes the connection. The process must own `fd` (a connected, blocking
 * unix stream socket), and must already be the user, and see the root, that the requests are meant for.
 */
void serve_files(int fd, const struct file_context *context);

/*
 * Below: shared by the files of this part (files.c, file_answer.c, file_draft.c, file_transfer.c, file_tree.c,
 * watch.c).
 *
 * A handler answers its request and returns 0, or the errno of a connection that is of no more use.
 */
struct file_session {
  int fd;
  bool privileged;
  bool in_place;
  /* the number of the request in hand */
  uint32_t id;
  /* the first path of the request in hand that cannot be one, and what is wrong with it; 0 when nothing is */
  const char *bad_path;
  int path_error;
  char path[PATH_MAX];
  char other[PATH_MAX];
  /* frames that are ready but not sent yet */
  uint8_t *out;
  size_t out_length;
};

/* --- file_answer.c: what goes back --- */

/* room for two of the largest DATA frames, so that small files share one send() */
#define OUT_ROOM (2 * (WIRE_HEADER + WIRE_CHUNK))

/* sends what is ready */
int out_flush(struct file_session *s);
/* ends and frees a frame and puts it behind the others */
int out_frame(struct file_session *s, struct writer *w);
/* a place for one DATA frame of up to WIRE_CHUNK bytes; fill in the bytes, then out_data_end() with their number */
int out_data_begin(struct file_session *s, uint8_t **bytes);
void out_data_end(struct file_session *s, size_t length);
/* the end of a stream; sends everything */
int answer_end(struct file_session *s);
int answer_ok(struct file_session *s);
/* FAIL with `Cannot <verb> "<path>": <reason>`; a NULL reason is the kernel's word for the error */
int answer_fail(struct file_session *s, int error, const char *verb, const char *path, const char *reason);
/* FAIL for a payload that does not hold its fields */
int answer_malformed(struct file_session *s);
/* whether the other side has closed: long work stops then */
bool client_gone(const struct file_session *s);

/* what ENTRY says a file is */
enum entry_type {
  ENTRY_FILE = 1,
  ENTRY_DIRECTORY = 2,
  ENTRY_SYMLINK = 3,
  ENTRY_FIFO = 4,
  ENTRY_SOCKET = 5,
  ENTRY_CHARACTER = 6,
  ENTRY_BLOCK = 7,
  ENTRY_LINK = 8, /* only in WALK: another name of a file that came before */
};

struct entry {
  const char *path;
  enum entry_type type;
  const struct stat *facts;
  /* a symlink's target or a link's first path; NULL for none */
  const char *target;
  /* an open file or directory whose extended attributes are reported; -1 for none */
  int attributes;
};
enum entry_type entry_type(mode_t mode);
int out_entry(struct file_session *s, const struct entry *entry);
/* milliseconds since 1970, at least 0 and at most what a date can hold on the other side */
#define TIME_LIMIT 8640000000000000ull
uint64_t milliseconds(const struct timespec *time);

/* --- files.c: what comes in --- */

/* copies a path out of the payload; what is wrong with it goes to s->bad_path and s->path_error */
void read_path(struct file_session *s, struct reader *r, char path[PATH_MAX]);
/*
 * True when the request cannot be done because its payload or a path is wrong; it is answered then and *result is what
 * the handler returns.
 */
bool refused(struct file_session *s, const struct reader *r, const char *verb, int *result);
/* OK when code is 0, otherwise FAIL with errno */
int answer_result(struct file_session *s, int code, const char *verb, const char *path);
/* makes the missing directories above a path, mode 0755; 0 or an errno */
int make_parents(const char *path);

/* --- file_draft.c: a file that is written beside its place --- */

struct draft {
  int fd;
  /* where it goes; a symlink's target where the request names a symlink to be followed */
  char path[PATH_MAX];
};

/* Begins one for a regular file that is there, or for one that is not; false where a file has to be written in place. */
bool draft_open(struct draft *d, const char *path, mode_t mode, bool replace);
/* puts it in its place; 0 or an errno */
int draft_place(const struct draft *d, bool exclusive);
/* writes what is in it to another file; 0 or an errno */
int draft_copy(const struct draft *d, int to);
/* as if it had never been */
void draft_drop(struct draft *d);
/* whether a file of this name is a draft that is about to replace another file */
bool is_draft_name(const char *name);

/* --- file_transfer.c, file_tree.c, watch.c: handlers --- */

int handle_read(struct file_session *s, struct reader *r);
int handle_write(struct file_session *s, struct reader *r);
int handle_list(struct file_session *s, struct reader *r);
int handle_walk(struct file_session *s, struct reader *r);
int handle_remove(struct file_session *s, struct reader *r);
int handle_usage(struct file_session *s, struct reader *r);
int handle_watch(struct file_session *s, struct reader *r);

#endif
