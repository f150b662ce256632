/*
 * fuzz_fuse.c: arbitrary requests to the files of view.h, one after the other, as they would come from the kernel
 * (libFuzzer). Every answer says its own length and fits the room, no two texts mix, and the memory they take is bounded.
 */
#define _GNU_SOURCE
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "view/fuse.h"
#include "view/view.h"
#include "view/view_files.h"

#define CHECK(truth) ((truth) ? (void)0 : abort())

/* opcode, node, and a length for what follows */
#define HEAD 4

static void ask(uint8_t opcode, uint8_t node, const uint8_t *body, size_t length) {
  static uint8_t out[FUSE_ROOM];
  struct fuse_in_header head = {.len = (uint32_t)(sizeof head + length), .opcode = opcode, .unique = 7, .nodeid = node};
  /* of its very size, so that a byte beyond it is found out */
  uint8_t *request = malloc(sizeof head + length);
  CHECK(request);
  memcpy(request, &head, sizeof head);
  if (length) memcpy(request + sizeof head, body, length);
  size_t answered = fuse_answer(&view_files, request, sizeof head + length, out);
  free(request);
  if (answered == 0) return;
  struct fuse_out_header about;
  CHECK(answered >= sizeof about && answered <= sizeof out);
  memcpy(&about, out, sizeof about);
  CHECK(about.len == answered && about.unique == 7 && about.error <= 0 && about.error > -4096);
  CHECK(about.error == 0 || answered == sizeof about);
  /* a read's answer is never longer than what was asked for */
  struct fuse_read_in in;
  if (opcode == FUSE_READ && length >= sizeof in) {
    memcpy(&in, body, sizeof in);
    CHECK(answered - sizeof about <= in.size);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t out[FUSE_ROOM];
  view_describe(2, &(struct view_source){.cpu_time = -1, .processes = -1, .host_memory = 1 << 30});
  fuse_answer(&view_files, data, size, out);
  while (size >= HEAD) {
    size_t length = (size_t)(data[2] | data[3] << 8) % 512;
    if (length > size - HEAD) length = size - HEAD;
    ask(data[0], data[1], data + HEAD, length);
    data += HEAD + length;
    size -= HEAD + length;
  }
  return 0;
}
