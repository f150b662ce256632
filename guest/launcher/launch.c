/*
 * launch.c: the launcher's loop and the requests that are not about machines (machine.c) or copies (copier.h). Payloads:
 *
 *   VOLUME_CREATE    str path -> OK: a btrfs subvolume
 *   VOLUME_SNAPSHOT  str from, str to -> OK
 *   VOLUME_DELETE    str path -> OK
 *   VOLUME_LIMIT     str path, u64 bytes (0 none; ~0 asks for accounting on the whole file system) -> OK
 *   VOLUME_LINE      str path, u64 bytes, u64 line -> OK: a limit for all volumes of a line together (volume.h)
 *   VOLUME_FORGET    str path -> OK: of volumes and lines that are gone, on the whole file system, nothing is counted any more
 *   VOLUME_USAGE     str path -> OK { u64 bytes }
 *   FILES_AT         str directory -> OK, then the connection is a file session (files.c) below that directory
 *   FLATTEN          list of layers (directories, topmost first), str into (an empty directory) -> OK
 *   SYNC             str path -> OK once the file system it is on is on the disk
 *   SHUTDOWN         -> OK, and the launcher ends; machines go on
 *
 * Only root may connect. Machines outlive the launcher: their first processes are then no longer its children, and a new
 * launcher takes them over with READOPT.
 */
#define _GNU_SOURCE
#include "launcher/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confinement/confine.h"
#include "files/files.h"
#include "launcher/copier.h"
#include "launcher/dismantler.h"
#include "launcher/machine.h"
#include "layers/flatten.h"
#include "layers/volume.h"
#include "netd/netd.h"
#include "sandbox/foreign_stores.h"
#include "shared/connection.h"
#include "view/view.h"

#define FLATTEN_MOST 512
#define SIGNALS_MOST 16384
/* younger than some headers; where the kernel lacks it, the number of the process has to do */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static struct machines machines;
static struct connection *connections;
static struct netd_options netd_options;
static pid_t netd_pid;
static bool ending;

/* ---- requests with a process of their own ---- */

static _Noreturn void files_worker(int fd, uint32_t id, const char *directory) {
  int root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int error = root < 0 || fchdir(root) < 0 || chroot(".") < 0 ? errno : confine_to(&root, 1);
  if (error) {
    send_fail(fd, id, error, WIRE_WHAT_PATH, "Cannot open \"%s\": %s", directory, strerror(error));
    _exit(1);
  }
  close(root);
  umask(0);
  if (send_ok(fd, id) == 0) serve_files(fd, &(struct file_context){.privileged = true});
  _exit(0);
}

static int open_layers(char *const *layers, int *fds, size_t *count) {
  for (*count = 0; layers[*count]; (*count)++) {
    if (*count == FLATTEN_MOST) return E2BIG;
    fds[*count] = open(layers[*count], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fds[*count] < 0) return errno;
  }
  return *count ? 0 : EINVAL;
}

static _Noreturn void flatten_worker(int fd, uint32_t id, char *const *layers, const char *into) {
  static int fds[FLATTEN_MOST + 1];
  char why[512] = "";
  size_t count;
  int error = open_layers(layers, fds, &count);
  int out = error ? -1 : open(into, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (!error && out < 0) error = errno;
  fds[error ? 0 : count] = out;
  if (!error) error = confine_to(fds, count + 1);
  if (!error) error = flatten_layers(fds, count, out, why, sizeof why);
  if (error) send_fail(fd, id, error, WIRE_WHAT_LAYER, "Cannot flatten layers: %s", *why ? why : strerror(error));
  else send_ok(fd, id);
  _exit(0);
}

static _Noreturn void sync_worker(int fd, uint32_t id, const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  int error = file < 0 ? errno : confine_to(NULL, 0);
  if (!error && syncfs(file) < 0) error = errno;
  if (error) send_fail(fd, id, errno, WIRE_WHAT_PATH, "Cannot sync \"%s\": %s", path, strerror(error));
  else send_ok(fd, id);
  _exit(0);
}

static _Noreturn void forget_worker(int fd, uint32_t id, const char *path) {
  int error = volume_forget_counts(path);
  if (error) send_fail(fd, id, error, WIRE_WHAT_PATH, "Cannot look at what is counted in \"%s\": %s", path, strerror(error));
  else send_ok(fd, id);
  _exit(0);
}

/* the kernel writes the source's data and commits the file system before it answers: the copy is on the disk then */
static _Noreturn void snapshot_worker(int fd, uint32_t id, const char *from, const char *to) {
  int error = volume_snapshot(from, to);
  if (error) send_fail(fd, id, error, WIRE_WHAT_PATH, "Cannot copy volume \"%s\": %s", from, strerror(error));
  else send_ok(fd, id);
  _exit(0);
}

/* the connection leaves the loop and belongs to a process of its own, which may take any time */
static void hand_over(struct connection *c, const struct header *header, struct reader *r) {
  char **layers = header->type == WIRE_FLATTEN ? read_list(r) : NULL;
  char *path = read_string(r);
  char *to = header->type == WIRE_VOLUME_SNAPSHOT ? read_string(r) : NULL;
  if (!reader_done(r)) {
    machine_malformed(c, header->id);
  } else {
    int fd = connection_release(c);
    pid_t pid = fork();
    if (pid == 0) {
      fd = connection_worker(fd);
      if (layers) flatten_worker(fd, header->id, layers, path);
      if (header->type == WIRE_SYNC) sync_worker(fd, header->id, path);
      if (header->type == WIRE_VOLUME_FORGET) forget_worker(fd, header->id, path);
      if (to) snapshot_worker(fd, header->id, path, to);
      files_worker(fd, header->id, path);
    }
    if (pid < 0) send_fail(fd, header->id, errno, WIRE_WHAT_SYSTEM, "Cannot serve the connection: %s", strerror(errno));
    close(fd);
  }
  free_list(layers);
  free(path);
  free(to);
}

/* ---- volumes ---- */

static void volume_request(struct connection *c, const struct header *header, struct reader *r) {
  char *path = read_string(r);
  char *to = header->type == WIRE_VOLUME_SNAPSHOT ? read_string(r) : NULL;
  bool has_bytes = header->type == WIRE_VOLUME_LIMIT || header->type == WIRE_VOLUME_LINE;
  uint64_t bytes = has_bytes ? read_u64(r) : 0;
  uint64_t line = header->type == WIRE_VOLUME_LINE ? read_u64(r) : 0;
  int error = EBADMSG;
  if (reader_done(r)) {
    switch (header->type) {
      case WIRE_VOLUME_CREATE: error = volume_create(path); break;
      case WIRE_VOLUME_SNAPSHOT: error = volume_snapshot(path, to); break;
      case WIRE_VOLUME_DELETE: error = volume_delete(path); break;
      case WIRE_VOLUME_USAGE: error = volume_usage(path, &bytes); break;
      case WIRE_VOLUME_LINE: error = line && line >> 48 == 0 ? volume_limit(path, bytes, line) : EINVAL; break;
      default: error = bytes == UINT64_MAX ? volume_enable_limits(path) : volume_limit(path, bytes, 0);
    }
  }
  if (error) {
    connection_fail(c, header->id, error, WIRE_WHAT_PATH, "Cannot change volume \"%s\": %s", path ? path : "", strerror(error));
  } else {
    struct writer w = frame_begin(WIRE_OK, header->id);
    if (header->type == WIRE_VOLUME_USAGE) write_u64(&w, bytes);
    connection_send(c, &w);
  }
  free(path);
  free(to);
}

/* ---- the loop ---- */

static void on_frame(struct connection *c, const struct header *header, const uint8_t *payload) {
  struct reader r = reader_of(payload, header->length);
  uint32_t id = header->id;
  bool own_process = header->type == WIRE_FILES_AT || header->type == WIRE_FLATTEN || header->type == WIRE_SYNC ||
                     header->type == WIRE_VOLUME_SNAPSHOT || header->type == WIRE_VOLUME_FORGET;
  if (!c->streaming && own_process) {
    hand_over(c, header, &r);
    return;
  }
  c->streaming = true;
  switch (header->type) {
    case WIRE_HELLO: connection_hello(c, id, &r); break;
    case WIRE_PING: connection_ok(c, id); break;
    case WIRE_PREPARE: machine_prepare(&machines, c, id, &r); break;
    case WIRE_ACTIVATE: machine_activate(&machines, c, id, &r); break;
    case WIRE_KILL: machine_kill(&machines, c, id, &r, false); break;
    case WIRE_KILL_COUNT: machine_kill(&machines, c, id, &r, true); break;
    case WIRE_NETWORK: machine_network(&machines, c, id, &r); break;
    case WIRE_COUNTERS: machine_counters(&machines, c, id, &r); break;
    case WIRE_READOPT: machine_readopt(&machines, c, id, &r); break;
    case WIRE_WRITES: machine_writes(&machines, c, id, &r); break;
    case WIRE_MACHINES: machine_list(&machines, c, id); break;
    case WIRE_VOLUME_CREATE:
    case WIRE_VOLUME_SNAPSHOT:
    case WIRE_VOLUME_DELETE:
    case WIRE_VOLUME_LIMIT:
    case WIRE_VOLUME_LINE:
    case WIRE_VOLUME_USAGE: volume_request(c, header, &r); break;
    case WIRE_VOLUME_COPY: copier_ask(c, id, &r); break;
    case WIRE_SHUTDOWN:
      ending = true;
      connection_ok(c, id);
      break;
    default: connection_fail(c, id, ENOSYS, WIRE_WHAT_REQUEST, "Cannot do request %u: unknown", header->type);
  }
}

static void on_closed(struct connection *c) {
  machines_forget(&machines, c);
  copiers_forget(c);
}

static const struct connection_handlers handlers = {.frame = on_frame, .closed = on_closed};

/*
 * Whether the process at the other end has the host's root's powers, and not only its number: netd and its kin keep the
 * number, and whatever takes one of them over must not come to the launcher for what it lacks.
 */
static bool is_privileged(int fd, pid_t pid) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0) pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (pidfd < 0) return false;
  char path[64], text[4096] = "";
  struct stat ours, theirs;
  snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  bool same = stat("/proc/self/ns/user", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  int status = open(path, O_RDONLY | O_CLOEXEC);
  if (status >= 0 && read(status, text, sizeof text - 1) < 0) same = false;
  if (status >= 0) close(status);
  const char *line = strstr(text, "\nCapEff:");
  uint64_t effective = line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
  /* while it lives, no other process has its number */
  bool alive = syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
  close(pidfd);
  return same && alive && effective >> CAP_SYS_ADMIN & 1;
}

static void on_connect(struct source *source, uint32_t events) {
  (void)events;
  int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct ucred peer;
  socklen_t size = sizeof peer;
  bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
  if (!known || !is_privileged(fd, peer.pid)) close(fd);
  else connection_open(fd, &handlers, &connections);
}

static const char *agent_of(const char *name) {
  for (struct machine *m = machines.first; m; m = m->next) {
    if (strcmp(m->name, name) == 0) return m->socket_path;
  }
  return NULL;
}

/* the end of netd is seen as the end of a child, too */
static void on_network(struct source *source, uint32_t events) {
  (void)events;
  int error = netd_answer(source->fd, agent_of);
  if (error && error != EAGAIN && error != EINTR) loop_remove(source);
}

static void start_network(void) {
  static struct source network = {.fd = -1};
  if (machines.netd >= 0) {
    loop_remove(&network);
    close(machines.netd);
  }
  machines.netd = -1;
  int error = netd_start(&netd_options, &netd_pid, &machines.netd);
  if (!error) error = loop_add(&network, machines.netd, EPOLLIN, on_network);
  if (error) fprintf(stderr, "sandkeep-guest: cannot start the network process: %s\n", strerror(error));
}

/* for the daemon's log, in the form of launcher-log.ts */
static void tell_network_ended(const siginfo_t *child) {
  const char *how = child->si_code == CLD_EXITED ? "ended with code" : "was ended by signal";
  fprintf(stderr, "{\"process\":\"netd\",\"level\":\"warn\",\"sentence\":\"The network process (process %d) %s %d; "
                  "another one is started, with another egress process\"}\n", child->si_pid, how, child->si_status);
}

/* reaps workers and machines; the network process is started again when it dies */
static void on_child(struct source *source, uint32_t events) {
  (void)events;
  loop_heard_children(source);
  for (;;) {
    siginfo_t child = {0};
    /* machines are waited for by their pidfd; looking first leaves them to it */
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0 || child.si_pid == 0) return;
    bool machine = false;
    for (struct machine *m = machines.first; m; m = m->next) machine = machine || m->sandbox.pid == child.si_pid;
    if (machine) return;
    waitid(P_PID, (id_t)child.si_pid, &child, WEXITED | WNOHANG);
    if (child.si_pid == netd_pid && !ending) {
      tell_network_ended(&child);
      start_network();
      machines_listen_again(&machines);
    }
  }
}

/* ---- starting ---- */

static int make_folders(const char *run) {
  const char *const names[] = {"", "/m", "/root", "/layer"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", run, names[i]);
    if (mkdir(path, 0700) < 0 && errno != EEXIST) return errno;
  }
  return 0;
}

/* One launcher per folder, for as long as it lives: a lock of the process and not, as flock()'s is, of the open file, which
 * whatever it has just made would share for a moment longer. */
static int lock_folder(const char *run) {
  char path[4096];
  snprintf(path, sizeof path, "%s/launch.lock", run);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(fd, F_SETLK, &lock) < 0 ? errno : 0;
}

/* our own view of the mounts: what the host mounts later appears here, what we mount stays here */
static int own_mounts(void) {
  return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ? errno : 0;
}

static int listen_for_daemon(const char *run) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (snprintf(address.sun_path, sizeof address.sun_path, "%s/launch.sock", run) >= (int)sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  unlink(address.sun_path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0) return -1;
  return fd;
}

/* as many files as it may have; and of pending signals, timers among them, what a user namespace made here may have */
static void set_limits(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_max > SIGNALS_MOST) {
    limit.rlim_cur = SIGNALS_MOST;
    setrlimit(RLIMIT_SIGPENDING, &limit);
  }
}

/* whether the kernel hands core files to a program of the host */
static int has_core_helper(void) {
  char first = 0;
  int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t length = read(fd, &first, 1);
  close(fd);
  return length == 1 && first == '|';
}

/*
 * Sandboxes set their limit of core files to 1, for which the kernel starts no helper; for 0 it does. sudo and service
 * managers may have left a limit of 0, which is raised here, if at all: no process of a sandbox can.
 */
static int allow_core_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_CORE, &limit) || limit.rlim_max > 0) return 0;
  limit.rlim_max = 1;
  if (setrlimit(RLIMIT_CORE, &limit) == 0) return 0;
  int error = errno;
  return has_core_helper() ? error : 0;
}

static int fail(const char *what, int error) {
  fprintf(stderr, "sandkeep-guest: cannot launch: %s: %s\n", what, strerror(error));
  return 1;
}

int launch_main(const char *run, char *const egress[]) {
  static struct source listener, children;
  umask(077);
  set_limits();
  int error = allow_core_limit();
  if (error) return fail("raising the limit of core files from 0 to 1", error);
  error = make_folders(run);
  if (error) return fail("its folder", error);
  error = lock_folder(run);
  if (error) return fail("another launcher is there", error);
  error = own_mounts();
  if (error) return fail("its mounts", error);
  foreign_stores_forget(getenv("SANDKEEP_STORE"));
  machines.run = run;
  view_learn();
  overlay_begin_with(getenv("SANDKEEP_OVERLAY"));
  machines.netd = -1;
  machines.host_network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (machines.host_network < 0) return fail("the host's network", errno);
  netd_options.egress_argv = egress;
  signal(SIGHUP, SIG_IGN);
  error = loop_open();
  if (!error) error = loop_add_children(&children, on_child);
  if (error) return fail("its loop", error);
  start_network();
  dismantler_start();
  int fd = listen_for_daemon(run);
  if (fd < 0) return fail("its socket", errno);
  error = loop_add(&listener, fd, EPOLLIN, on_connect);
  if (error) return fail("its loop", error);
  while (!ending) {
    error = loop_pass(-1);
    if (error) return fail("its loop", error);
    connections_sweep(&connections);
  }
  return 0;
}
