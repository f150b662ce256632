/* holder.c: looks through /proc for the process that holds a socket; see holder.h. */
#define _GNU_SOURCE
#include "agent/holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared/wire.h"

/* of one search: processes, descriptors of a process, descriptors of all, and microseconds */
#define PROCESSES 4096
#define LINKS_OF_ONE 4096
#define LINKS 16384
#define LONGEST_SEARCH 20000
/* of all searches: microseconds a second, and at once */
#define SEARCHING 100000
/* processes that held what was asked for last: the next question is most likely about one of them */
#define RECENT 8
#define ANCESTORS 64
/* longest name of a process, with its final 0 */
#define PROGRAM 64

struct process {
  pid_t pid, parent, session;
  uint64_t start; /* in the kernel's ticks since the host was booted */
  char program[PROGRAM];
};

static pid_t recent[RECENT];
static int64_t deadline;
static unsigned links;

static int64_t microseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool is_over(void) { return links >= LINKS || microseconds(CLOCK_MONOTONIC) >= deadline; }

/* ---- one process ---- */

/* a descriptor of the process that has the pid now; it never means a later process with the same pid */
static int open_process(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d", pid);
  return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The kernel shows descriptors to processes with the same user and group, which /proc gives as the owner. */
static void look_as_owner(int process) {
  struct stat facts;
  if (fstat(process, &facts) < 0) return;
  setfsgid(facts.st_gid);
  setfsuid(facts.st_uid);
}

static void look_as_root(void) {
  setfsuid(0);
  setfsgid(0);
}

static bool links_to(DIR *descriptors, const char *wanted) {
  size_t length = strlen(wanted);
  struct dirent *entry;
  for (unsigned n = 0; n < LINKS_OF_ONE && (entry = readdir(descriptors)); n++) {
    char target[64];
    links++;
    if (entry->d_name[0] == '.') continue;
    /* only what is no file has a name that does not begin with a slash, so no program can forge one like this */
    ssize_t got = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target);
    if (got == (ssize_t)length && memcmp(target, wanted, length) == 0) return true;
    if (n % 64 == 63 && is_over()) return false;
  }
  return false;
}

static bool holds(int process, const char *wanted) {
  look_as_owner(process);
  int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *descriptors = fd < 0 ? NULL : fdopendir(fd);
  bool found = descriptors && links_to(descriptors, wanted);
  if (descriptors) closedir(descriptors);
  else if (fd >= 0) close(fd);
  look_as_root();
  return found;
}

/* "<pid> (<program>) <state> <parent> …": the program's name may hold anything, a bracket too */
static bool parse_stat(char *text, struct process *out) {
  char *open = strchr(text, '('), *close = strrchr(text, ')');
  if (!open || !close || close < open) return false;
  *close = 0;
  snprintf(out->program, sizeof out->program, "%s", open + 1);
  unsigned long long start;
  if (sscanf(close + 1,
             " %*c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &out->parent,
             &out->session, &start) != 3) {
    return false;
  }
  out->start = start;
  return true;
}

static bool describe(int process, pid_t pid, struct process *out) {
  char text[1024];
  int fd = openat(process, "stat", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (got <= 0) return false;
  text[got] = 0;
  out->pid = pid;
  return parse_stat(text, out);
}

/* ---- all processes ---- */

/* whether the process holds the socket, and if so what it is */
static bool is_holder(pid_t pid, const char *wanted, struct process *out) {
  int process = open_process(pid);
  if (process < 0) return false;
  bool found = holds(process, wanted) && describe(process, pid, out);
  close(process);
  return found;
}

static void remember(pid_t pid) {
  size_t at = 0;
  while (at < RECENT - 1 && recent[at] != pid) at++;
  memmove(recent + 1, recent, at * sizeof *recent);
  recent[0] = pid;
}

static size_t list_processes(pid_t out[PROCESSES]) {
  DIR *proc = opendir("/proc");
  if (!proc) return 0;
  size_t count = 0;
  struct dirent *entry;
  while (count < PROCESSES && (entry = readdir(proc))) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    /* neither the agent nor its copies make connections to the outside */
    if (pid > 1 && pid != getpid()) out[count++] = pid;
  }
  closedir(proc);
  return count;
}

/* from the youngest on: most of what connects has just begun */
static bool search_all(const char *wanted, struct process *out) {
  static pid_t pids[PROCESSES];
  for (size_t at = list_processes(pids); at > 0 && !is_over(); at--) {
    if (is_holder(pids[at - 1], wanted, out)) return true;
  }
  return false;
}

/* microseconds that may still be spent, after those of the last search */
static int64_t left_to_spend(int64_t spent) {
  static int64_t left = SEARCHING, at;
  int64_t now = microseconds(CLOCK_MONOTONIC);
  left += (now - at) / (1000000 / SEARCHING);
  at = now;
  if (left > SEARCHING) left = SEARCHING;
  left -= spent;
  return left;
}

static bool find(const char *wanted, struct process *out) {
  int64_t begin = microseconds(CLOCK_MONOTONIC);
  if (left_to_spend(0) <= 0) return false;
  deadline = begin + LONGEST_SEARCH;
  links = 0;
  bool found = false;
  for (size_t i = 0; i < RECENT && recent[i] && !found; i++) found = is_holder(recent[i], wanted, out);
  if (!found) found = search_all(wanted, out);
  if (found) remember(out->pid);
  left_to_spend(microseconds(CLOCK_MONOTONIC) - begin);
  return found;
}

/* ---- answers ---- */

static uint64_t started_at(const struct process *p) {
  int64_t since_boot = (int64_t)(p->start * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK)));
  int64_t at = microseconds(CLOCK_REALTIME) - microseconds(CLOCK_BOOTTIME) + since_boot;
  return at < 0 ? 0 : (uint64_t)at / 1000;
}

/* the process and its ancestors as far as they are there; one that died meanwhile has left its children to the agent */
static uint16_t ancestry(struct process chain[ANCESTORS]) {
  uint16_t count = 1;
  while (count < ANCESTORS && chain[count - 1].parent > 1) {
    const struct process *child = &chain[count - 1];
    int process = open_process(child->parent);
    bool known = process >= 0 && describe(process, child->parent, &chain[count]);
    if (process >= 0) close(process);
    if (!known || chain[count].start > child->start) break;
    count++;
  }
  return count;
}

static int answer(int fd, uint32_t id, uint64_t inode) {
  static struct process chain[ANCESTORS];
  char wanted[64];
  snprintf(wanted, sizeof wanted, "socket:[%llu]", (unsigned long long)inode);
  uint16_t count = find(wanted, &chain[0]) ? ancestry(chain) : 0;
  struct writer w = frame_begin(WIRE_OK, id);
  write_str(&w, count ? chain[0].program : "");
  write_u16(&w, count);
  for (uint16_t i = 0; i < count; i++) {
    write_u32(&w, (uint32_t)chain[i].pid);
    write_u32(&w, (uint32_t)chain[i].session);
    write_u64(&w, started_at(&chain[i]));
  }
  return send_frame(fd, &w);
}

void serve_holders(int fd, uint32_t id) {
  /* so that people who look at processes see what this one is for */
  prctl(PR_SET_NAME, "sandkeep-holder");
  int error = send_ok(fd, id);
  while (!error) {
    struct header header;
    uint8_t *payload;
    error = recv_frame(fd, &header, &payload);
    if (error) return;
    struct reader r = reader_of(payload, header.length);
    uint64_t inode = read_u64(&r);
    if (header.type == WIRE_HOLDER && reader_done(&r)) error = answer(fd, header.id, inode);
    else error = send_fail(fd, header.id, EBADMSG, WIRE_WHAT_REQUEST, "Cannot find the process: the request is malformed");
    free(payload);
  }
}
