/*
 * machine.c: the launcher's requests about machines; see machine.h. Payloads:
 *
 *   PREPARE   str machine, u32 base id, str socket, str journal directory, str cgroup v2 directory ("" none),
 *             list of v1 cgroup directories, str file with the count of memory kills ("" none), u8 network mode
 *             -> OK { u32 pid }
 *   ACTIVATE  str machine, list of layers (directories, topmost first), str volume, u32 flags (1 no_new_privs),
 *             u32 processors shown (0 all), u64 size of /dev/shm, u16 count of further mounts, each { str path inside,
 *             str directory, u8 read-only } -> OK once the agent serves
 *   READOPT   str machine, u32 pid, u32 base id, str socket, str cgroup v2 directory, u8 network mode -> OK
 *   MACHINES  -> OK { u32 count, count x { str machine, u32 pid, u8 state } }
 */
#define _GNU_SOURCE
#include "launcher/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layers/volume.h"
#include "netd/netd.h"
#include "sandbox/device.h"
#include "shared/mountapi.h"

static struct machine *find(struct machines *all, struct span name) {
  for (struct machine *m = all->first; m; m = m->next) {
    if (strlen(m->name) == name.length && memcmp(m->name, name.data, name.length) == 0) return m;
  }
  return NULL;
}

struct machine *machine_named(struct machines *all, struct connection *from, uint32_t id, struct span name) {
  struct machine *m = find(all, name);
  if (!m) connection_fail(from, id, ESRCH, WIRE_WHAT_REQUEST, "There is no machine \"%.*s\"", (int)name.length, name.data);
  return m;
}

void machine_malformed(struct connection *from, uint32_t id) {
  connection_fail(from, id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot read the request: it is malformed");
}

struct machine *machine_asked_for(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  if (reader_done(r)) return machine_named(all, from, id, name);
  machine_malformed(from, id);
  return NULL;
}

/* ---- beginnings ---- */

static int listen_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  /* an existing file belongs to another process: bind() refuses it */
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0)) {
    close(fd);
    return -1;
  }
  return fd;
}

static int open_below(const char *directory, const char *name, int flags) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return open(path, flags | O_CLOEXEC);
}

struct new_network {
  enum net_mode mode;
  const struct sandbox_spec *spec;
  struct sandbox *sandbox;
  struct net_listeners listeners;
  bool listening;
  const char *step;
};

/* in a fresh network namespace: sets it up and gives birth to the first process, which thereby lives in it */
static int give_birth(struct new_network *n) {
  n->step = "preparing its network";
  int error = net_prepare();
  if (!error && n->mode != NET_DENY_ALL) error = net_set_mode(n->mode);
  if (!error) error = net_listen(&n->listeners);
  n->listening = !error;
  if (error) return error;
  n->step = "making its namespaces";
  return sandbox_clone(n->spec, n->sandbox);
}

static int watch(struct machine *m) {
  m->death.machine = m->answer.machine = m->populated.machine = m;
  int error = loop_add(&m->death.source, m->sandbox.pidfd, EPOLLIN, machine_died);
  if (error) m->death.source.fd = -1;
  return error;
}

static struct machine *fresh(struct machines *all, struct span name, uid_t base, char *socket_path) {
  struct machine *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  memcpy(m->name, name.data, name.length);
  m->base = base;
  m->socket_path = socket_path;
  m->unified_cgroup = m->mounts = m->sandbox.pidfd = m->sandbox.control = -1;
  m->death.source.fd = m->answer.source.fd = m->populated.source.fd = -1;
  m->next = all->first;
  all->first = m;
  m->all = all;
  return m;
}

struct prepare_request {
  struct span name;
  uint32_t base;
  char *socket, *journal, *unified, *memory_events;
  char **cgroups;
  uint8_t mode;
};

static void free_request(struct prepare_request *q) {
  free(q->journal);
  free(q->unified);
  free(q->memory_events);
  free_list(q->cgroups);
}

static bool open_view(const char *directory, const char *name, size_t length, struct sandbox_spec *spec) {
  struct cgroup_view *view = &spec->views[spec->view_count];
  if (length >= sizeof view->name) return false;
  memcpy(view->name, name, length);
  view->mount = sys_open_tree(AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (view->mount < 0) return false;
  spec->view_count++;
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
  return sys_mount_setattr(view->mount, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0;
}

/* version 2 has one tree for all; of version 1 each is at CONTROLLER/RUNTIME/MACHINE */
static const char *open_views(const struct prepare_request *q, struct sandbox_spec *spec) {
  if (!*q->cgroups && *q->unified && !open_view(q->unified, "", 0, spec)) return q->unified;
  for (char **directory = q->cgroups; *directory; directory++) {
    const char *end = *directory + strlen(*directory), *begin = NULL;
    for (int slashes = 0; end > *directory && slashes < 2;) slashes += *--end == '/';
    for (begin = end; begin > *directory && begin[-1] != '/';) begin--;
    if (!open_view(*directory, begin, (size_t)(end - begin), spec)) return *directory;
  }
  return NULL;
}

/* version 2 counts it in every cgroup; of version 1 it is a controller of its own, which a machine may lack: -1 */
static int open_cpu_time(const struct prepare_request *q) {
  if (*q->unified) return open_below(q->unified, "cpu.stat", O_RDONLY);
  int fd = -1;
  for (char **directory = q->cgroups; *directory && fd < 0; directory++) fd = open_below(*directory, "cpuacct.stat", O_RDONLY);
  return fd;
}

/* opens what the first process inherits; returns what could not be opened */
static const char *open_spec(const struct prepare_request *q, struct sandbox_spec *spec) {
  spec->listener = listen_at(q->socket);
  if (spec->listener < 0) return q->socket;
  spec->journal = open(q->journal, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (spec->journal < 0 || fchown(spec->journal, q->base, q->base) < 0) return q->journal;
  if (*q->unified && (spec->unified_cgroup = open(q->unified, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return q->unified;
  if (*q->memory_events && (spec->memory_events = open(q->memory_events, O_RDONLY | O_CLOEXEC)) < 0) return q->memory_events;
  for (char **directory = q->cgroups; *directory; directory++) {
    if (spec->cgroup_count == SANDBOX_CGROUPS) {
      errno = E2BIG;
      return *directory;
    }
    int fd = open_below(*directory, "cgroup.procs", O_WRONLY);
    if (fd < 0) return *directory;
    spec->cgroups[spec->cgroup_count++] = fd;
  }
  spec->cpu_time = open_cpu_time(q);
  spec->devices = device_tree(q->base);
  return spec->devices < 0 ? "/dev" : open_views(q, spec);
}

static void close_spec(struct sandbox_spec *spec) {
  int fds[] = {spec->listener, spec->journal, spec->memory_events, spec->cpu_time, spec->devices};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
    if (fds[i] >= 0) close(fds[i]);
  }
  for (size_t i = 0; i < spec->cgroup_count; i++) close(spec->cgroups[i]);
  for (size_t i = 0; i < spec->view_count; i++) close(spec->views[i].mount);
}

static void prepare(struct machines *all, struct connection *from, uint32_t id, struct prepare_request *q) {
  char staging[4096];
  snprintf(staging, sizeof staging, "%s/root", all->run);
  struct sandbox_spec spec = {
      .base = q->base, .listener = -1, .journal = -1, .memory_events = -1, .cpu_time = -1, .unified_cgroup = -1, .devices = -1, .staging = staging};
  struct machine *m = fresh(all, q->name, q->base, q->socket);
  if (!m) {
    free(q->socket);
    connection_fail(from, id, ENOMEM, WIRE_WHAT_SYSTEM, "Cannot prepare a machine: out of memory");
    return;
  }
  const char *missing = open_spec(q, &spec);
  int error = !missing ? 0 : errno ? errno : EINVAL;
  struct new_network n = {.mode = (enum net_mode)q->mode, .spec = &spec, .sandbox = &m->sandbox, .step = "making a network namespace"};
  if (!error && unshare(CLONE_NEWNET) < 0) error = errno;
  else if (!error) error = give_birth(&n);
  if (!missing && setns(all->host_network, CLONE_NEWNET) < 0) abort();
  if (!error) {
    n.step = "watching it";
    error = watch(m);
  }
  m->unified_cgroup = spec.unified_cgroup;
  close_spec(&spec);
  if (!error) {
    m->mode = n.mode;
    netd_add(all->netd, m->name, &n.listeners, m->mode);
    struct writer w = frame_begin(WIRE_OK, id);
    write_u32(&w, (uint32_t)m->sandbox.pid);
    connection_send(from, &w);
  } else {
    /* before the answer, so that its reader finds nothing left */
    if (spec.listener >= 0) unlink(m->socket_path);
    if (missing) connection_fail(from, id, error, WIRE_WHAT_REQUEST, "Cannot prepare a machine: \"%s\": %s", missing, strerror(error));
    else connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot prepare a machine: %s: %s", n.step, strerror(error));
    machine_free(m);
  }
  if (n.listening) net_close(&n.listeners);
}

void machine_prepare(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct prepare_request q = {.name = read_str(r)};
  q.base = read_u32(r);
  q.socket = read_string(r);
  q.journal = read_string(r);
  q.unified = read_string(r);
  q.cgroups = read_list(r);
  q.memory_events = read_string(r);
  q.mode = read_u8(r);
  bool ok = reader_done(r) && plain_name(q.name) && q.base >= SANDBOX_IDS && q.base <= UINT32_MAX - 2 * SANDBOX_IDS && q.mode <= NET_CUSTOM;
  if (!ok || find(all, q.name)) {
    if (ok) connection_fail(from, id, EEXIST, WIRE_WHAT_REQUEST, "Cannot prepare a machine: its name is in use");
    else machine_malformed(from, id);
    free(q.socket);
  } else {
    prepare(all, from, id, &q);
  }
  free_request(&q);
}

/* ---- activation ---- */

static void on_answer(struct source *source, uint32_t events) {
  (void)events;
  struct machine *m = ((struct machine_source *)source)->machine;
  struct failure failure;
  bool ready = sandbox_answer(&m->sandbox, &failure);
  machine_unwatch(&m->answer);
  close(m->sandbox.control);
  m->sandbox.control = -1;
  int error = ready ? machine_hide_numbers(m) : 0;
  if (error) {
    failure = (struct failure){.error = error, .what = WIRE_WHAT_SYSTEM};
    snprintf(failure.sentence, sizeof failure.sentence, "Cannot hide the host's numbers: %s", strerror(error));
    ready = false;
  }
  if (ready) m->state = MACHINE_RUNNING;
  if (!m->activator) return;
  if (ready) connection_ok(m->activator, m->activator_id);
  else connection_fail(m->activator, m->activator_id, failure.error, failure.what, "%s", failure.sentence);
  m->activator = NULL;
}

struct activate_request {
  char **layers;
  char *volume;
  char *directories[SANDBOX_MOUNTS];
  bool read_only[SANDBOX_MOUNTS];
  struct sandbox_options options;
};

static void read_mounts(struct reader *r, struct activate_request *q) {
  uint16_t count = read_u16(r);
  if (count > SANDBOX_MOUNTS) r->bad = true;
  for (uint16_t i = 0; i < count && !r->bad; i++) {
    struct span path = read_str(r);
    q->directories[i] = read_string(r);
    q->read_only[i] = read_u8(r) != 0;
    if (path.length == 0 || path.length >= SANDBOX_PATH || path.data[0] != '/') r->bad = true;
    else memcpy(q->options.mount_paths[i], path.data, path.length);
    q->options.mount_count = (uint32_t)i + 1;
  }
}

/* the root, then the others; returns how many are open, all of them or fewer with the failure */
static size_t open_mounts(const struct machine *m, struct activate_request *q, int *mounts, struct failure *failure) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/user", m->sandbox.pid);
  int user_namespace = open(path, O_RDONLY | O_CLOEXEC);
  if (user_namespace < 0) {
    *failure = (struct failure){.error = ESRCH, .what = WIRE_WHAT_SYSTEM, .sentence = "Cannot start the sandbox: it died"};
    return 0;
  }
  char attach_at[4096];
  snprintf(attach_at, sizeof attach_at, "%s/layer", m->all->run);
  struct overlay o = {.layers = q->layers, .volume = q->volume, .user_namespace = user_namespace, .base = m->base, .attach_at = attach_at};
  size_t count = 0;
  mounts[0] = overlay_mount(&o, failure);
  if (mounts[0] >= 0) count = 1;
  for (uint32_t i = 0; count == i + 1 && i < q->options.mount_count; i++) {
    mounts[count] = overlay_bind(q->directories[i], user_namespace, q->read_only[i], failure);
    if (mounts[count] >= 0) count++;
  }
  close(user_namespace);
  return count;
}

/* after the mounts, what the kernel counts for each of them, as far as it does */
static size_t open_counts(struct activate_request *q, int *mounts, size_t count) {
  for (uint32_t i = 0; i <= q->options.mount_count; i++) {
    mounts[count] = volume_counts(i == 0 ? q->volume : q->directories[i - 1]);
    if (mounts[count] < 0) continue;
    q->options.counted |= 1u << i;
    count++;
  }
  return count;
}

static void activate(struct machine *m, struct connection *from, uint32_t id, struct activate_request *q) {
  int mounts[SANDBOX_DESCRIPTORS];
  struct failure failure = {0};
  size_t count = open_mounts(m, q, mounts, &failure);
  bool complete = count > q->options.mount_count;
  if (complete) count = open_counts(q, mounts, count);
  if (!complete) {
    connection_fail(from, id, failure.error, failure.what, "%s", failure.sentence);
  } else {
    int error = sandbox_activate(&m->sandbox, mounts, &q->options);
    if (!error) error = loop_add(&m->answer.source, m->sandbox.control, EPOLLIN, on_answer);
    if (error) {
      m->answer.source.fd = -1;
      connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot start the sandbox: %s", strerror(error));
    } else {
      m->state = MACHINE_ACTIVATING;
      m->activator = from;
      m->activator_id = id;
    }
  }
  while (count > 0) close(mounts[--count]);
}

void machine_activate(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  struct activate_request q = {.layers = read_list(r)};
  q.volume = read_string(r);
  q.options.flags = read_u32(r);
  q.options.cpus = read_u32(r);
  q.options.shm_size = read_u64(r);
  read_mounts(r, &q);
  struct machine *m = NULL;
  if (!reader_done(r)) machine_malformed(from, id);
  else m = machine_named(all, from, id, name);
  if (m && m->state != MACHINE_PREPARED) {
    connection_fail(from, id, EALREADY, WIRE_WHAT_REQUEST, "Cannot activate \"%s\": it has a root already", m->name);
  } else if (m) {
    activate(m, from, id, &q);
  }
  free_list(q.layers);
  free(q.volume);
  for (size_t i = 0; i < SANDBOX_MOUNTS; i++) free(q.directories[i]);
}

/* ---- the rest ---- */

void machine_readopt(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  uint32_t pid = read_u32(r), base = read_u32(r);
  char *socket_path = read_string(r), *unified = read_string(r);
  uint8_t mode = read_u8(r);
  bool ok = reader_done(r) && plain_name(name) && pid > 1 && mode <= NET_CUSTOM;
  if (ok && find(all, name)) {
    connection_ok(from, id);
    free(socket_path);
  } else if (!ok) {
    machine_malformed(from, id);
    free(socket_path);
  } else {
    struct machine *m = fresh(all, name, base, socket_path);
    int error = m ? 0 : ENOMEM;
    if (m) {
      m->state = MACHINE_RUNNING;
      m->mode = (enum net_mode)mode;
      m->sandbox.pid = (pid_t)pid;
      m->sandbox.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
      if (*unified) m->unified_cgroup = open(unified, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      error = m->sandbox.pidfd < 0 ? errno : watch(m);
      if (!error) error = machine_listen(all, m);
      if (error) machine_free(m);
    }
    if (error) connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot take the machine over: %s", strerror(error));
    else connection_ok(from, id);
  }
  free(unified);
}

void machine_list(struct machines *all, struct connection *from, uint32_t id) {
  uint32_t count = 0;
  for (struct machine *m = all->first; m; m = m->next) count += !m->empty;
  struct writer w = frame_begin(WIRE_OK, id);
  write_u32(&w, count);
  for (struct machine *m = all->first; m; m = m->next) {
    if (m->empty) continue;
    write_str(&w, m->name);
    write_u32(&w, (uint32_t)m->sandbox.pid);
    write_u8(&w, (uint8_t)m->state);
  }
  connection_send(from, &w);
}

void machines_forget(struct machines *all, const struct connection *gone) {
  for (struct machine *m = all->first; m; m = m->next) {
    if (m->activator == gone) m->activator = NULL;
    if (m->killer == gone) m->killer = NULL;
  }
}
