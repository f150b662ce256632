/* command_output.c: moves the output of commands into their journals, as fast as the readers allow; see command.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/command.h"

/* output taken after the process has ended: as much as its pipes can hold, so that a process it left cannot delay us */
#define LAST_WORDS (1u << 20)

/* what was read last; processes that the agent forks for other commands do not get a copy */
static uint8_t *output_buffer(void) {
  static uint8_t *buffer;
  if (buffer) return buffer;
  void *pages = mmap(NULL, JOURNAL_HEAD + JOURNAL_RECORD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  madvise(pages, JOURNAL_HEAD + JOURNAL_RECORD, MADV_WIPEONFORK);
  buffer = pages;
  return buffer;
}

/* moves at most one record from the stream to the journal; false when there is nothing more now */
static bool take_output(struct command_stream *s) {
  uint8_t *buffer = output_buffer();
  if (!buffer) return false;
  ssize_t n = read(s->source.fd, buffer + JOURNAL_HEAD, JOURNAL_RECORD);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) { /* EIO is how a terminal says that its last user has gone */
    command_close(s);
    return false;
  }
  journal_append(&s->command->journal, s->stream, buffer, (size_t)n);
  s->command->grew = true;
  return true;
}

/* listens for output, unless it is held, and for a terminal that takes input */
void command_watch_output(struct command *c) {
  /* once: a pipe whose writers have gone is ready for ever */
  uint32_t events = c->held ? EPOLLONESHOT : EPOLLIN;
  if (c->err.source.fd >= 0) loop_change(&c->err.source, events);
  if (c->terminal && (c->inputs || c->input_ends)) events = c->held ? EPOLLOUT : EPOLLIN | EPOLLOUT;
  if (c->out.source.fd >= 0) loop_change(&c->out.source, events);
}

static void hold_output(struct command *c, bool held) {
  if (c->held == held) return;
  c->held = held;
  command_watch_output(c);
}

void command_need_from(struct command *c, uint64_t offset) {
  c->journal.spare = offset;
  hold_output(c, journal_is_full(&c->journal));
}

void command_drain(struct command_stream *s) {
  for (size_t taken = 0; s->source.fd >= 0 && taken < LAST_WORDS; taken += JOURNAL_RECORD) {
    if (!take_output(s)) return;
  }
}

void command_on_output(struct source *source, uint32_t events) {
  struct command_stream *s = (struct command_stream *)source;
  if (s->command->terminal && (events & EPOLLOUT)) command_give_input(s->command);
  if (s->source.fd < 0 || s->command->held || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  if (journal_is_full(&s->command->journal)) hold_output(s->command, true);
  else take_output(s);
}

void command_spare(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  uint64_t offset = read_u64(r);
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  c->keeper = from;
  command_need_from(c, offset);
  connection_ok(from, id);
}
