/*
 * fuzz_agent.c: arbitrary clients and arbitrary children against the agent's own loop (libFuzzer).
 *
 * An input is a list of steps, each a byte and what it needs: bytes or frames of a client, a client that leaves or
 * reads, a child that prints, fails to start or dies. No process is ever made: fork, kill and wait4 are replaced when
 * linking, and pipe2 is so that the fuzzer holds what a child would hold. At the end everybody has gone, and nothing
 * may be left: no command, no connection, no memory, no descriptor.
 */
#include "agent/agent.c"

#include <dirent.h>

#define CLIENTS 3
#define CHILDREN 6
#define PIPES 4
/* beyond any number that the kernel gives a process */
#define FIRST_PID (1 << 22)
#define CHECK(truth) ((truth) ? (void)0 : abort())

/* what the input still holds */
struct input_bytes {
  const uint8_t *at, *end;
};

/* a process as the agent believes it to be; its ends of the pipes are -1 when closed */
struct child {
  pid_t pid;
  bool alive;
  int out, err, in, status;
};

struct waited {
  pid_t pid;
  int status;
};

static int clients[CLIENTS];
static struct child children[CHILDREN];
static size_t child_count;
static int pipes[PIPES][2];
static size_t pipe_count;
static struct waited dead[CHILDREN];
static size_t dead_count;
static bool fork_fails;
static char journals[4096];

/* ---- what the kernel would do ---- */

pid_t __wrap_fork(void);
int __wrap_kill(pid_t pid, int signal);
pid_t __wrap_wait4(pid_t pid, int *status, int options, struct rusage *usage);
int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);

int __wrap_pipe2(int fds[2], int flags) {
  int result = __real_pipe2(fds, flags);
  if (result == 0) memcpy(pipes[pipe_count++ % PIPES], fds, sizeof pipes[0]);
  return result;
}

static int keep(const int *fd) { return fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1; }

/* the agent makes pipes for output, errors, perhaps input, and last for the status; with a terminal only that one */
pid_t __wrap_fork(void) {
  size_t count = pipe_count;
  pipe_count = 0;
  if (fork_fails || child_count == CHILDREN) {
    errno = EAGAIN;
    return -1;
  }
  struct child *c = &children[child_count];
  *c = (struct child){.pid = FIRST_PID + (pid_t)child_count++, .alive = true};
  c->status = keep(count > 0 ? &pipes[count - 1][1] : NULL);
  c->out = keep(count > 2 ? &pipes[0][1] : NULL);
  c->err = keep(count > 2 ? &pipes[1][1] : NULL);
  c->in = keep(count > 3 ? &pipes[2][0] : NULL);
  return c->pid;
}

static void close_kept(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static void die(struct child *c, int status) {
  if (!c->alive) return;
  c->alive = false;
  close_kept(&c->out);
  close_kept(&c->err);
  close_kept(&c->in);
  close_kept(&c->status);
  dead[dead_count++] = (struct waited){.pid = c->pid, .status = status};
}

int __wrap_kill(pid_t pid, int signal) {
  size_t index = (size_t)((pid < 0 ? -pid : pid) - FIRST_PID);
  CHECK(index < child_count);
  if (signal == SIGKILL) die(&children[index], SIGKILL);
  return 0;
}

pid_t __wrap_wait4(pid_t pid, int *status, int options, struct rusage *usage) {
  CHECK(pid == -1 && (options & WNOHANG));
  if (dead_count == 0) return 0;
  struct waited w = dead[--dead_count];
  *status = w.status;
  memset(usage, 0, sizeof *usage);
  return w.pid;
}

/* ---- steps ---- */

static uint8_t next_byte(struct input_bytes *in) { return in->at < in->end ? *in->at++ : 0; }

static struct span next_span(struct input_bytes *in, size_t most) {
  size_t length = next_byte(in) | (size_t)next_byte(in) << 8;
  if (length > most) length = most;
  if (length > (size_t)(in->end - in->at)) length = (size_t)(in->end - in->at);
  struct span s = {.data = (const char *)in->at, .length = (uint32_t)length};
  in->at += length;
  return s;
}

static void client_send(int client, const void *data, size_t length) {
  if (clients[client] < 0) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    clients[client] = pair[0];
    CHECK(connection_open(pair[1], &handlers, &connections));
  }
  if (send(clients[client], data, length, MSG_NOSIGNAL) < 0) close_kept(&clients[client]);
}

/* a frame with a true length around what the input says */
static void client_frame(int client, struct input_bytes *in) {
  struct writer w = frame_begin((enum wire_type)next_byte(in), next_byte(in));
  struct span payload = next_span(in, 4096);
  write_raw(&w, payload.data, payload.length);
  CHECK(frame_end(&w));
  client_send(client, w.data, w.length);
  writer_free(&w);
}

/* a command that can be started, under one of a few names */
static void client_exec(int client, struct input_bytes *in) {
  char name[] = {(char)('a' + next_byte(in) % 4), 0};
  uint8_t flags = next_byte(in);
  struct writer w = frame_begin(WIRE_EXEC, next_byte(in));
  write_str(&w, name);
  write_u32(&w, flags & 7);
  write_u16(&w, 24);
  write_u16(&w, 80);
  write_u32(&w, flags & 64 ? 1 : 0);
  write_u64(&w, 0);
  write_str(&w, "");
  write_u16(&w, 0);
  write_str(&w, "/");
  write_u16(&w, 1);
  write_str(&w, "x");
  write_u16(&w, 0);
  CHECK(frame_end(&w));
  client_send(client, w.data, w.length);
  writer_free(&w);
}

/* input for one of the commands, more than a pipe holds when it is sent often */
static void client_stdin(int client, struct input_bytes *in) {
  static const char zeros[WIRE_CHUNK];
  char name[] = {(char)('a' + next_byte(in) % 4), 0};
  uint8_t id = next_byte(in);
  struct writer w = frame_begin(id % 2 ? WIRE_STDIN_AT : WIRE_STDIN, id);
  write_str(&w, name);
  if (id % 2) write_u64(&w, (uint64_t)next_byte(in) * 512);
  write_bytes(&w, zeros, (size_t)next_byte(in) * 512);
  CHECK(frame_end(&w));
  client_send(client, w.data, w.length);
  writer_free(&w);
}

/* whatever comes back is made of whole frames of the kinds that an agent sends */
static void client_read(int client) {
  static uint8_t bytes[1 << 20];
  ssize_t n = clients[client] < 0 ? 0 : recv(clients[client], bytes, sizeof bytes, MSG_PEEK);
  size_t at = 0;
  while (n > 0 && (size_t)n - at >= WIRE_HEADER) {
    struct header h;
    CHECK(parse_header(bytes + at, &h) == 0);
    CHECK(h.type == WIRE_OK || h.type == WIRE_FAIL || h.type == WIRE_GREW || h.type == WIRE_EXIT);
    if ((size_t)n - at - WIRE_HEADER < h.length) break;
    at += WIRE_HEADER + h.length;
  }
  if (at > 0) recv(clients[client], bytes, at, 0);
}

static void child_print(struct child *c, struct input_bytes *in) {
  struct span data = next_span(in, 4096);
  int fd = data.length & 1 ? c->out : c->err;
  if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  if (fd >= 0 && write(fd, data.data, data.length) < 0) CHECK(errno == EAGAIN);
}

static void child_fail(struct child *c, struct input_bytes *in) {
  struct spawn_failure failure = {.error = next_byte(in), .what = (enum wire_what)(next_byte(in) % 7)};
  if (c->status >= 0) CHECK(write(c->status, &failure, sizeof failure) == sizeof failure);
  die(c, 127 << 8);
}

static void child_take(const struct child *c) {
  static uint8_t bytes[1 << 16];
  if (c->in >= 0) fcntl(c->in, F_SETFL, O_NONBLOCK);
  if (c->in >= 0 && read(c->in, bytes, sizeof bytes) < 0) CHECK(errno == EAGAIN);
}

static void pass(int timeout) {
  commands_expire(&commands);
  CHECK(loop_pass(timeout) == 0);
  struct source signals = {.fd = -1};
  on_child(&signals, EPOLLIN);
  announce_growth();
  commands_sweep(&commands);
  connections_sweep(&connections);
}

static void step(struct input_bytes *in) {
  uint8_t what = next_byte(in);
  int client = what >> 4 & 1 ? 1 : what >> 5 & 1 ? 2 : 0;
  struct child none = {.out = -1, .err = -1, .in = -1, .status = -1};
  struct child *c = child_count ? &children[(what >> 4) % child_count] : &none;
  switch (what & 15) {
    case 0: {
      struct span bytes = next_span(in, 8192);
      client_send(client, bytes.data, bytes.length);
      break;
    }
    case 1:
    case 2: client_frame(client, in); break;
    case 3:
    case 4: client_exec(client, in); break;
    case 5: client_stdin(client, in); break;
    case 6: close_kept(&clients[client]); break;
    case 7: client_read(client); break;
    case 8: child_print(c, in); break;
    case 9: child_fail(c, in); break;
    case 10: close_kept(&c->status); break;
    case 11: die(c, next_byte(in) << 8); break;
    case 12: close_kept(&c->in); break;
    case 13: child_take(c); break;
    case 14: fork_fails = !fork_fails; break;
    default: pass(0);
  }
  if (!(what & 128)) pass(0);
}

/* ---- the end ---- */

static void remove_journals(void) {
  DIR *folder = opendir(journals);
  CHECK(folder);
  for (struct dirent *e; (e = readdir(folder));) unlinkat(dirfd(folder), e->d_name, 0);
  closedir(folder);
}

static void everybody_leaves(void) {
  for (int i = 0; i < CLIENTS; i++) close_kept(&clients[i]);
  /* what a client has sent may still start something, and a terminal echoes its input in its own time */
  int64_t deadline = loop_now() + 10000;
  do {
    pass(1);
    for (size_t c = 0; c < child_count; c++) die(&children[c], 0);
  } while ((commands.first || connections || dead_count) && loop_now() < deadline);
  CHECK(!commands.first && !connections && !workers);
  remove_journals();
  child_count = dead_count = pipe_count = 0;
  fork_fails = false;
}

/* a descriptor that is forgotten moves it */
static int lowest_free_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static void remove_folder(void) { rmdir(journals); }

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  const char *folder = getenv("TMPDIR");
  snprintf(journals, sizeof journals, "%s/fuzz-agent-XXXXXX", folder ? folder : "/tmp");
  CHECK(mkdtemp(journals));
  atexit(remove_folder);
  commands.journal_directory = open(journals, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  commands.memory_events = -1;
  commands.ended = announce_end;
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < CLIENTS; i++) clients[i] = -1;
  CHECK(commands.journal_directory >= 0 && loop_open() == 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input_bytes in = {.at = data, .end = data + size};
  int free_before = lowest_free_descriptor();
  while (in.at < in.end) step(&in);
  everybody_leaves();
  CHECK(lowest_free_descriptor() == free_before);
  return 0;
}
