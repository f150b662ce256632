/* holder_client.c: see holder_client.h. What is heard comes from a sandbox, so it is checked before it goes on. */
#define _GNU_SOURCE
#include "netd/holder_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "egress/egress.h"
#include "shared/connection.h"
#include "shared/hex.h"

/* ms of time that a question of one sandbox costs, and that can be saved up: 100 a second, 200 at once */
#define COST 10
#define CREDIT 2000
/* how long an agent may be silent, asked or not, and how long one is left alone that has cut us off, in ms */
#define SILENCE 10000
#define PAUSE 5000
/* of an answer: ancestors, and bytes of a name */
#define ANCESTORS 64
#define PROGRAM 64

static struct connection *connections;
static uint32_t serial;

/* ---- answers ---- */

/* "[pid,session,start],…"; false where the frame holds no such thing */
static bool ancestry_text(struct reader *r, char *out, size_t room) {
  uint16_t count = read_u16(r);
  if (count == 0 || count > ANCESTORS) return false;
  size_t at = 0;
  for (uint16_t i = 0; i < count; i++) {
    uint32_t pid = read_u32(r), session = read_u32(r);
    uint64_t start = read_u64(r);
    int n = snprintf(out + at, room - at, "%s[%" PRIu32 ",%" PRIu32 ",%" PRIu64 "]", i ? "," : "", pid, session, start);
    if (n < 0 || (size_t)n >= room - at) return false;
    at += (size_t)n;
  }
  return reader_done(r);
}

/* in hex, since it may hold anything */
static void program_text(struct span program, char out[2 * PROGRAM + 1]) {
  hex_text((const uint8_t *)program.data, program.length < PROGRAM ? program.length : PROGRAM, out);
}

static void pass_on(uint32_t question, struct reader *r) {
  char program[2 * PROGRAM + 1], ancestry[ANCESTORS * 48];
  program_text(read_str(r), program);
  if (!ancestry_text(r, ancestry, sizeof ancestry)) {
    program[0] = 0;
    ancestry[0] = 0;
  }
  egress_say(-1, "{\"kind\":\"holder\",\"id\":%" PRIu32 ",\"program\":\"%s\",\"ancestry\":[%s]}", question, program, ancestry);
}

/* whether it is the answer that comes next: numbers are of all sandboxes, and none may answer what another was asked */
static bool is_next(struct holders *holders, uint32_t number) {
  if (!holders->greeted) return number == 0;
  if (!holders->waiting || holders->asked[holders->first].number != number) return false;
  holders->first = (holders->first + 1) % HOLDERS_WAITING;
  holders->waiting--;
  return true;
}

static void on_frame(struct connection *c, const struct header *header, const uint8_t *payload) {
  struct holders *holders = c->owner;
  if (!holders) return;
  holders->last_heard = loop_now();
  /* the first answer is to HOLDERS itself, and a refusal of that is one of all */
  if (header->type != WIRE_OK || !is_next(holders, header->id)) {
    connection_end(c);
    return;
  }
  if (!holders->greeted) {
    holders->greeted = true;
    return;
  }
  struct reader r = reader_of(payload, header->length);
  pass_on(header->id, &r);
}

static void on_closed(struct connection *c) {
  struct holders *holders = c->owner;
  if (!holders) return;
  holders->connection = NULL;
  holders->waiting = 0;
  holders->not_before = loop_now() + PAUSE;
}

static const struct connection_handlers handlers = {.frame = on_frame, .closed = on_closed};

/* ---- questions ---- */

static void send_question(struct holders *holders, struct holder_question question) {
  struct writer w = frame_begin(WIRE_HOLDER, question.number);
  write_u64(&w, question.inode);
  connection_send(holders->connection, &w);
}

/* there is a connection, or will be soon */
static bool is_reachable(struct holders *holders) {
  if (holders->connection) return !holders->connection->dead;
  if (holders->calling) return true;
  if (loop_now() < holders->not_before) return false;
  holders->not_before = loop_now() + PAUSE;
  if (holders->call(holders->machine)) return false;
  holders->calling = true;
  holders->last_heard = loop_now();
  return true;
}

void holders_connect(struct holders *holders, int fd) {
  bool called = holders->calling;
  holders->calling = false;
  struct connection *c = called && fd >= 0 ? connection_open(fd, &handlers, &connections) : NULL;
  if (!c) {
    if (!called && fd >= 0) close(fd);
    if (called) holders->waiting = 0;
    return;
  }
  c->owner = holders;
  c->streaming = true;
  holders->connection = c;
  holders->greeted = false;
  holders->last_heard = loop_now();
  for (unsigned i = 0; i < holders->waiting; i++) {
    send_question(holders, holders->asked[(holders->first + i) % HOLDERS_WAITING]);
  }
}

static bool may_ask(struct holders *holders) {
  int64_t now = loop_now();
  holders->credit += now - holders->earned;
  holders->earned = now;
  if (holders->credit > CREDIT) holders->credit = CREDIT;
  if (holders->waiting >= HOLDERS_WAITING || holders->credit < COST) return false;
  holders->credit -= COST;
  return true;
}

void holders_open(struct holders *holders, const char *machine, int (*call)(const char *machine)) {
  *holders = (struct holders){.machine = machine, .call = call, .credit = CREDIT, .earned = loop_now()};
}

static void let_go(struct holders *holders) {
  holders->calling = false;
  holders->waiting = 0;
  if (!holders->connection) return;
  holders->connection->owner = NULL;
  connection_end(holders->connection);
  holders->connection = NULL;
}

void holders_close(struct holders *holders) {
  let_go(holders);
  holders->machine = NULL;
}

uint32_t holders_ask(struct holders *holders, uint32_t inode) {
  if (!inode || !holders->machine || !may_ask(holders) || !is_reachable(holders)) return 0;
  if (++serial == 0) serial = 1;
  struct holder_question question = {.number = serial, .inode = inode};
  /* Silence counts from here: until now there was nothing to say. */
  if (!holders->waiting) holders->last_heard = loop_now();
  holders->asked[(holders->first + holders->waiting++) % HOLDERS_WAITING] = question;
  if (holders->connection) send_question(holders, question);
  return serial;
}

void holders_expire(struct holders *holders, int64_t now) {
  if ((!holders->connection && !holders->calling) || now - holders->last_heard < SILENCE) return;
  holders->not_before = holders->waiting ? now + PAUSE : now;
  let_go(holders);
}

void holders_sweep(void) { connections_sweep(&connections); }

bool holders_connected(void) { return connections != NULL; }
