/*
 * journal.h: the output of one command on disk, outside of the sandbox's view.
 *
 * src/protocols/output-journal.ts says the same. In the machine's journal directory a command "c" has
 *
 *   c.info              frames (wire.h): first STARTED, once it has ended EXITED
 *   c.<offset>          a segment: records of output; its name ends in the offset of its first byte, 16 hex digits
 *
 * A record:
 *
 *   offset  size  what
 *   0       1     u8  stream: 1 standard output, 2 standard error, 3 terminal
 *   1       4     u32 length, little-endian, at most JOURNAL_RECORD
 *   5       n     the bytes
 *
 * Offsets count the bytes of all streams together, without the records' heads. A segment is complete when a later one
 * exists; its last record may be cut short while it is being written. When the segments together pass the command's
 * bound the oldest are deleted, unless a reader still needs them: then the command waits (command.h). Where a disk is
 * full what could not be written is left out. In both cases the next segment's name says where the output goes on.
 */
#ifndef SANDKEEP_JOURNAL_H
#define SANDKEEP_JOURNAL_H

#include <stdint.h>
#include <stddef.h>

#include "shared/wire.h"

#define JOURNAL_RECORD (64u << 10)
#define JOURNAL_HEAD 5
#define JOURNAL_SEGMENTS 8
/* u32 pid, u64 started at (ms since 1970), u32 flags, u64 bound, str user, str cwd, list argv */
#define JOURNAL_STARTED 1
/* u32 code, u32 signal, u32 flags, u64 cpu us, u64 peak bytes, u64 end, u64 exited at (ms since 1970) */
#define JOURNAL_EXITED 2

enum journal_stream { JOURNAL_STDOUT = 1, JOURNAL_STDERR = 2, JOURNAL_PTY = 3 };

struct journal {
  int directory;
  char name[80];
  uint64_t bound;
  /* output before this offset may be deleted to make room */
  uint64_t spare;
  /* end of all output so far, written or dropped */
  uint64_t end;
  /* the segment being written; -1 when the next byte begins a new one */
  int segment;
  uint64_t segment_size;
  /* first offsets of the segments kept, oldest first; the last is being written */
  uint64_t kept[JOURNAL_SEGMENTS + 1];
  size_t kept_count;
};

/* command is a plain name, checked by the caller */
void journal_open(struct journal *j, int directory, const char *command, uint64_t bound);
void journal_close(struct journal *j);
/* whether there is one already, of a command that ended or of one that runs */
bool journal_exists(int directory, struct span command);
/* whether one more record might delete output that may not go yet */
bool journal_is_full(const struct journal *j);
/* buffer holds JOURNAL_HEAD bytes of room and then `length` bytes of output, at most JOURNAL_RECORD */
void journal_append(struct journal *j, enum journal_stream stream, uint8_t *buffer, size_t length);
/* appends a frame to c.info, ends and frees it; 0 or errno */
int journal_note(const struct journal *j, struct writer *w);
/* removes everything of the command */
void journal_discard(struct journal *j);

#endif
