/* view_source.c: reads the cgroup files of view_source.h, of version 1 and 2. */
#define _GNU_SOURCE
#include "view/view_source.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* below the sandbox's root, which is the working directory of both its first process, which builds it, and the agent */
#define CGROUPS "sys/fs/cgroup/"
/* memory.stat is the longest: about 2 KiB */
#define LONGEST 8192

static struct view_source source = {.cpu_time = -1, .processes = -1};

void view_source_set(const struct view_source *given) { source = *given; }

const struct view_source *view_source(void) { return &source; }

uint64_t view_field(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, length) == 0 && line[length] == ' ') return strtoull(line + length + 1, NULL, 10);
  }
  return 0;
}

/* false leaves an empty text */
static bool read_text(int fd, char text[LONGEST]) {
  ssize_t got = fd < 0 ? -1 : pread(fd, text, LONGEST - 1, 0);
  text[got > 0 ? got : 0] = 0;
  return got > 0;
}

static bool read_path(const char *path, char text[LONGEST]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool read = read_text(fd, text);
  if (fd >= 0) close(fd);
  return read;
}

/* the file of version 2, or else that of version 1; "max" is more than any host has */
static uint64_t read_number(const char *second, const char *first) {
  char text[LONGEST];
  if (!read_path(second, text) && !read_path(first, text)) return 0;
  return strncmp(text, "max", 3) == 0 ? UINT64_MAX : strtoull(text, NULL, 10);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* version 1 writes "total_" before what counts for the cgroup and all below it */
static struct view_memory first_version(const char *text) {
  return (struct view_memory){
      .file = view_field(text, "total_cache"),
      .anonymous = view_field(text, "total_rss"),
      .shared = view_field(text, "total_shmem"),
      .mapped = view_field(text, "total_mapped_file"),
      .dirty = view_field(text, "total_dirty"),
      .writeback = view_field(text, "total_writeback"),
      .huge = view_field(text, "total_rss_huge"),
      .active_anonymous = view_field(text, "total_active_anon"),
      .inactive_anonymous = view_field(text, "total_inactive_anon"),
      .active_file = view_field(text, "total_active_file"),
      .inactive_file = view_field(text, "total_inactive_file"),
      .locked = view_field(text, "total_unevictable"),
      .faults = view_field(text, "total_pgfault"),
      .major_faults = view_field(text, "total_pgmajfault"),
  };
}

static struct view_memory second_version(const char *text) {
  return (struct view_memory){
      .file = view_field(text, "file"),
      .anonymous = view_field(text, "anon"),
      .shared = view_field(text, "shmem"),
      .mapped = view_field(text, "file_mapped"),
      .dirty = view_field(text, "file_dirty"),
      .writeback = view_field(text, "file_writeback"),
      .huge = view_field(text, "anon_thp"),
      .active_anonymous = view_field(text, "active_anon"),
      .inactive_anonymous = view_field(text, "inactive_anon"),
      .active_file = view_field(text, "active_file"),
      .inactive_file = view_field(text, "inactive_file"),
      .locked = view_field(text, "unevictable"),
      .slab_reclaimable = view_field(text, "slab_reclaimable"),
      .slab_fixed = view_field(text, "slab_unreclaimable"),
      .stacks = view_field(text, "kernel_stack"),
      .page_tables = view_field(text, "pagetables"),
      .faults = view_field(text, "pgfault"),
      .major_faults = view_field(text, "pgmajfault"),
  };
}

struct view_memory view_memory(void) {
  char text[LONGEST];
  struct view_memory m = {0};
  if (read_path(CGROUPS "memory.stat", text)) m = second_version(text);
  else if (read_path(CGROUPS "memory/memory.stat", text)) m = first_version(text);
  uint64_t limit = read_number(CGROUPS "memory.max", CGROUPS "memory/memory.limit_in_bytes");
  uint64_t used = read_number(CGROUPS "memory.current", CGROUPS "memory/memory.usage_in_bytes");
  m.total = smaller(limit ? limit : UINT64_MAX, source.host_memory);
  m.free = m.total - smaller(used, m.total);
  /* before a program is killed for memory, the kernel takes back what it can read again from the disk */
  m.available = smaller(m.free + m.active_file + m.inactive_file + m.slab_reclaimable, m.total);
  return m;
}

struct view_time view_time(void) {
  char text[LONGEST];
  if (!read_text(source.cpu_time, text)) return (struct view_time){0};
  if (strstr(text, "user_usec")) {
    return (struct view_time){.user = view_field(text, "user_usec"), .system = view_field(text, "system_usec")};
  }
  uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
  return (struct view_time){.user = view_field(text, "user") * tick, .system = view_field(text, "system") * tick};
}

uint64_t view_processes(void) { return read_number(CGROUPS "pids.current", CGROUPS "pids/pids.current"); }

uint64_t view_last_process(void) {
  char text[LONGEST];
  const char *last = read_text(source.processes, text) ? strrchr(text, ' ') : NULL;
  return last ? strtoull(last + 1, NULL, 10) : 0;
}
