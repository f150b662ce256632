/*
 * fuzz_wire.c: arbitrary bytes into the frame parser, the field readers and back through the writers (libFuzzer).
 *
 * The first byte says how many of the next bytes are a list of fields to look for; what follows is a payload. The same
 * bytes are then sent through a socket as a stream of frames.
 */
#define _GNU_SOURCE
#include "shared/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(truth) ((truth) ? (void)0 : abort())

static void write_list(struct writer *w, char **list) {
  uint16_t count = 0;
  while (list[count]) count++;
  write_u16(w, count);
  for (uint16_t i = 0; i < count; i++) write_str(w, list[i]);
}

/* reads one field and writes it again, so that what was read can be held against what was there */
static void copy_field(struct reader *r, struct writer *w, uint8_t kind) {
  const uint8_t *before = r->at;
  switch (kind % 8) {
    case 0: write_u8(w, read_u8(r)); break;
    case 1: write_u16(w, read_u16(r)); break;
    case 2: write_u32(w, read_u32(r)); break;
    case 3: write_u64(w, read_u64(r)); break;
    case 4: {
      struct span s = read_bytes(r);
      write_bytes(w, s.data, s.length);
      break;
    }
    case 5: {
      struct span s = read_str(r);
      CHECK(!memchr(s.data, 0, s.length));
      write_bytes(w, s.data, s.length);
      break;
    }
    case 6: {
      char *s = read_string(r);
      CHECK(!s == r->bad);
      if (s) write_str(w, s);
      free(s);
      break;
    }
    default: {
      char **list = read_list(r);
      CHECK(!list == r->bad);
      if (list) write_list(w, list);
      free_list(list);
    }
  }
  CHECK(r->at >= before && r->at <= r->end);
}

static void read_fields(const uint8_t *kinds, size_t count, const uint8_t *payload, size_t length) {
  struct reader r = reader_of(payload, length);
  struct writer w = frame_begin(WIRE_OK, 1);
  bool bad = false;
  for (size_t i = 0; i < count; i++) {
    copy_field(&r, &w, kinds[i]);
    CHECK(r.bad || !bad); /* once it is bad it stays so */
    bad = r.bad;
  }
  if (!bad && length <= WIRE_MAX_PAYLOAD) {
    size_t used = (size_t)(r.at - payload);
    CHECK(frame_end(&w) && w.length == WIRE_HEADER + used && memcmp(w.data + WIRE_HEADER, payload, used) == 0);
    CHECK(reader_done(&r) == (used == length));
  } else {
    CHECK(!bad || !reader_done(&r));
  }
  writer_free(&w);
}

/* what a process with a connection of its own would take off it */
static void receive(const uint8_t *data, size_t size) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
  if (size > 0 && send(pair[1], data, size, MSG_NOSIGNAL) != (ssize_t)size) size = 0;
  close(pair[1]);
  size_t taken = 0;
  for (int error = 0; !error;) {
    struct header h;
    uint8_t *payload = NULL;
    error = recv_frame(pair[0], &h, &payload);
    CHECK(error == 0 || error == EPIPE || error == EMSGSIZE);
    if (error) break;
    CHECK(h.length <= WIRE_MAX_PAYLOAD && memcmp(payload, data + taken + WIRE_HEADER, h.length) == 0);
    taken += WIRE_HEADER + h.length;
    CHECK(taken <= size);
    free(payload);
  }
  close(pair[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  size_t count = data[0] % 32;
  if (count > size - 1) count = size - 1;
  read_fields(data + 1, count, data + 1 + count, size - 1 - count);
  receive(data + 1, size - 1);
  return 0;
}
