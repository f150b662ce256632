/* command_input.c: what callers write to a command's standard input or terminal, held until the command takes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/command.h"

/* standard input that may wait for a command, in bytes; a piece counts as this much at least, so that many small ones
   have a bound too */
#define INPUT_BOUND (4u << 20)
#define INPUT_LEAST (4u << 10)

static size_t weight(size_t length) { return length < INPUT_LEAST ? INPUT_LEAST : length; }

static void answer_given(const struct command *c, struct connection *to, uint32_t id) {
  struct writer w = frame_begin(WIRE_OK, id);
  write_u64(&w, c->input_given);
  connection_send(to, &w);
}

static void answer_input(const struct command *c, struct input *i, int error) {
  if (i->from && error) connection_fail(i->from, i->id, error, WIRE_WHAT_REQUEST, "Cannot write to the command: %s", strerror(error));
  else if (i->from && i->counted) answer_given(c, i->from, i->id);
  else if (i->from) connection_ok(i->from, i->id);
  explicit_bzero(i->data, i->length);
  free(i);
}

void command_refuse_input(struct command *c, int error) {
  while (c->inputs) {
    struct input *i = c->inputs;
    c->inputs = i->next;
    answer_input(c, i, error);
  }
  c->input_length = 0;
}

static void end_input(struct command *c) {
  if (!c->terminal) {
    command_close(&c->in);
    return;
  }
  /* a terminal has no end: what a person would type for it is Control-D */
  if (c->out.source.fd >= 0 && write(c->out.source.fd, "\004", 1) < 0) return;
  c->input_ends = false;
}

static int input_fd(const struct command *c) { return c->terminal ? c->out.source.fd : c->in.source.fd; }

static void watch_input(struct command *c) {
  bool waiting = c->inputs || c->input_ends;
  if (c->terminal) {
    command_watch_output(c);
  } else if (c->in.source.fd >= 0) {
    loop_change(&c->in.source, waiting ? EPOLLOUT : 0);
  }
}

/* writes what the command takes now */
void command_give_input(struct command *c) {
  while (c->inputs) {
    struct input *i = c->inputs;
    ssize_t n = i->length == 0 ? 0 : write(input_fd(c), i->data + i->at, i->length - i->at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      command_refuse_input(c, EPIPE);
      if (!c->terminal) command_close(&c->in);
      return;
    }
    i->at += (size_t)n;
    c->input_given += (uint64_t)n;
    if (i->at < i->length) continue;
    c->inputs = i->next;
    c->input_length -= weight(i->length);
    answer_input(c, i, 0);
  }
  if (!c->inputs && c->input_ends) end_input(c);
  watch_input(c);
}

/* queues the data, which is answered when the pipe has taken all that is queued */
static void accept_input(struct command *c, struct connection *from, uint32_t id, struct span data, bool counted) {
  if (input_fd(c) < 0 || c->input_ends) {
    connection_fail(from, id, EPIPE, WIRE_WHAT_REQUEST, "Cannot write to the command: its standard input is closed");
    return;
  }
  struct input *i = c->input_length + weight(data.length) > INPUT_BOUND ? NULL : malloc(sizeof *i + data.length);
  if (!i) {
    connection_fail(from, id, EAGAIN, WIRE_WHAT_REQUEST, "Cannot write to the command: it does not read what it was sent");
    return;
  }
  *i = (struct input){.next = NULL, .from = from, .id = id, .counted = counted, .length = data.length, .at = 0};
  if (data.length > 0) memcpy(i->data, data.data, data.length);
  struct input **last = &c->inputs;
  while (*last) last = &(*last)->next;
  *last = i;
  c->input_length += weight(data.length);
  c->input_accepted += data.length;
  command_give_input(c);
}

void command_stdin(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  struct span data = read_bytes(r);
  struct command *c = command_named(all, from, id, r, name);
  if (c) accept_input(c, from, id, data, false);
}

void command_stdin_at(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  uint64_t offset = read_u64(r);
  struct span data = read_bytes(r);
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  if (offset > c->input_accepted) {
    connection_fail(from, id, EINVAL, WIRE_WHAT_REQUEST, "Cannot write to the command at byte %llu: it was sent %llu so far",
                    (unsigned long long)offset, (unsigned long long)c->input_accepted);
    return;
  }
  uint64_t known = c->input_accepted - offset;
  size_t skipped = known < data.length ? (size_t)known : data.length;
  accept_input(c, from, id, (struct span){data.data + skipped, data.length - skipped}, true);
}

void command_stdin_given(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  if (input_fd(c) < 0)
    connection_fail(from, id, EPIPE, WIRE_WHAT_REQUEST, "Cannot write to the command: its standard input is closed");
  else answer_given(c, from, id);
}

void command_stdin_close(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  c->input_ends = true;
  if (input_fd(c) >= 0) command_give_input(c);
  connection_ok(from, id);
}
