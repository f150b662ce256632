/*
 * wire.h: the frames that the daemon, the launcher and the agents exchange over unix stream sockets.
 *
 * The TypeScript side is src/protocols/guest-frames.ts; both are tested against guest/vectors.txt.
 *
 * A frame, every number little-endian:
 *
 *   offset  size  what
 *   0       4     u32 length of the payload, at most WIRE_MAX_PAYLOAD
 *   4       1     u8  type
 *   5       4     u32 id: a request's number, repeated in its answers; 0 for events
 *   9       n     payload
 *
 * Inside a payload the fields follow each other without padding:
 *
 *   u8 u16 u32 u64   1, 2, 4, 8 bytes
 *   str              u32 length, then that many bytes; no NUL among them, none at the end
 *   bytes            u32 length, then that many bytes of anything
 *   list             u16 count, then that many str
 *
 * A payload must be consumed to its last byte: one that is shorter or longer than its fields is malformed. The
 * answer is FAIL (EBADMSG). A sender whose frame is longer than the maximum is disconnected.
 */
#ifndef SANDKEEP_WIRE_H
#define SANDKEEP_WIRE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION 1
#define WIRE_SIGNAL_ALONE 0x100u
#define WIRE_HEADER 9
#define WIRE_MAX_PAYLOAD (1u << 20)
/* the largest piece of a stream that either side puts into one DATA frame */
#define WIRE_CHUNK (128u << 10)

enum wire_type {
  /* Answers, on every kind of connection */
  WIRE_OK = 1,   /* what it holds depends on the request; often nothing */
  WIRE_FAIL = 2, /* u32 errno, u8 what (enum wire_what), str sentence */
  WIRE_DATA = 3, /* raw bytes: the whole payload */
  WIRE_END = 4,  /* nothing: a stream of DATA or ENTRY frames is complete */

  /* Any connection */
  WIRE_HELLO = 8, /* u32 version -> OK { u32 version, u32 pid of who answers } */
  WIRE_PING = 9,  /* -> OK */

  /* Agent, control connection */
  WIRE_EXEC = 16,        /* see agent.c -> OK { u32 pid } */
  WIRE_STDIN = 17,       /* str command, bytes data -> OK once the command's pipe has taken all of it */
  WIRE_STDIN_CLOSE = 18, /* str command -> OK */
  WIRE_SIGNAL = 19,      /* str command, u32 signal, with WIRE_SIGNAL_ALONE not to the whole group -> OK */
  WIRE_RESIZE = 20,      /* str command, u16 rows, u16 columns -> OK */
  WIRE_COMMANDS = 21,    /* -> OK { u32 count, then count x { str command, u32 pid, u64 end } }: what runs now */
  /* str command, u64 offset, bytes data -> OK { u64 given } once the pipe has taken everything up to the end of `data`.
     What was accepted before is not written again, so a request may be sent twice */
  WIRE_STDIN_AT = 22,
  WIRE_STDIN_GIVEN = 23, /* str command -> OK { u64 given }: bytes of standard input that the pipe has taken so far */
  WIRE_GREW = 24,        /* event: str command, u64 end offset of its output */
  WIRE_EXIT = 25,        /* event: str command, u32 code, u32 signal, u32 flags, u64 cpu us, u64 peak bytes, u64 end */
  /* str command, u64 offset -> OK: output before the offset may be deleted when the journal is full, later output not
     before this connection says so, too, or ends */
  WIRE_SPARE = 27,
  WIRE_FILTERS = 26,     /* u32 most -> OK: how many filters of system calls programs may have now (filters.h) */

  /* Files: a connection of its own, begun by FILES (agent) or FILES_AT (launcher); see files.c */
  WIRE_FILES = 32, /* str user -> OK; then file requests, one after the other */
  WIRE_READ = 33,
  WIRE_WRITE = 34,
  WIRE_STAT = 35,
  WIRE_LIST = 36,
  WIRE_MKDIR = 37,
  WIRE_MOVE = 38,
  WIRE_REMOVE = 39,
  WIRE_CHMOD = 40,
  WIRE_CHOWN = 41,
  WIRE_SYMLINK = 42,
  WIRE_LINK = 43,
  WIRE_UTIME = 44,
  WIRE_WATCH = 45,
  WIRE_WALK = 46,
  WIRE_WHITEOUT = 47, /* FILES_AT only */
  WIRE_SETXATTR = 48,
  WIRE_ENTRY = 49,    /* answer to STAT, LIST, WALK: one file's facts */
  WIRE_CHANGED = 50,  /* answer to WATCH: one change */
  WIRE_USAGE = 51,    /* FILES_AT only: bytes and inodes below a path */
  WIRE_FIFO = 52,     /* makes a named pipe: an archive or a layer may hold one */

  /* Agent: a connection that becomes a byte stream to a port inside */
  WIRE_DIAL = 64, /* u16 port -> OK, then raw bytes both ways */

  /* Agent: a connection of its own, begun by HOLDERS; see holder.h */
  WIRE_HOLDERS = 65, /* -> OK; then HOLDER requests, one after the other */
  WIRE_HOLDER = 66,

  /* Launcher; see launch.c */
  WIRE_PREPARE = 96,
  WIRE_ACTIVATE = 97,
  WIRE_KILL = 98,
  WIRE_NETWORK = 99,
  WIRE_COUNTERS = 100,
  WIRE_MACHINES = 101,
  WIRE_VOLUME_CREATE = 102,
  WIRE_VOLUME_SNAPSHOT = 103,
  WIRE_VOLUME_DELETE = 104,
  WIRE_VOLUME_LIMIT = 105,
  WIRE_FILES_AT = 106, /* str directory -> OK; then file requests below it, as root, chrooted there */
  WIRE_FLATTEN = 107,
  WIRE_READOPT = 108,
  WIRE_SHUTDOWN = 109,
  WIRE_VOLUME_USAGE = 110,
  WIRE_WRITES = 111,
  WIRE_SYNC = 112,
  WIRE_VOLUME_LINE = 113,
  WIRE_VOLUME_FORGET = 114,
  WIRE_VOLUME_COPY = 115,
  WIRE_KILL_COUNT = 116,
};

/* What was wrong in a FAIL: lets the reader tell apart errors whose errno is the same. */
enum wire_what {
  WIRE_WHAT_REQUEST = 0, /* the request itself */
  WIRE_WHAT_USER = 1,
  WIRE_WHAT_CWD = 2,
  WIRE_WHAT_EXECUTABLE = 3,
  WIRE_WHAT_PATH = 4,
  WIRE_WHAT_LAYER = 5,
  WIRE_WHAT_SYSTEM = 6, /* the kernel refused something we need */
};

/* Reads fields out of a payload. Once a read runs past the end, `bad` stays set and every value is zero. */
struct reader {
  const uint8_t *at;
  const uint8_t *end;
  bool bad;
};

/* A str or bytes field: points into the payload. */
struct span {
  const char *data;
  uint32_t length;
};

struct reader reader_of(const void *payload, size_t length);
uint8_t read_u8(struct reader *r);
uint16_t read_u16(struct reader *r);
uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);
struct span read_bytes(struct reader *r);
/* as read_bytes, but a NUL among them is malformed */
struct span read_str(struct reader *r);
/* whether it can be an id: 1 to 64 of A-Z a-z 0-9 _ - */
bool plain_name(struct span s);
/* true when every read succeeded and nothing is left over */
bool reader_done(const struct reader *r);
/* copies a str to a fresh NUL-terminated string; NULL when malformed or out of memory; free() it */
char *read_string(struct reader *r);
/* a NULL-terminated array of fresh strings; NULL when malformed; free with free_list() */
char **read_list(struct reader *r);
void free_list(char **list);

/* Builds a frame in memory. Once an allocation fails or the payload is too long, `bad` stays set. */
struct writer {
  uint8_t *data;
  size_t length;
  size_t room;
  bool bad;
};

/* begins a frame; finish with frame_end(), then send data[0..length) and writer_free() */
struct writer frame_begin(enum wire_type type, uint32_t id);
void write_u8(struct writer *w, uint8_t v);
void write_u16(struct writer *w, uint16_t v);
void write_u32(struct writer *w, uint32_t v);
void write_u64(struct writer *w, uint64_t v);
void write_raw(struct writer *w, const void *data, size_t length);
void write_bytes(struct writer *w, const void *data, size_t length);
void write_str(struct writer *w, const char *s);
/* fills in the length; false if anything went wrong */
bool frame_end(struct writer *w);
/* begins a FAIL with all that it says; sentence is printf-like */
struct writer fail_frame(uint32_t id, int error, enum wire_what what, const char *sentence, va_list args)
    __attribute__((format(printf, 4, 0)));
void writer_free(struct writer *w);

/* Parses a header. Returns 0, or EMSGSIZE when the payload would be too long. */
struct header {
  uint32_t length;
  uint8_t type;
  uint32_t id;
};
int parse_header(const uint8_t bytes[WIRE_HEADER], struct header *out);

/*
 * Blocking helpers, for the processes that own one connection each (files, dial) and for tests.
 * All return 0 or an errno; EPIPE when the other side is gone.
 */
int send_all(int fd, const void *data, size_t length);
int recv_all(int fd, void *data, size_t length);
/* receives one frame; *payload is malloc()ed (never NULL on success), free() it */
int recv_frame(int fd, struct header *header, uint8_t **payload);
int send_frame(int fd, struct writer *w); /* ends, sends and frees it */
int send_ok(int fd, uint32_t id);
/* sentence is printf-like */
int send_fail(int fd, uint32_t id, int error, enum wire_what what, const char *sentence, ...)
    __attribute__((format(printf, 5, 6)));
int send_data(int fd, uint32_t id, const void *data, size_t length);

#endif
