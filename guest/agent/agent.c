/*
 * agent.c: answers the daemon inside one sandbox: runs commands, keeps their output, reaps what they leave behind.
 *
 * It is single-threaded and never blocks. A connection that begins with FILES, DIAL or HOLDERS is handed to a process of
 * its own, which may block; every other connection carries requests (wire.h) and hears every event.
 *
 *   EXEC  str command, u32 flags (1 terminal, 2 standard input, 4 keep), u16 rows, u16 columns, u32 time limit in ms (0 none),
 *         u64 bound of the journal, str user, list groups, str cwd, list argv, list env ("NAME=value")
 *         With "keep", output goes only where SPARE says so, for as long as the connection is open
 *         -> OK { u32 pid } once the program runs; FAIL with what USER, CWD or EXECUTABLE when it cannot
 */
#define _GNU_SOURCE
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/command.h"
#include "agent/dial.h"
#include "agent/grants.h"
#include "agent/holder.h"
#include "agent/identity.h"
#include "files/files.h"
#include "shared/connection.h"
#include "view/view.h"
#include "view/view_disk.h"

/* GREW is held back from a listener that has this much unread; it hears the newest state once it has read */
#define EVENT_BACKLOG (64u << 10)

static struct commands commands;
static struct connection *connections;

/* ---- events ---- */

static void send_grew(struct connection *to, const struct command *c) {
  struct writer w = frame_begin(WIRE_GREW, 0);
  write_str(&w, c->name);
  write_u64(&w, c->journal.end);
  connection_send(to, &w);
}

static void announce_growth(void) {
  for (struct command *c = commands.first; c; c = c->next) {
    if (!c->grew || c->state != COMMAND_RUNNING) continue;
    c->grew = false;
    for (struct connection *to = connections; to; to = to->next) {
      if (!to->streaming || to->dead) continue;
      if (connection_queued(to) > EVENT_BACKLOG) to->owes = true;
      else send_grew(to, c);
    }
  }
}

static void announce_end(const struct command *c, uint32_t code, uint32_t signal) {
  for (struct connection *to = connections; to; to = to->next) {
    if (!to->streaming || to->dead) continue;
    struct writer w = frame_begin(WIRE_EXIT, 0);
    write_str(&w, c->name);
    command_write_exit(&w, c, code, signal);
    connection_send(to, &w);
  }
}

static void on_drained(struct connection *to) {
  if (!to->owes) return;
  to->owes = false;
  for (struct command *c = commands.first; c; c = c->next) {
    if (c->state == COMMAND_RUNNING) send_grew(to, c);
  }
}

/* ---- connections that get a process of their own ---- */

static _Noreturn void files_worker(int fd, uint32_t id, const char *user) {
  struct identity who;
  int error = identity_find(user, NULL, &who);
  if (!error) error = identity_assume(&who);
  if (error) {
    send_fail(fd, id, error, WIRE_WHAT_USER, "Cannot open files as \"%s\": %s", user,
              error == ENOENT ? "there is no such user" : strerror(error));
    _exit(1);
  }
  umask(022);
  if (chdir("/") == 0 && send_ok(fd, id) == 0) serve_files(fd, &(struct file_context){.in_place = !view_disk_is_counted()});
  _exit(0);
}

/* processes that serve a connection; one that root inside stops would keep its caller waiting for ever */
struct worker {
  struct worker *next;
  pid_t pid;
};
static struct worker *workers;

static void worker_began(pid_t pid) {
  struct worker *w = malloc(sizeof *w);
  if (!w) return;
  *w = (struct worker){.next = workers, .pid = pid};
  workers = w;
}

/* true when it was one */
static bool worker_changed(pid_t pid, int status) {
  for (struct worker **at = &workers; *at; at = &(*at)->next) {
    struct worker *w = *at;
    if (w->pid != pid) continue;
    if (WIFSTOPPED(status)) {
      kill(pid, SIGKILL);
    } else {
      *at = w->next;
      free(w);
    }
    return true;
  }
  return false;
}

static void hand_over(struct connection *c, const struct header *header, struct reader *r) {
  char *user = header->type == WIRE_FILES ? read_string(r) : NULL;
  uint16_t port = header->type == WIRE_DIAL ? read_u16(r) : 0;
  if (!reader_done(r)) {
    connection_fail(c, header->id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot read the request: it is malformed");
    free(user);
    return;
  }
  int fd = connection_release(c);
  pid_t pid = fork();
  if (pid == 0) {
    fd = connection_worker(fd);
    if (user) files_worker(fd, header->id, user);
    if (header->type == WIRE_DIAL) serve_dial(fd, header->id, port);
    else serve_holders(fd, header->id);
    _exit(0);
  }
  if (pid < 0) send_fail(fd, header->id, errno, WIRE_WHAT_SYSTEM, "Cannot serve the connection: %s", strerror(errno));
  if (pid > 0) worker_began(pid);
  close(fd);
  free(user);
}

/* ---- requests ---- */

static bool wants_worker(uint8_t type) { return type == WIRE_FILES || type == WIRE_DIAL || type == WIRE_HOLDERS; }

static void limit_filters(struct connection *c, uint32_t id, struct reader *r) {
  uint32_t most = read_u32(r);
  if (!reader_done(r)) {
    connection_fail(c, id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot read the request: it is malformed");
    return;
  }
  grants_limit_filters(most);
  connection_ok(c, id);
}

static void on_frame(struct connection *c, const struct header *header, const uint8_t *payload) {
  struct reader r = reader_of(payload, header->length);
  uint32_t id = header->id;
  if (!c->streaming && wants_worker(header->type)) {
    hand_over(c, header, &r);
    return;
  }
  c->streaming = true;
  switch (header->type) {
    case WIRE_HELLO: connection_hello(c, id, &r); break;
    case WIRE_PING: connection_ok(c, id); break;
    case WIRE_EXEC: command_exec(&commands, c, id, &r); break;
    case WIRE_STDIN: command_stdin(&commands, c, id, &r); break;
    case WIRE_STDIN_AT: command_stdin_at(&commands, c, id, &r); break;
    case WIRE_STDIN_GIVEN: command_stdin_given(&commands, c, id, &r); break;
    case WIRE_STDIN_CLOSE: command_stdin_close(&commands, c, id, &r); break;
    case WIRE_SIGNAL: command_signal(&commands, c, id, &r); break;
    case WIRE_RESIZE: command_resize(&commands, c, id, &r); break;
    case WIRE_SPARE: command_spare(&commands, c, id, &r); break;
    case WIRE_COMMANDS: command_list(&commands, c, id); break;
    case WIRE_FILTERS: limit_filters(c, id, &r); break;
    default: connection_fail(c, id, ENOSYS, WIRE_WHAT_REQUEST, "Cannot do request %u: unknown", header->type);
  }
}

static void on_closed(struct connection *c) { commands_forget(&commands, c); }

static const struct connection_handlers handlers = {.frame = on_frame, .closed = on_closed, .drained = on_drained};

/* ---- the loop ---- */

static void on_connect(struct source *source, uint32_t events) {
  (void)events;
  for (int fd; (fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    connection_open(fd, &handlers, &connections);
  }
}

static void on_child(struct source *source, uint32_t events) {
  (void)events;
  loop_heard_children(source);
  int status;
  struct rusage usage;
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0;) {
    if (!grants_waited(pid, status) && !worker_changed(pid, status)) commands_waited(&commands, pid, status, &usage);
  }
}

_Noreturn void agent_run(const struct agent_fds *fds) {
  static struct source listener, children;
  commands.journal_directory = fds->journal;
  commands.memory_events = fds->memory_events;
  commands.ended = announce_end;
  if (loop_open() != 0) _exit(1);
  if (loop_add(&listener, fds->listener, EPOLLIN, on_connect) != 0) _exit(1);
  if (loop_add_children(&children, on_child) != 0) _exit(1);
  if (fds->grants >= 0 && grants_begin(fds->grants, &fds->pass) != 0) _exit(1);
  if (fds->view >= 0 && view_begin(fds->view) != 0) _exit(1);
  for (;;) {
    int error = loop_pass(commands_expire(&commands));
    if (error) _exit(1);
    announce_growth();
    commands_sweep(&commands);
    connections_sweep(&connections);
  }
}
