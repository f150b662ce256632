/* journal.c: writes the output journal of journal.h. */
#define _GNU_SOURCE
#include "agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_ROOM 112
#define SMALLEST_SEGMENT (64u << 10)

void journal_open(struct journal *j, int directory, const char *command, uint64_t bound) {
  memset(j, 0, sizeof *j);
  j->directory = directory;
  snprintf(j->name, sizeof j->name, "%s", command);
  j->bound = bound < SMALLEST_SEGMENT * JOURNAL_SEGMENTS ? SMALLEST_SEGMENT * JOURNAL_SEGMENTS : bound;
  j->spare = UINT64_MAX;
  j->segment = -1;
}

void journal_close(struct journal *j) {
  if (j->segment >= 0) close(j->segment);
  j->segment = -1;
}

bool journal_exists(int directory, struct span command) {
  char name[NAME_ROOM];
  snprintf(name, sizeof name, "%.*s.info", (int)command.length, command.data);
  return faccessat(directory, name, F_OK, 0) == 0;
}

static void segment_name(const struct journal *j, uint64_t offset, char name[NAME_ROOM]) {
  snprintf(name, NAME_ROOM, "%s.%016" PRIx64, j->name, offset);
}

static void drop_oldest(struct journal *j) {
  char name[NAME_ROOM];
  segment_name(j, j->kept[0], name);
  unlinkat(j->directory, name, 0);
  j->kept_count--;
  memmove(j->kept, j->kept + 1, j->kept_count * sizeof j->kept[0]);
}

/* the segment being written holds a record that cannot be taken back */
static void drop_newest(struct journal *j) {
  char name[NAME_ROOM];
  segment_name(j, j->kept[--j->kept_count], name);
  unlinkat(j->directory, name, 0);
}

/* the segment after the oldest begins where the oldest ends */
static bool may_drop_oldest(const struct journal *j) { return j->kept[1] <= j->spare; }

static bool begin_segment(struct journal *j) {
  /* the last output of a process that has ended does not wait, and may have taken the place beyond the bound before */
  if (j->kept_count > JOURNAL_SEGMENTS) drop_oldest(j);
  char name[NAME_ROOM];
  segment_name(j, j->end, name);
  j->segment = openat(j->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  j->segment_size = 0;
  if (j->segment < 0) return false;
  /* a full disk may have begun a segment here before */
  if (j->kept_count == 0 || j->kept[j->kept_count - 1] != j->end) j->kept[j->kept_count++] = j->end;
  return true;
}

static bool write_whole(int fd, const uint8_t *data, size_t length) {
  while (length > 0) {
    ssize_t n = write(fd, data, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    length -= (size_t)n;
  }
  return true;
}

/* the bound counts output; heads may take as much again, or a program that prints byte by byte would fill the disk */
static bool has_room(const struct journal *j, size_t length) {
  uint64_t most = j->bound / JOURNAL_SEGMENTS, begin = j->kept[j->kept_count - 1];
  return j->end + length - begin <= most && j->segment_size + JOURNAL_HEAD + length <= 2 * most;
}

bool journal_is_full(const struct journal *j) {
  if (j->kept_count < JOURNAL_SEGMENTS || may_drop_oldest(j)) return false;
  return j->segment < 0 || !has_room(j, JOURNAL_RECORD);
}

void journal_append(struct journal *j, enum journal_stream stream, uint8_t *buffer, size_t length) {
  if (length == 0) return;
  if (j->segment >= 0 && !has_room(j, length)) journal_close(j);
  buffer[0] = (uint8_t)stream;
  for (int i = 0; i < 4; i++) buffer[1 + i] = (uint8_t)(length >> (8 * i));
  if (j->segment >= 0 || begin_segment(j)) {
    if (write_whole(j->segment, buffer, JOURNAL_HEAD + length)) {
      j->segment_size += JOURNAL_HEAD + length;
      /* The new segment is there before the oldest goes, so that a reader always finds one to go on from. */
      if (j->kept_count > JOURNAL_SEGMENTS && may_drop_oldest(j)) drop_oldest(j);
    } else {
      /* The disk is full: take back what was half written; the next segment's name tells what is missing. */
      if (j->segment_size == 0 || ftruncate(j->segment, (off_t)j->segment_size) < 0) drop_newest(j);
      journal_close(j);
    }
  }
  j->end += length;
}

int journal_note(const struct journal *j, struct writer *w) {
  char name[NAME_ROOM];
  snprintf(name, sizeof name, "%s.info", j->name);
  int error = ENOMEM;
  if (frame_end(w)) {
    int fd = openat(j->directory, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    error = fd < 0 ? errno : 0;
    if (fd >= 0 && !write_whole(fd, w->data, w->length)) error = errno ? errno : EIO;
    if (fd >= 0) close(fd);
  }
  writer_free(w);
  return error;
}

void journal_discard(struct journal *j) {
  journal_close(j);
  while (j->kept_count > 0) drop_oldest(j);
  char name[NAME_ROOM];
  snprintf(name, sizeof name, "%s.info", j->name);
  unlinkat(j->directory, name, 0);
}
