/*
 * wire_test.c: holds wire.c to the vectors of vectors.txt, whose top says what they mean. Prints one line for each
 * mismatch; exits 0 when there is none. Usage: wire_test vectors.txt
 */
#define _GNU_SOURCE
#include "shared/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_FIELDS 32
/* frames up to this long are also tried cut short at every byte */
#define CUT_ALL 4096

struct buffer {
  uint8_t *data;
  size_t length;
};

/* one field: what it is and what the line says of its value */
struct field {
  char kind[8];
  char *value;
};

struct vector {
  char kind[16];
  char name[80];
  unsigned type, id;
  struct field fields[MOST_FIELDS];
  size_t count;
  struct buffer bytes;
};

static int mismatches;
static int vectors;

static bool read_vector(FILE *file, struct vector *v);
static void free_vector(struct vector *v);
static void check(const struct vector *v);
static void test_writer_bounds(void);
static void test_long_sentence(void);

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (!file) return puts("Usage: wire_test vectors.txt"), 2;
  struct vector v;
  while (read_vector(file, &v)) {
    check(&v);
    free_vector(&v);
    vectors++;
  }
  free_vector(&v);
  fclose(file);
  test_writer_bounds();
  test_long_sentence();
  printf("%d vectors, %d mismatches\n", vectors, mismatches);
  return mismatches ? 1 : 0;
}

static void wrong(const struct vector *v, const char *what, ...) __attribute__((format(printf, 2, 3)));

static void wrong(const struct vector *v, const char *what, ...) {
  mismatches++;
  printf("%s: ", v->name);
  va_list args;
  va_start(args, what);
  vprintf(what, args);
  va_end(args);
  puts("");
}

static _Noreturn void die(const char *what, const char *where) {
  printf("Cannot read the vectors: %s: %s\n", what, where);
  exit(2);
}

/* ---- the file ---- */

static void add(struct buffer *b, const void *data, size_t length, size_t times) {
  b->data = realloc(b->data, b->length + length * times + 1);
  if (!b->data) die("out of memory", "");
  for (; times > 0; times--, b->length += length) {
    if (length) memcpy(b->data + b->length, data, length);
  }
}

/* the number behind a "*", or 1; *at is moved behind it */
static size_t times_at(const char **at) {
  if (**at != '*') return 1;
  char *end;
  size_t times = strtoul(*at + 1, &end, 10);
  *at = end;
  return times;
}

/* appends what a line of hex says */
static void add_hex(struct buffer *b, const char *at) {
  while (*(at += strspn(at, " "))) {
    uint8_t bytes[256];
    size_t length = 0;
    for (unsigned byte; sscanf(at, "%2x", &byte) == 1 && *at != ' ' && *at != '*'; at += 2) {
      if (length == sizeof bytes) die("a piece of hex is too long", at);
      bytes[length++] = (uint8_t)byte;
    }
    if (length == 0) die("not hex", at);
    add(b, bytes, length, times_at(&at));
  }
}

/* reads the next text of a line; false at the end. *times is the number of its repetitions */
static bool next_text(const char **at, struct buffer *text, size_t *times) {
  *at += strspn(*at, " ");
  if (**at != '"') return false;
  const char *end = strchr(*at + 1, '"');
  if (!end) die("a text without its end", *at);
  *text = (struct buffer){0};
  add(text, *at + 1, (size_t)(end - *at - 1), 1);
  text->data[text->length] = 0;
  *at = end + 1;
  *times = times_at(at);
  return true;
}

static void take_line(struct vector *v, const char *line) {
  char kind[8];
  int used = 0;
  if (sscanf(line, " type %u id %u", &v->type, &v->id) == 2) return;
  if (sscanf(line, " %7[a-z0-9]%n", kind, &used) != 1) die("an odd line", line);
  if (strcmp(kind, "hex") == 0) {
    add_hex(&v->bytes, line + used);
    return;
  }
  if (v->count == MOST_FIELDS) die("too many fields", v->name);
  struct field *f = &v->fields[v->count++];
  memcpy(f->kind, kind, sizeof kind);
  f->value = strdup(line + used + strspn(line + used, " "));
}

static bool read_vector(FILE *file, struct vector *v) {
  char line[4096];
  *v = (struct vector){0};
  add(&v->bytes, "", 0, 1);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == ' ') take_line(v, line);
    else if (line[0] && line[0] != '#' && sscanf(line, "%15s %79s", v->kind, v->name) != 2) die("an odd line", line);
    if (!line[0] && v->name[0]) return true;
  }
  return v->name[0] != 0;
}

static void free_vector(struct vector *v) {
  for (size_t i = 0; i < v->count; i++) free(v->fields[i].value);
  free(v->bytes.data);
}

/* ---- building ---- */

static void write_list(struct writer *w, const char *at) {
  struct buffer text;
  size_t times, count = 0;
  for (const char *p = at; next_text(&p, &text, &times); count += times) free(text.data);
  write_u16(w, (uint16_t)count);
  while (next_text(&at, &text, &times)) {
    for (; times > 0; times--) write_str(w, (char *)text.data);
    free(text.data);
  }
}

/* the content of a str, bytes or raw field */
static struct buffer content(const struct field *f) {
  struct buffer b = {0}, text;
  size_t times;
  const char *at = f->value;
  add(&b, "", 0, 1);
  if (strcmp(f->kind, "str") != 0) {
    add_hex(&b, at);
  } else if (next_text(&at, &text, &times)) {
    add(&b, text.data, text.length, times);
    free(text.data);
  }
  b.data[b.length] = 0;
  return b;
}

static void write_field(struct writer *w, const struct field *f) {
  uint64_t number = strtoull(f->value, NULL, 10);
  if (strcmp(f->kind, "u8") == 0) write_u8(w, (uint8_t)number);
  else if (strcmp(f->kind, "u16") == 0) write_u16(w, (uint16_t)number);
  else if (strcmp(f->kind, "u32") == 0) write_u32(w, (uint32_t)number);
  else if (strcmp(f->kind, "u64") == 0) write_u64(w, number);
  else if (strcmp(f->kind, "list") == 0) write_list(w, f->value);
  else {
    struct buffer b = content(f);
    if (strcmp(f->kind, "str") == 0) write_str(w, (char *)b.data);
    else if (strcmp(f->kind, "bytes") == 0) write_bytes(w, b.data, b.length);
    else write_raw(w, b.data, b.length);
    free(b.data);
  }
}

static void check_build(const struct vector *v) {
  struct writer w = frame_begin((enum wire_type)v->type, v->id);
  for (size_t i = 0; i < v->count; i++) write_field(&w, &v->fields[i]);
  if (!frame_end(&w)) wrong(v, "it cannot be built");
  else if (w.length != v->bytes.length) wrong(v, "built %zu bytes, wanted %zu", w.length, v->bytes.length);
  else if (memcmp(w.data, v->bytes.data, w.length) != 0) wrong(v, "built other bytes");
  writer_free(&w);
}

/* ---- reading ---- */

static bool same_list(char **list, const char *at) {
  struct buffer text;
  size_t times;
  bool same = true;
  while (next_text(&at, &text, &times)) {
    for (; times > 0 && same; times--) same = *list && strcmp(*list++, (char *)text.data) == 0;
    free(text.data);
  }
  return same && !*list;
}

static bool same_content(struct span got, const struct field *f) {
  struct buffer wanted = content(f);
  bool same = got.length == wanted.length && memcmp(got.data, wanted.data, got.length) == 0;
  free(wanted.data);
  return same;
}

/* reads one field; true when it is what the vector says, which in a malformed one says nothing */
static bool read_field(struct reader *r, const struct field *f, bool compare) {
  uint64_t wanted = strtoull(f->value, NULL, 10);
  if (strcmp(f->kind, "u8") == 0) return read_u8(r) == wanted || !compare;
  if (strcmp(f->kind, "u16") == 0) return read_u16(r) == wanted || !compare;
  if (strcmp(f->kind, "u32") == 0) return read_u32(r) == wanted || !compare;
  if (strcmp(f->kind, "u64") == 0) return read_u64(r) == wanted || !compare;
  if (strcmp(f->kind, "list") == 0) {
    char **list = read_list(r);
    bool same = !compare || (list && same_list(list, f->value));
    free_list(list);
    return same;
  }
  struct span got = {.data = (const char *)r->at, .length = (uint32_t)(r->end - r->at)};
  if (strcmp(f->kind, "raw") == 0) r->at = r->end;
  else got = strcmp(f->kind, "str") == 0 ? read_str(r) : read_bytes(r);
  return !compare || same_content(got, f);
}

static bool has_raw(const struct vector *v) {
  return v->count > 0 && strcmp(v->fields[v->count - 1].kind, "raw") == 0;
}

static bool holds_fields(const struct vector *v, const uint8_t *payload, size_t length, bool compare) {
  struct reader r = reader_of(payload, length);
  for (size_t i = 0; i < v->count; i++) {
    if (!read_field(&r, &v->fields[i], compare)) wrong(v, "field %zu (%s) reads differently", i + 1, v->fields[i].kind);
  }
  return reader_done(&r);
}

/* what is cut out of a longer frame lies in memory of its own, so that the sanitiser sees a read past its end */
static bool cut_holds_fields(const struct vector *v, size_t length) {
  uint8_t *copy = malloc(length + !length);
  if (!copy) die("out of memory", v->name);
  memcpy(copy, v->bytes.data + WIRE_HEADER, length);
  bool holds = holds_fields(v, copy, length, false);
  free(copy);
  return holds;
}

static void check_read(const struct vector *v) {
  struct header h;
  size_t length = v->bytes.length - WIRE_HEADER;
  if (parse_header(v->bytes.data, &h) != 0) wrong(v, "its header is refused");
  else if (h.type != v->type || h.id != v->id || h.length != length) wrong(v, "its header reads differently");
  bool good = strcmp(v->kind, "frame") == 0;
  if (holds_fields(v, v->bytes.data + WIRE_HEADER, length, good) != good) {
    wrong(v, good ? "it is taken for malformed" : "it is not taken for malformed");
  }
  for (size_t cut = 0; good && !has_raw(v) && length <= CUT_ALL && cut < length; cut++) {
    if (cut_holds_fields(v, cut)) wrong(v, "cut to %zu bytes it is not taken for malformed", cut);
  }
}

/* ---- off a socket ---- */

/* a process that sends all of it, as two pieces, and closes the connection */
static int sender(const struct vector *v, pid_t *pid) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) die("no socket", v->name);
  *pid = fork();
  if (*pid == 0) {
    close(pair[0]);
    size_t first = v->bytes.length / 2;
    send_all(pair[1], v->bytes.data, first);
    send_all(pair[1], v->bytes.data + first, v->bytes.length - first);
    _exit(0);
  }
  close(pair[1]);
  return pair[0];
}

static void check_receive(const struct vector *v, int wanted) {
  pid_t pid;
  int fd = sender(v, &pid);
  struct header h;
  uint8_t *payload = NULL;
  int error = recv_frame(fd, &h, &payload);
  if (error != wanted) wrong(v, "received with \"%s\", wanted \"%s\"", strerror(error), strerror(wanted));
  if (!error && memcmp(payload, v->bytes.data + WIRE_HEADER, h.length) != 0) wrong(v, "received other bytes");
  free(payload);
  close(fd);
  waitpid(pid, NULL, 0);
}

static void check(const struct vector *v) {
  bool good = strcmp(v->kind, "frame") == 0, malformed = strcmp(v->kind, "malformed") == 0;
  if (good) check_build(v);
  if (good || malformed) check_read(v);
  if (good || malformed) check_receive(v, 0);
  else if (strcmp(v->kind, "refused") == 0) check_receive(v, EMSGSIZE);
  else if (strcmp(v->kind, "partial") == 0) check_receive(v, EPIPE);
  else die("an unknown kind", v->kind);
}

/* ---- what no vector can say ---- */

static const struct vector writers = {.name = "writers"};

static void test_writer_bounds(void) {
  static char big[WIRE_MAX_PAYLOAD + 2];
  memset(big, 'x', sizeof big - 1);
  struct writer str = frame_begin(WIRE_OK, 1);
  write_str(&str, big);
  if (frame_end(&str)) wrong(&writers, "a str beyond the maximum is built");
  writer_free(&str);
  struct writer raw = frame_begin(WIRE_DATA, 1);
  write_raw(&raw, big, WIRE_MAX_PAYLOAD);
  write_raw(&raw, NULL, 0);
  bool full = frame_end(&raw);
  write_u8(&raw, 1);
  if (!full || frame_end(&raw)) wrong(&writers, "a byte beyond the maximum is built, or the maximum is not");
  writer_free(&raw);
  struct writer freed = frame_begin(WIRE_OK, 1);
  writer_free(&freed);
  write_u32(&freed, 1);
  if (frame_end(&freed)) wrong(&writers, "a freed frame is built");
}

/* a sentence that quotes something long is cut, and the frame stays a FAIL */
static void test_long_sentence(void) {
  static char path[8192];
  memset(path, 'p', sizeof path - 1);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) die("no socket", "send_fail");
  send_fail(pair[1], 7, ENOENT, WIRE_WHAT_PATH, "Cannot read \"%s\"", path);
  struct header h;
  uint8_t *payload = NULL;
  if (recv_frame(pair[0], &h, &payload) != 0) die("no frame", "send_fail");
  struct reader r = reader_of(payload, h.length);
  bool same = h.type == WIRE_FAIL && h.id == 7 && read_u32(&r) == ENOENT && read_u8(&r) == WIRE_WHAT_PATH;
  struct span sentence = read_str(&r);
  if (!same || !reader_done(&r) || sentence.length != 1023) wrong(&writers, "a long sentence makes an odd FAIL");
  free(payload);
  close(pair[0]);
  close(pair[1]);
}
