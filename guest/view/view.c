/* view.c: the texts of the files of view.h, and the agent's part in serving them. view_mount.c puts them in place. */
#define _GNU_SOURCE
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "shared/loop.h"
#include "view/view_files.h"

#define MICROSECONDS 1000000u
/* the kernel computes its load averages at this interval */
#define LOAD_INTERVAL (5 * (uint64_t)MICROSECONDS)

/* ---- what is the same for every sandbox, learned by the launcher ---- */

/* of /proc/cpuinfo the part about one processor, to its empty line; of /proc/cgroups all; highest number of open files */
static char processor[8192], controllers[2048], most_files[32];

static void learn(const char *path, char *text, size_t room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  for (ssize_t got; fd >= 0 && length < room - 1 && (got = read(fd, text + length, room - 1 - length)) > 0;) length += (size_t)got;
  text[length] = 0;
  if (fd >= 0) close(fd);
}

void view_learn(void) {
  learn("/proc/cpuinfo", processor, sizeof processor);
  char *end = strstr(processor, "\n\n");
  if (!end) end = strrchr(processor, '\n');
  if (end) end[1] = 0;
  learn("/proc/cgroups", controllers, sizeof controllers);
  learn("/proc/sys/fs/file-max", most_files, sizeof most_files);
}

/* ---- what this sandbox is ---- */

static uint64_t began;
static uint32_t cpus = 1;

/* in microseconds */
static uint64_t at(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * MICROSECONDS + (uint64_t)now.tv_nsec / 1000;
}

/* what programs know as the time since the system was started: the sandbox's own, where it has a clock of its own (clock.h) */
static uint64_t up(void) { return at(CLOCK_BOOTTIME); }

/* a random UUID; the same for as long as the sandbox runs */
static char boot[37];

static int choose_boot_id(void) {
  uint8_t bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return errno;
  bytes[6] = (uint8_t)(0x40 | (bytes[6] & 0x0f));
  bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f));
  char *end = boot;
  for (size_t i = 0; i < sizeof bytes; i++) {
    end += sprintf(end, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
  }
  return 0;
}

int view_describe(uint32_t shown, const struct view_source *source) {
  cpus = shown ? shown : 1;
  began = up();
  view_source_set(source);
  return choose_boot_id();
}

/* ---- writing ---- */

struct out {
  char *text;
  size_t room, length;
};

/* what does not fit is left out, and everything after it */
__attribute__((format(printf, 2, 3))) static void say(struct out *o, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(o->text + o->length, o->room - o->length, format, args);
  va_end(args);
  if (length >= 0 && (size_t)length < o->room - o->length) o->length += (size_t)length;
  else o->room = o->length + 1;
}

/* ---- memory ---- */

static size_t meminfo(char *text, size_t room) {
  struct view_memory m = view_memory();
  const struct {
    const char *name;
    uint64_t bytes;
  } lines[] = {
      {"MemTotal", m.total},
      {"MemFree", m.free},
      {"MemAvailable", m.available},
      {"Buffers", 0},
      {"Cached", m.file},
      {"SwapCached", 0},
      {"Active", m.active_anonymous + m.active_file},
      {"Inactive", m.inactive_anonymous + m.inactive_file},
      {"Active(anon)", m.active_anonymous},
      {"Inactive(anon)", m.inactive_anonymous},
      {"Active(file)", m.active_file},
      {"Inactive(file)", m.inactive_file},
      {"Unevictable", m.locked},
      {"Mlocked", m.locked},
      {"SwapTotal", 0},
      {"SwapFree", 0},
      {"Dirty", m.dirty},
      {"Writeback", m.writeback},
      {"AnonPages", m.anonymous},
      {"Mapped", m.mapped},
      {"Shmem", m.shared},
      {"KReclaimable", m.slab_reclaimable},
      {"Slab", m.slab_reclaimable + m.slab_fixed},
      {"SReclaimable", m.slab_reclaimable},
      {"SUnreclaim", m.slab_fixed},
      {"KernelStack", m.stacks},
      {"PageTables", m.page_tables},
      {"NFS_Unstable", 0},
      {"Bounce", 0},
      {"WritebackTmp", 0},
      {"CommitLimit", m.total},
      {"Committed_AS", m.anonymous + m.shared},
      {"VmallocTotal", 0},
      {"VmallocUsed", 0},
      {"VmallocChunk", 0},
      {"AnonHugePages", m.huge},
  };
  struct out o = {.text = text, .room = room};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    say(&o, "%s:%*llu kB\n", lines[i].name, 23 - (int)strlen(lines[i].name), (unsigned long long)lines[i].bytes / 1024);
  }
  say(&o, "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\n");
  say(&o, "Hugepagesize:       2048 kB\nHugetlb:               0 kB\n");
  return o.length;
}

static size_t vmstat(char *text, size_t room) {
  struct view_memory m = view_memory();
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  const struct {
    const char *name;
    uint64_t value;
  } lines[] = {
      {"nr_free_pages", m.free / page},
      {"nr_inactive_anon", m.inactive_anonymous / page},
      {"nr_active_anon", m.active_anonymous / page},
      {"nr_inactive_file", m.inactive_file / page},
      {"nr_active_file", m.active_file / page},
      {"nr_anon_pages", m.anonymous / page},
      {"nr_mapped", m.mapped / page},
      {"nr_file_pages", m.file / page},
      {"nr_dirty", m.dirty / page},
      {"nr_writeback", m.writeback / page},
      {"nr_shmem", m.shared / page},
      {"pgpgin", 0},
      {"pgpgout", 0},
      {"pswpin", 0},
      {"pswpout", 0},
      {"pgfault", m.faults},
      {"pgmajfault", m.major_faults},
  };
  struct out o = {.text = text, .room = room};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) say(&o, "%s %llu\n", lines[i].name, (unsigned long long)lines[i].value);
  return o.length;
}

static size_t swaps(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
  return o.length;
}

/* ---- processors ---- */

/* lines that say which processor it is, and which of how many; the others are the same for all */
static bool say_own(struct out *o, const char *line, uint32_t cpu) {
  static const char *const counts[] = {"siblings", "cpu cores"}, *const numbers[] = {"processor", "core id", "apicid", "initial apicid"};
  const char *colon = strchr(line, ':'), *newline = strchr(line, '\n');
  if (!colon || !newline || colon > newline) return false;
  size_t length = (size_t)(colon - line);
  while (length > 0 && line[length - 1] == '\t') length--;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (strlen(counts[i]) != length || strncmp(line, counts[i], length) != 0) continue;
    say(o, "%.*s: %u\n", (int)(colon - line), line, cpus);
    return true;
  }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (strlen(numbers[i]) != length || strncmp(line, numbers[i], length) != 0) continue;
    say(o, "%.*s: %u\n", (int)(colon - line), line, cpu);
    return true;
  }
  return false;
}

static size_t cpuinfo(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    for (const char *line = processor, *end; *line; line = end) {
      end = strchrnul(line, '\n');
      if (*end) end++;
      if (!say_own(&o, line, cpu)) say(&o, "%.*s", (int)(end - line), line);
    }
    say(&o, "\n");
  }
  return o.length;
}

/* microseconds that its processors have had nothing to do for the sandbox; never less than it said before */
static uint64_t idle(const struct view_time *t) {
  static uint64_t before;
  uint64_t all = cpus * (up() - began), busy = t->user + t->system;
  if (all > busy && all - busy > before) before = all - busy;
  return before;
}

/* processors in use, on average over 1, 5 and 15 minutes, and lately */
struct load {
  double average[3], now;
};

static double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

/*
 * Computed when it is asked for, so that an idle sandbox costs nothing: what was used since the last question counts as
 * spread evenly over that time.
 */
static struct load load_now(const struct view_time *t) {
  /* what is left of an average after one interval: e to the power of -5/60, -5/300, -5/900 */
  static const double left[3] = {0.920044, 0.983471, 0.994460};
  static struct load load;
  static uint64_t last, used;
  if (last == 0) last = began;
  uint64_t now = up(), busy = t->user + t->system, intervals = (now - last) / LOAD_INTERVAL;
  if (intervals == 0) return load;
  load.now = busy > used ? (double)(busy - used) / (double)(now - last) : 0;
  for (int i = 0; i < 3; i++) {
    double kept = power(left[i], intervals);
    load.average[i] = load.average[i] * kept + load.now * (1 - kept);
  }
  last = now;
  used = busy;
  return load;
}

/* at least the one that asks */
static uint64_t running(const struct load *load) { return load->now < 1 ? 1 : (uint64_t)(load->now + 0.5); }

static size_t loadavg(char *text, size_t room) {
  struct view_time t = view_time();
  struct load load = load_now(&t);
  struct out o = {.text = text, .room = room};
  say(&o, "%.2f %.2f %.2f %llu/%llu %llu\n", load.average[0], load.average[1], load.average[2],
      (unsigned long long)running(&load), (unsigned long long)view_processes(), (unsigned long long)view_last_process());
  return o.length;
}

static size_t uptime(char *text, size_t room) {
  struct view_time t = view_time();
  struct out o = {.text = text, .room = room};
  say(&o, "%.2f %.2f\n", (double)up() / MICROSECONDS, (double)idle(&t) / MICROSECONDS);
  return o.length;
}

static size_t stat(char *text, size_t room) {
  uint64_t tick = MICROSECONDS / (uint64_t)sysconf(_SC_CLK_TCK);
  struct view_time t = view_time();
  struct load load = load_now(&t);
  unsigned long long user = t.user / tick, system = t.system / tick, nothing = idle(&t) / tick;
  struct out o = {.text = text, .room = room};
  say(&o, "cpu  %llu 0 %llu %llu 0 0 0 0 0 0\n", user, system, nothing);
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    /* the kernel does not count for a cgroup which processor it was: each has its share, the first the rest */
    unsigned long long first = cpu == 0;
    say(&o, "cpu%u %llu 0 %llu %llu 0 0 0 0 0 0\n", cpu, user / cpus + first * (user % cpus),
        system / cpus + first * (system % cpus), nothing / cpus + first * (nothing % cpus));
  }
  say(&o, "intr 0\nctxt 0\nbtime %llu\nprocesses %llu\nprocs_running %llu\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
      (unsigned long long)((at(CLOCK_REALTIME) - up()) / MICROSECONDS), (unsigned long long)view_last_process(),
      (unsigned long long)running(&load));
  return o.length;
}

void view_sysinfo(struct sysinfo *out) {
  struct view_memory m = view_memory();
  struct view_time t = view_time();
  struct load load = load_now(&t);
  *out = (struct sysinfo){.uptime = (long)(up() / MICROSECONDS),
                          .totalram = m.total,
                          .freeram = m.free,
                          .sharedram = m.shared,
                          .procs = (unsigned short)view_processes(),
                          .mem_unit = 1};
  for (int i = 0; i < 3; i++) out->loads[i] = (unsigned long)(load.average[i] * (1 << SI_LOAD_SHIFT));
}

/* ---- counts and names of the whole host ---- */

/* all but the third column, which says how many cgroups there are */
static size_t cgroups(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  for (const char *line = controllers, *end; *line; line = end) {
    char name[64];
    unsigned hierarchy, count, enabled;
    end = strchrnul(line, '\n');
    if (*end) end++;
    if (sscanf(line, "%63s %u %u %u", name, &hierarchy, &count, &enabled) == 4) say(&o, "%s\t%u\t1\t%u\n", name, hierarchy, enabled);
    else if (*line == '#') say(&o, "%.*s", (int)(end - line), line);
  }
  return o.length;
}

static size_t file_nr(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "0\t0\t%s", *most_files ? most_files : "0\n");
  return o.length;
}

static size_t inode_nr(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "0\t0\n");
  return o.length;
}

static size_t inode_state(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "0\t0\t0\t0\t0\t0\t0\n");
  return o.length;
}

static size_t dentry_state(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "0\t0\t45\t0\t0\t0\n");
  return o.length;
}

static size_t boot_id(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "%s\n", boot);
  return o.length;
}

static size_t zero(char *text, size_t room) {
  struct out o = {.text = text, .room = room};
  say(&o, "0\n");
  return o.length;
}

/* ---- all of them ---- */

static const struct fuse_file files[] = {
    {"meminfo", meminfo},   {"vmstat", vmstat},     {"swaps", swaps},       {"cpuinfo", cpuinfo},
    {"loadavg", loadavg},   {"uptime", uptime},     {"stat", stat},         {"cgroups", cgroups},
    {"file-nr", file_nr},   {"inode-nr", inode_nr}, {"inode-state", inode_state},
    {"dentry-state", dentry_state}, {"aio-nr", zero}, {"pty-nr", zero}, {"boot_id", boot_id},
};

const struct fuse_directory view_files = {.files = files, .count = sizeof files / sizeof *files};

/* one request each time: others in the loop get their turn in between */
static void on_request(struct source *requests, uint32_t events) {
  (void)events;
  int error = fuse_serve(&view_files, requests->fd);
  if (error == ENODEV) loop_remove(requests);
}

int view_begin(int fd) {
  static struct source requests;
  return loop_add(&requests, fd, EPOLLIN, on_request);
}
