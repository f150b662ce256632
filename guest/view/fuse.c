/* fuse.c: the protocol of fuse.h; <linux/fuse.h> has the messages. */
#define _GNU_SOURCE
#include "view/fuse.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* the protocol that this file speaks; a newer kernel speaks it too */
#define MINOR 31
/* how long the kernel may remember that a file is there and what it is, in seconds: nothing of it ever changes */
#define REMEMBERED (365u * 24 * 3600)
/* how many open files have their texts kept at once; of further ones the text is made again for each read */
#define TEXTS 16
/* the kernel refuses to hand a request to a smaller buffer */
#define REQUEST (FUSE_MIN_READ_BUFFER + 4096)
#define WRITE_MOST 4096
/* nodes: 1 is the directory, the files follow in their order */
#define FIRST_FILE (FUSE_ROOT_ID + 1)

/* the text that one open file is being read from */
struct text {
  uint64_t handle; /* 0: free */
  uint64_t used;   /* a count: the smallest was used longest ago */
  char *data;
  size_t length;
};
static struct text texts[TEXTS];
static uint64_t uses, handles;

/* ---- texts of open files ---- */

static void drop(struct text *t) {
  free(t->data);
  *t = (struct text){0};
}

static struct text *find(uint64_t handle) {
  for (size_t i = 0; handle && i < TEXTS; i++) {
    if (texts[i].handle == handle) return &texts[i];
  }
  return NULL;
}

/* a place for another text, if need be that of the text that was used longest ago */
static struct text *place(void) {
  struct text *oldest = &texts[0];
  for (size_t i = 0; i < TEXTS; i++) {
    if (texts[i].used < oldest->used) oldest = &texts[i];
  }
  drop(oldest);
  return oldest;
}

/* the text for a read at this offset; NULL without memory */
static struct text *text_of(const struct fuse_file *file, uint64_t handle, uint64_t offset) {
  struct text *t = find(handle);
  if (t && offset > 0) {
    t->used = ++uses;
    return t;
  }
  if (t) drop(t);
  else t = place();
  char *whole = malloc(FUSE_TEXT);
  if (!whole) return NULL;
  size_t length = file->text(whole, FUSE_TEXT);
  char *data = realloc(whole, length ? length : 1);
  *t = (struct text){.handle = handle, .used = ++uses, .data = data ? data : whole, .length = length};
  return t;
}

/* ---- answers ---- */

struct answer {
  uint8_t *out;
  size_t length;
};

static void add(struct answer *a, const void *data, size_t length) {
  memcpy(a->out + a->length, data, length);
  a->length += length;
}

static const struct fuse_file *file_of(const struct fuse_directory *directory, uint64_t node) {
  return node >= FIRST_FILE && node - FIRST_FILE < directory->count ? &directory->files[node - FIRST_FILE] : NULL;
}

static struct fuse_attr attributes(uint64_t node) {
  bool is_file = node != FUSE_ROOT_ID;
  return (struct fuse_attr){
      .ino = node, .mode = is_file ? S_IFREG | 0444 : S_IFDIR | 0555, .nlink = is_file ? 1 : 2, .blksize = 4096};
}

/* each of these gets what follows the header and returns an error or 0 */

static int begin(struct answer *a, const void *body, size_t length) {
  struct fuse_init_in in = {0};
  if (length < offsetof(struct fuse_init_in, max_readahead)) return EINVAL;
  memcpy(&in, body, length < sizeof in ? length : sizeof in);
  if (in.major < FUSE_KERNEL_VERSION) return EPROTO;
  struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = MINOR, .max_write = WRITE_MOST, .time_gran = 1};
  /* one that speaks a later version asks again in ours */
  if (in.major == FUSE_KERNEL_VERSION && in.minor < MINOR) out.minor = in.minor;
  add(a, &out, sizeof out);
  return 0;
}

static int look_up(struct answer *a, const struct fuse_directory *directory, const void *body, size_t length) {
  if (length == 0 || ((const char *)body)[length - 1] != 0) return EINVAL;
  for (size_t i = 0; i < directory->count; i++) {
    if (strcmp(directory->files[i].name, body) != 0) continue;
    uint64_t node = FIRST_FILE + i;
    struct fuse_entry_out out = {
        .nodeid = node, .generation = 1, .entry_valid = REMEMBERED, .attr_valid = REMEMBERED, .attr = attributes(node)};
    add(a, &out, sizeof out);
    return 0;
  }
  return ENOENT;
}

static int describe(struct answer *a, uint64_t node) {
  struct fuse_attr_out out = {.attr_valid = REMEMBERED, .attr = attributes(node)};
  add(a, &out, sizeof out);
  return 0;
}

static int open_file(struct answer *a) {
  /* every read comes to us: the kernel keeps nothing of the text */
  struct fuse_open_out out = {.fh = ++handles, .open_flags = FOPEN_DIRECT_IO};
  add(a, &out, sizeof out);
  return 0;
}

static int read_file(struct answer *a, const struct fuse_file *file, const void *body, size_t length) {
  struct fuse_read_in in;
  if (length < sizeof in) return EINVAL;
  memcpy(&in, body, sizeof in);
  const struct text *t = text_of(file, in.fh, in.offset);
  if (!t) return ENOMEM;
  if (in.offset >= t->length) return 0;
  size_t left = t->length - (size_t)in.offset;
  add(a, t->data + in.offset, left < in.size ? left : in.size);
  return 0;
}

static int release(const void *body, size_t length) {
  struct fuse_release_in in;
  if (length < sizeof in) return EINVAL;
  memcpy(&in, body, sizeof in);
  struct text *t = find(in.fh);
  if (t) drop(t);
  return 0;
}

/* no blocks: tools that list file systems pass over such a one */
static int measure(struct answer *a) {
  struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
  add(a, &out, sizeof out);
  return 0;
}

static int answer_of(struct answer *a, const struct fuse_directory *directory, const struct fuse_in_header *head,
                     const void *body, size_t length) {
  const struct fuse_file *file = file_of(directory, head->nodeid);
  switch (head->opcode) {
    case FUSE_INIT: return begin(a, body, length);
    case FUSE_LOOKUP: return head->nodeid == FUSE_ROOT_ID ? look_up(a, directory, body, length) : ENOTDIR;
    case FUSE_GETATTR: return file || head->nodeid == FUSE_ROOT_ID ? describe(a, head->nodeid) : ENOENT;
    case FUSE_OPEN: return file ? open_file(a) : ENOENT;
    case FUSE_READ: return file ? read_file(a, file, body, length) : ENOENT;
    case FUSE_RELEASE: return release(body, length);
    case FUSE_STATFS: return measure(a);
    default: return ENOSYS;
  }
}

size_t fuse_answer(const struct fuse_directory *directory, const void *request, size_t length, uint8_t *out) {
  struct fuse_in_header head;
  if (length < sizeof head) return 0;
  memcpy(&head, request, sizeof head);
  if (head.opcode == FUSE_FORGET || head.opcode == FUSE_BATCH_FORGET || head.opcode == FUSE_INTERRUPT) return 0;
  struct fuse_out_header about = {.unique = head.unique};
  struct answer a = {.out = out, .length = sizeof about};
  int error = answer_of(&a, directory, &head, (const uint8_t *)request + sizeof head, length - sizeof head);
  if (error) a.length = sizeof about;
  about.error = -error;
  about.len = (uint32_t)a.length;
  memcpy(out, &about, sizeof about);
  return a.length;
}

/* an answer that takes no memory: a question without any would keep its program waiting for ever */
static void refuse(int fd, const struct fuse_in_header *head, int error) {
  struct fuse_out_header out = {.len = sizeof out, .error = -error, .unique = head->unique};
  if (write(fd, &out, sizeof out) < 0) errno = 0;
}

int fuse_serve(const struct fuse_directory *directory, int fd) {
  _Alignas(struct fuse_in_header) uint8_t request[REQUEST];
  ssize_t got = read(fd, request, sizeof request);
  /* ENOENT: the caller was killed before we read the question */
  if (got < 0) return errno == EINTR || errno == ENOENT ? 0 : errno;
  uint8_t *out = malloc(FUSE_ROOM);
  if (!out) {
    refuse(fd, (const struct fuse_in_header *)(const void *)request, ENOMEM);
    return 0;
  }
  size_t length = fuse_answer(directory, request, (size_t)got, out);
  /* fails when the caller is gone */
  int error = length > 0 && write(fd, out, length) < 0 && errno == ENODEV ? ENODEV : 0;
  free(out);
  return error;
}
