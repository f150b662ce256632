/* file_answer.c: builds the answers of file requests and sends them, several small ones in one go. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "files/files.h"

/* as much as one ENTRY holds of a file's attributes; far more than any file system keeps for one file in practice */
#define ATTRIBUTES_LIMIT (512u << 10)

int out_flush(struct file_session *s) {
  size_t length = s->out_length;
  s->out_length = 0;
  return length ? send_all(s->fd, s->out, length) : 0;
}

int out_frame(struct file_session *s, struct writer *w) {
  int error = frame_end(w) ? 0 : ENOMEM;
  if (!error && w->length > OUT_ROOM - s->out_length) error = out_flush(s);
  if (!error && w->length > OUT_ROOM) {
    error = send_all(s->fd, w->data, w->length);
  } else if (!error) {
    memcpy(s->out + s->out_length, w->data, w->length);
    s->out_length += w->length;
  }
  writer_free(w);
  return error;
}

int out_data_begin(struct file_session *s, uint8_t **bytes) {
  int error = OUT_ROOM - s->out_length < WIRE_HEADER + WIRE_CHUNK ? out_flush(s) : 0;
  *bytes = s->out + s->out_length + WIRE_HEADER;
  return error;
}

void out_data_end(struct file_session *s, size_t length) {
  uint8_t *header = s->out + s->out_length;
  for (size_t i = 0; i < 4; i++) header[i] = (uint8_t)(length >> (8 * i));
  header[4] = WIRE_DATA;
  for (size_t i = 0; i < 4; i++) header[5 + i] = (uint8_t)(s->id >> (8 * i));
  s->out_length += WIRE_HEADER + length;
}

int answer_end(struct file_session *s) {
  struct writer w = frame_begin(WIRE_END, s->id);
  int error = out_frame(s, &w);
  return error ? error : out_flush(s);
}

int answer_ok(struct file_session *s) {
  int error = out_flush(s);
  return error ? error : send_ok(s->fd, s->id);
}

/* A path for a sentence: without control characters, and cut between two UTF-8 characters when it is long. */
static void quote(const char *path, char text[256]) {
  size_t length = strlen(path);
  size_t keep = length > 240 ? 240 : length;
  while (keep < length && keep > 0 && ((uint8_t)path[keep] & 0xc0) == 0x80) keep--;
  for (size_t i = 0; i < keep; i++) text[i] = iscntrl((uint8_t)path[i]) ? '?' : path[i];
  strcpy(text + keep, keep < length ? "\xe2\x80\xa6" : "");
}

static const char *words(int error, char text[128]) {
  switch (error) {
    case EISDIR: return "it is a directory";
    case ENOTDIR: return "a part of it is not a directory";
    case EEXIST: return "it exists already";
    case ENOTEMPTY: return "the directory is not empty";
    case ENAMETOOLONG: return "the path or a name in it is too long";
    case EDQUOT: return "the disk limit is reached";
    case ENOSPC: return "no space is left on the disk";
    case EXDEV: return "the two places are on different file systems";
    case ESTALE: return "it was moved meanwhile";
  }
  snprintf(text, 128, "%s", strerror(error));
  text[0] = (char)tolower((uint8_t)text[0]);
  return text;
}

int answer_fail(struct file_session *s, int error, const char *verb, const char *path, const char *reason) {
  char quoted[256], text[128];
  quote(path, quoted);
  int broken = out_flush(s);
  if (broken) return broken;
  return send_fail(s->fd, s->id, error, WIRE_WHAT_PATH, "Cannot %s \"%s\": %s", verb, quoted,
                   reason ? reason : words(error, text));
}

int answer_malformed(struct file_session *s) {
  int broken = out_flush(s);
  if (broken) return broken;
  return send_fail(s->fd, s->id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot do the file request: its payload is malformed");
}

bool client_gone(const struct file_session *s) {
  char byte;
  return recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

enum entry_type entry_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return ENTRY_DIRECTORY;
    case S_IFLNK: return ENTRY_SYMLINK;
    case S_IFIFO: return ENTRY_FIFO;
    case S_IFSOCK: return ENTRY_SOCKET;
    case S_IFCHR: return ENTRY_CHARACTER;
    case S_IFBLK: return ENTRY_BLOCK;
  }
  return ENTRY_FILE;
}

uint64_t milliseconds(const struct timespec *time) {
  if (time->tv_sec < 0) return 0;
  if ((uint64_t)time->tv_sec >= TIME_LIMIT / 1000) return TIME_LIMIT;
  return (uint64_t)time->tv_sec * 1000 + (uint64_t)time->tv_nsec / 1000000;
}

/* What a copy of a layer needs. Not the overlay's origin: it is a file handle, which means nothing elsewhere. */
static bool worth_telling(const char *name) {
  return strcmp(name, "trusted.overlay.opaque") == 0 || strcmp(name, "trusted.overlay.redirect") == 0 ||
         strcmp(name, "security.capability") == 0 || strncmp(name, "user.", 5) == 0;
}

/* One attribute; false when it cannot be read any more. */
static bool write_attribute(struct writer *w, int fd, const char *name, char *value) {
  ssize_t length = fgetxattr(fd, name, value, XATTR_SIZE_MAX);
  if (length < 0) return false;
  write_str(w, name);
  write_bytes(w, value, (size_t)length);
  return true;
}

/* u16 count, then the attributes; E2BIG when they are more than one frame should hold. */
static int write_attributes(struct writer *w, int fd) {
  size_t count_at = w->length;
  uint16_t count = 0;
  write_u16(w, 0);
  if (fd < 0) return 0;
  char *names = malloc(XATTR_LIST_MAX + XATTR_SIZE_MAX);
  if (!names) return ENOMEM;
  ssize_t length = flistxattr(fd, names, XATTR_LIST_MAX);
  int error = length < 0 && errno != ENOTSUP ? errno : 0;
  for (char *name = names; !error && length > 0 && name < names + length; name += strlen(name) + 1) {
    if (worth_telling(name) && write_attribute(w, fd, name, names + XATTR_LIST_MAX)) count++;
    if (w->length - count_at > ATTRIBUTES_LIMIT) error = E2BIG;
  }
  free(names);
  if (!w->bad) {
    w->data[count_at] = (uint8_t)count;
    w->data[count_at + 1] = (uint8_t)(count >> 8);
  }
  return error;
}

int out_entry(struct file_session *s, const struct entry *entry) {
  const struct stat *facts = entry->facts;
  struct writer w = frame_begin(WIRE_ENTRY, s->id);
  write_str(&w, entry->path);
  write_u8(&w, (uint8_t)entry->type);
  write_u64(&w, (uint64_t)facts->st_size);
  write_u32(&w, facts->st_mode & 07777);
  write_u32(&w, facts->st_uid);
  write_u32(&w, facts->st_gid);
  write_u64(&w, milliseconds(&facts->st_mtim));
  write_u32(&w, facts->st_nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)facts->st_nlink);
  write_u32(&w, major(facts->st_rdev));
  write_u32(&w, minor(facts->st_rdev));
  write_str(&w, entry->target ? entry->target : "");
  int error = write_attributes(&w, entry->attributes);
  if (error) {
    writer_free(&w);
    return error;
  }
  write_u64(&w, milliseconds(&facts->st_atim));
  write_u64(&w, milliseconds(&facts->st_ctim));
  return out_frame(s, &w);
}
