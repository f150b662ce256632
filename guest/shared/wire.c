/* wire.c: builds and parses the frames of wire.h; every length is checked before it is used. */
#define _GNU_SOURCE
#include "shared/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct reader reader_of(const void *payload, size_t length) {
  return (struct reader){.at = payload, .end = (const uint8_t *)payload + length, .bad = false};
}

static const uint8_t *take(struct reader *r, size_t count) {
  if (r->bad || (size_t)(r->end - r->at) < count) {
    r->bad = true;
    return NULL;
  }
  const uint8_t *p = r->at;
  r->at += count;
  return p;
}

static uint64_t read_number(struct reader *r, size_t size) {
  const uint8_t *p = take(r, size);
  uint64_t v = 0;
  for (size_t i = 0; p && i < size; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

uint8_t read_u8(struct reader *r) { return (uint8_t)read_number(r, 1); }
uint16_t read_u16(struct reader *r) { return (uint16_t)read_number(r, 2); }
uint32_t read_u32(struct reader *r) { return (uint32_t)read_number(r, 4); }
uint64_t read_u64(struct reader *r) { return read_number(r, 8); }

struct span read_bytes(struct reader *r) {
  uint32_t length = read_u32(r);
  const uint8_t *p = take(r, length);
  if (!p) return (struct span){.data = "", .length = 0};
  return (struct span){.data = (const char *)p, .length = length};
}

struct span read_str(struct reader *r) {
  struct span s = read_bytes(r);
  if (memchr(s.data, 0, s.length)) {
    r->bad = true;
    return (struct span){.data = "", .length = 0};
  }
  return s;
}

bool plain_name(struct span s) {
  if (s.length == 0 || s.length > 64) return false;
  for (uint32_t i = 0; i < s.length; i++) {
    char ch = s.data[i];
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9');
    if (!letter && ch != '_' && ch != '-') return false;
  }
  return true;
}

bool reader_done(const struct reader *r) { return !r->bad && r->at == r->end; }

char *read_string(struct reader *r) {
  struct span s = read_str(r);
  if (r->bad) return NULL;
  char *copy = strndup(s.data, s.length);
  if (!copy) r->bad = true;
  return copy;
}

char **read_list(struct reader *r) {
  uint16_t count = read_u16(r);
  if (r->bad) return NULL;
  char **list = calloc((size_t)count + 1, sizeof *list);
  if (!list) {
    r->bad = true;
    return NULL;
  }
  for (uint16_t i = 0; i < count; i++) {
    list[i] = read_string(r);
    if (!list[i]) {
      free_list(list);
      return NULL;
    }
  }
  return list;
}

/* wiped: it may be an environment with secrets, and the memory goes into the next command's process */
void free_list(char **list) {
  if (!list) return;
  for (char **p = list; *p; p++) {
    explicit_bzero(*p, strlen(*p));
    free(*p);
  }
  free(list);
}

static void append(struct writer *w, const void *data, size_t length) {
  if (w->bad) return;
  if (length > WIRE_HEADER + WIRE_MAX_PAYLOAD - w->length) {
    w->bad = true;
    return;
  }
  if (w->length + length > w->room) {
    size_t room = w->room * 2 > w->length + length ? w->room * 2 : w->length + length;
    uint8_t *bigger = realloc(w->data, room);
    if (!bigger) {
      w->bad = true;
      return;
    }
    w->data = bigger;
    w->room = room;
  }
  if (length) memcpy(w->data + w->length, data, length);
  w->length += length;
}

static void append_number(struct writer *w, uint64_t v, size_t size) {
  uint8_t bytes[8];
  for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(v >> (8 * i));
  append(w, bytes, size);
}

struct writer frame_begin(enum wire_type type, uint32_t id) {
  struct writer w = {.data = malloc(256), .length = 0, .room = 256, .bad = false};
  if (!w.data) {
    w.room = 0;
    w.bad = true;
  }
  append_number(&w, 0, 4);
  append_number(&w, (uint64_t)type, 1);
  append_number(&w, id, 4);
  return w;
}

void write_u8(struct writer *w, uint8_t v) { append_number(w, v, 1); }
void write_u16(struct writer *w, uint16_t v) { append_number(w, v, 2); }
void write_u32(struct writer *w, uint32_t v) { append_number(w, v, 4); }
void write_u64(struct writer *w, uint64_t v) { append_number(w, v, 8); }
void write_raw(struct writer *w, const void *data, size_t length) { append(w, data, length); }

void write_bytes(struct writer *w, const void *data, size_t length) {
  if (length > WIRE_MAX_PAYLOAD) {
    w->bad = true;
    return;
  }
  append_number(w, length, 4);
  append(w, data, length);
}

void write_str(struct writer *w, const char *s) { write_bytes(w, s, strlen(s)); }

bool frame_end(struct writer *w) {
  if (w->bad) return false;
  uint32_t length = (uint32_t)(w->length - WIRE_HEADER);
  for (size_t i = 0; i < 4; i++) w->data[i] = (uint8_t)(length >> (8 * i));
  return true;
}

void writer_free(struct writer *w) {
  free(w->data);
  *w = (struct writer){.bad = true};
}

int parse_header(const uint8_t bytes[WIRE_HEADER], struct header *out) {
  struct reader r = reader_of(bytes, WIRE_HEADER);
  out->length = read_u32(&r);
  out->type = read_u8(&r);
  out->id = read_u32(&r);
  return out->length > WIRE_MAX_PAYLOAD ? EMSGSIZE : 0;
}

int send_all(int fd, const void *data, size_t length) {
  const char *p = data;
  while (length > 0) {
    ssize_t n = send(fd, p, length, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == ECONNRESET ? EPIPE : errno;
    p += n;
    length -= (size_t)n;
  }
  return 0;
}

int recv_all(int fd, void *data, size_t length) {
  char *p = data;
  while (length > 0) {
    ssize_t n = recv(fd, p, length, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return EPIPE;
    if (n < 0) return errno == ECONNRESET ? EPIPE : errno;
    p += n;
    length -= (size_t)n;
  }
  return 0;
}

int recv_frame(int fd, struct header *header, uint8_t **payload) {
  uint8_t bytes[WIRE_HEADER];
  int error = recv_all(fd, bytes, sizeof bytes);
  if (error) return error;
  error = parse_header(bytes, header);
  if (error) return error;
  uint8_t *p = malloc(header->length + 1);
  if (!p) return ENOMEM;
  error = recv_all(fd, p, header->length);
  if (error) {
    free(p);
    return error;
  }
  *payload = p;
  return 0;
}

int send_frame(int fd, struct writer *w) {
  int error = frame_end(w) ? send_all(fd, w->data, w->length) : ENOMEM;
  writer_free(w);
  return error;
}

int send_ok(int fd, uint32_t id) {
  struct writer w = frame_begin(WIRE_OK, id);
  return send_frame(fd, &w);
}

struct writer fail_frame(uint32_t id, int error, enum wire_what what, const char *sentence, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, sentence, args);
  struct writer w = frame_begin(WIRE_FAIL, id);
  write_u32(&w, (uint32_t)error);
  write_u8(&w, (uint8_t)what);
  write_str(&w, text);
  return w;
}

int send_fail(int fd, uint32_t id, int error, enum wire_what what, const char *sentence, ...) {
  va_list args;
  va_start(args, sentence);
  struct writer w = fail_frame(id, error, what, sentence, args);
  va_end(args);
  return send_frame(fd, &w);
}

int send_data(int fd, uint32_t id, const void *data, size_t length) {
  struct writer w = frame_begin(WIRE_DATA, id);
  write_raw(&w, data, length);
  return send_frame(fd, &w);
}
