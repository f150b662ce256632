/* command.c: starts commands and tells how they ended; see command.h. */
#define _GNU_SOURCE
#include "agent/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ends.h"

static struct commands *owner;

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* how many processes of this sandbox the kernel has killed for memory */
static uint64_t memory_kills(const struct commands *all) {
  char text[512];
  ssize_t n = all->memory_events < 0 ? 0 : pread(all->memory_events, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  text[n] = 0;
  const char *at = strstr(text, "oom_kill ");
  return at ? strtoull(at + strlen("oom_kill "), NULL, 10) : 0;
}

static struct command *find(struct commands *all, struct span name) {
  for (struct command *c = all->first; c; c = c->next) {
    if (c->state != COMMAND_ENDED && strlen(c->name) == name.length && memcmp(c->name, name.data, name.length) == 0) {
      return c;
    }
  }
  return NULL;
}

void command_close(struct command_stream *s) {
  if (s->source.fd < 0) return;
  loop_remove(&s->source);
  close(s->source.fd);
  s->source.fd = -1;
}

static void close_peer(struct command *c) {
  if (c->peer >= 0) close(c->peer);
  c->peer = -1;
}

/* ---- the loop's calls ---- */

static void on_input(struct source *source, uint32_t events) {
  struct command_stream *s = (struct command_stream *)source;
  if (events & EPOLLERR) { /* it will never be read */
    command_refuse_input(s->command, EPIPE);
    command_close(s);
  } else {
    command_give_input(s->command);
  }
}

void command_write_exit(struct writer *w, const struct command *c, uint32_t code, uint32_t signal) {
  uint64_t cpu = (uint64_t)(c->usage.ru_utime.tv_sec + c->usage.ru_stime.tv_sec) * 1000000 +
                 (uint64_t)(c->usage.ru_utime.tv_usec + c->usage.ru_stime.tv_usec);
  write_u32(w, code);
  write_u32(w, signal);
  write_u32(w, c->flags);
  write_u64(w, cpu);
  write_u64(w, (uint64_t)c->usage.ru_maxrss * 1024);
  write_u64(w, c->journal.end);
}

/* records and announces the end, once the process is gone and its program had begun */
static void finish(struct command *c) {
  command_drain(&c->out);
  command_drain(&c->err);
  close_peer(c);
  c->keeper = NULL;
  uint32_t signal = WIFSIGNALED(c->wait_status) ? (uint32_t)WTERMSIG(c->wait_status) : 0;
  uint32_t code = signal ? 128 + signal : (uint32_t)WEXITSTATUS(c->wait_status);
  /* a shell whose child was killed exits with the same code as one that was killed itself */
  if (code == 128 + SIGKILL && memory_kills(owner) > c->kills_before) c->flags |= COMMAND_OUT_OF_MEMORY;
  struct writer w = frame_begin((enum wire_type)JOURNAL_EXITED, 0);
  command_write_exit(&w, c, code, signal);
  write_u64(&w, now_ms());
  journal_note(&c->journal, &w);
  c->state = COMMAND_ENDED;
  c->deadline = 0;
  command_refuse_input(c, EPIPE);
  if (!c->terminal) command_close(&c->in);
  owner->ended(c, code, signal);
  command_need_from(c, UINT64_MAX);
}

static const char *spawn_sentence(const struct spawn_failure *f) {
  if (f->what == WIRE_WHAT_USER && f->error == ENOENT) return "there is no such user or group";
  if (f->what == WIRE_WHAT_USER && f->error == E2BIG) return "they are more groups than a user may have here";
  if (f->what == WIRE_WHAT_CWD && f->error == EINVAL) return "the working directory is not absolute";
  if (f->what == WIRE_WHAT_CWD && f->error == ENOENT) return "the working directory does not exist";
  if (f->what == WIRE_WHAT_CWD && f->error == ENOTDIR) return "the working directory is not a directory";
  if (f->what == WIRE_WHAT_CWD && f->error == EACCES) return "the user may not enter the working directory";
  if (f->what == WIRE_WHAT_EXECUTABLE && f->error == ENOENT) return "the executable or its interpreter was not found";
  if (f->what == WIRE_WHAT_EXECUTABLE && f->error == EACCES) return "the file is not executable";
  if (f->what == WIRE_WHAT_EXECUTABLE && f->error == EISDIR) return "it is a directory";
  return strerror(f->error);
}

static void abandon(struct command *c) {
  c->state = COMMAND_ENDED;
  c->deadline = 0;
  close_peer(c);
  command_close(&c->out);
  command_close(&c->err);
  command_close(&c->in);
  command_refuse_input(c, EPIPE);
  journal_discard(&c->journal);
}

/* the status pipe says what failed, or closes because the program runs */
static void on_status(struct source *source, uint32_t events) {
  (void)events;
  struct command_stream *s = (struct command_stream *)source;
  struct command *c = s->command;
  struct spawn_failure failure;
  ssize_t n = read(s->source.fd, &failure, sizeof failure);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  command_close(s);
  if (n == (ssize_t)sizeof failure) {
    abandon(c); /* first: the caller may use the id again as soon as it gets the failure */
    if (c->asker) connection_fail(c->asker, c->asker_id, failure.error, failure.what, "%s", spawn_sentence(&failure));
    return;
  }
  c->state = COMMAND_RUNNING;
  if (c->asker) {
    struct writer w = frame_begin(WIRE_OK, c->asker_id);
    write_u32(&w, (uint32_t)c->pid);
    connection_send(c->asker, &w);
    c->asker = NULL;
  }
  if (c->waited) finish(c);
}

/* ---- starting ---- */

static int adopt(struct command *c, struct command_stream *s, int *fd, uint32_t events, void (*ready)(struct source *, uint32_t)) {
  if (*fd < 0) return 0;
  fcntl(*fd, F_SETFL, O_NONBLOCK | (fcntl(*fd, F_GETFL) & O_ACCMODE));
  s->command = c;
  int error = loop_add(&s->source, *fd, events, ready);
  if (error) s->source.fd = -1;
  else *fd = -1; /* the stream owns it now */
  return error;
}

static int note_start(struct command *c, const struct spawn *s, uint32_t flags) {
  struct writer w = frame_begin((enum wire_type)JOURNAL_STARTED, 0);
  write_u32(&w, (uint32_t)c->pid);
  write_u64(&w, now_ms());
  write_u32(&w, flags);
  write_u64(&w, c->journal.bound);
  write_str(&w, s->user);
  write_str(&w, s->cwd);
  uint16_t count = 0;
  while (s->argv[count]) count++;
  write_u16(&w, count);
  for (uint16_t i = 0; i < count; i++) write_str(&w, s->argv[i]);
  return journal_note(&c->journal, &w);
}

static int start(struct commands *all, struct command *c, struct spawn *s, uint32_t flags, uint16_t rows, uint16_t columns) {
  struct ends e = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
  c->terminal = flags & COMMAND_PTY;
  int error = c->terminal ? ends_terminal(&e, rows, columns) : ends_pipes(&e, flags & COMMAND_STDIN);
  if (!error && pipe2(e.status, O_CLOEXEC) < 0) error = errno;
  if (!error) {
    s->out = e.out[1];
    s->in = c->terminal ? e.out[1] : e.in[0];
    s->err = c->terminal ? e.out[1] : e.err[1];
    s->terminal = c->terminal ? e.out[1] : -1;
    s->status = e.status[1];
    c->kills_before = memory_kills(all);
    c->pid = fork();
    if (c->pid == 0) spawn_child(s);
    if (c->pid < 0) error = errno;
  }
  if (!error) error = note_start(c, s, flags);
  if (c->terminal) {
    c->peer = e.out[1];
    e.out[1] = -1;
  }
  c->out.stream = c->terminal ? JOURNAL_PTY : JOURNAL_STDOUT;
  c->err.stream = JOURNAL_STDERR;
  if (!error) error = adopt(c, &c->out, &e.out[0], EPOLLIN, command_on_output);
  if (!error) error = adopt(c, &c->err, &e.err[0], EPOLLIN, command_on_output);
  if (!error) error = adopt(c, &c->in, &e.in[1], 0, on_input);
  if (!error) error = adopt(c, &c->status, &e.status[0], EPOLLIN, on_status);
  ends_close(&e);
  if (error && c->pid > 0) kill(c->pid, SIGKILL);
  return error;
}

static struct command *fresh(struct commands *all, struct span name, uint64_t bound, uint32_t limit) {
  struct command *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  memcpy(c->name, name.data, name.length);
  c->out.source.fd = c->err.source.fd = c->in.source.fd = c->status.source.fd = c->peer = -1;
  c->limited_at = loop_now();
  if (limit) c->deadline = c->limited_at + limit;
  journal_open(&c->journal, all->journal_directory, c->name, bound);
  c->next = all->first;
  all->first = c;
  owner = all;
  return c;
}

void command_exec(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  uint32_t flags = read_u32(r);
  uint16_t rows = read_u16(r), columns = read_u16(r);
  uint32_t limit = read_u32(r);
  uint64_t bound = read_u64(r);
  struct spawn s = {0};
  s.user = read_string(r);
  s.groups = read_list(r);
  s.cwd = read_string(r);
  s.argv = read_list(r);
  s.env = read_list(r);
  if (!reader_done(r) || !plain_name(name) || !s.argv[0]) {
    connection_fail(from, id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot run the command: the request is malformed");
  } else if (find(all, name) || journal_exists(all->journal_directory, name)) {
    connection_fail(from, id, EEXIST, WIRE_WHAT_REQUEST, "Cannot run the command: its id was used before");
  } else {
    struct command *c = fresh(all, name, bound, limit);
    int error = c ? start(all, c, &s, flags, rows, columns) : ENOMEM;
    if (error) {
      if (c) abandon(c);
      connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot run the command: %s", strerror(error));
    } else {
      c->asker = from;
      c->asker_id = id;
      if (flags & COMMAND_KEEP) {
        c->keeper = from;
        c->journal.spare = 0;
      }
    }
  }
  spawn_free(&s);
}

/* ---- requests about a command ---- */

/* finds the command a request names; sends the failure itself when there is no such one */
struct command *command_named(struct commands *all, struct connection *from, uint32_t id, struct reader *r, struct span name) {
  if (!reader_done(r)) {
    connection_fail(from, id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot read the request: it is malformed");
    return NULL;
  }
  struct command *c = find(all, name);
  if (!c) connection_fail(from, id, ESRCH, WIRE_WHAT_REQUEST, "There is no such command running");
  return c;
}

void command_signal(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  uint32_t wanted = read_u32(r);
  bool alone = wanted & WIRE_SIGNAL_ALONE;
  uint32_t signal = wanted & ~WIRE_SIGNAL_ALONE;
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  if (signal >= NSIG) {
    connection_fail(from, id, EINVAL, WIRE_WHAT_REQUEST, "Cannot send signal %u: there is no such signal", signal);
    return;
  }
  /* a child that has not made its own group yet is reached by its pid */
  bool sent = (!alone && kill(-c->pid, (int)signal) == 0) || kill(c->pid, (int)signal) == 0;
  if (sent || c->waited) connection_ok(from, id);
  else connection_fail(from, id, errno, WIRE_WHAT_REQUEST, "Cannot send signal %u: %s", signal, strerror(errno));
}

void command_resize(struct commands *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  struct winsize size = {0};
  size.ws_row = read_u16(r);
  size.ws_col = read_u16(r);
  struct command *c = command_named(all, from, id, r, name);
  if (!c) return;
  if (!c->terminal || c->out.source.fd < 0 || ioctl(c->out.source.fd, TIOCSWINSZ, &size) < 0) {
    connection_fail(from, id, ENOTTY, WIRE_WHAT_REQUEST, "Cannot resize: the command has no terminal");
    return;
  }
  connection_ok(from, id);
}

void command_list(struct commands *all, struct connection *from, uint32_t id) {
  uint32_t count = 0;
  for (struct command *c = all->first; c; c = c->next) count += c->state == COMMAND_RUNNING;
  struct writer w = frame_begin(WIRE_OK, id);
  write_u32(&w, count);
  for (struct command *c = all->first; c; c = c->next) {
    if (c->state != COMMAND_RUNNING) continue;
    write_str(&w, c->name);
    write_u32(&w, (uint32_t)c->pid);
    write_u64(&w, c->journal.end);
  }
  connection_send(from, &w);
}

/* ---- upkeep ---- */

void commands_forget(struct commands *all, const struct connection *gone) {
  for (struct command *c = all->first; c; c = c->next) {
    if (c->asker == gone) c->asker = NULL;
    if (c->keeper == gone) {
      c->keeper = NULL;
      command_need_from(c, UINT64_MAX);
    }
    for (struct input *i = c->inputs; i; i = i->next) {
      if (i->from == gone) i->from = NULL;
    }
  }
}

void commands_waited(struct commands *all, pid_t pid, int status, const struct rusage *usage) {
  for (struct command *c = all->first; c; c = c->next) {
    if (c->pid != pid || c->waited) continue;
    if (WIFSTOPPED(status)) {
      /* a program may be stopped and go on; one that has not begun keeps its caller waiting */
      if (c->state == COMMAND_STARTING) kill(pid, SIGKILL);
      return;
    }
    c->waited = true;
    c->wait_status = status;
    c->usage = *usage;
    if (c->state == COMMAND_RUNNING) finish(c);
    return;
  }
}

/* ms between two looks at the clock while a deadline is pending, and by how much a look may be late on a busy machine */
#define LOOK_EVERY 1000
#define LATE 2000

/* ms that went by while the agent was frozen, as it is in a paused machine: it was due to look at the clock long before */
static int64_t frozen_for(struct commands *all, int64_t now) {
  int64_t late = all->next_look ? now - all->next_look : 0;
  return late > LATE ? late : 0;
}

int commands_expire(struct commands *all) {
  int64_t now = loop_now(), next = -1;
  int64_t frozen = frozen_for(all, now);
  for (struct command *c = all->first; c; c = c->next) {
    if (!c->deadline || c->waited) continue;
    if (c->limited_at < all->next_look) c->deadline += frozen;
    if (c->deadline <= now) {
      c->flags |= COMMAND_TIMED_OUT;
      c->deadline = 0;
      kill(-c->pid, SIGKILL);
      kill(c->pid, SIGKILL);
    } else if (next < 0 || c->deadline - now < next) {
      next = c->deadline - now;
    }
  }
  if (next > LOOK_EVERY) next = LOOK_EVERY;
  all->next_look = next < 0 ? 0 : now + next;
  return (int)next;
}

static bool is_over(const struct command *c) {
  return c->state == COMMAND_ENDED && (c->waited || c->pid <= 0) && c->out.source.fd < 0 && c->err.source.fd < 0;
}

void commands_sweep(struct commands *all) {
  for (struct command **at = &all->first; *at;) {
    struct command *c = *at;
    if (!is_over(c)) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    command_close(&c->status);
    command_close(&c->in);
    journal_close(&c->journal);
    free(c);
  }
}
