/* filters.c: see filters.h. */
#define _GNU_SOURCE
#include "filters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view_source.h"

/* the filter that everything inside runs behind */
#define OURS 1
/* how often processes that were born meanwhile are looked at */
#define LOOKS 16

/* of a process or one of its threads */
struct facts {
  pid_t process;
  uint32_t filters;
  bool gone; /* dead, and only waited for */
};

static long number_after(const char *status, const char *name) {
  const char *line = strstr(status, name);
  return line ? strtol(line + strlen(name), NULL, 10) : 0;
}

static bool look(pid_t pid, struct facts *out) {
  char path[64], status[4096];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof status - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return false;
  status[n] = 0;
  long filters = number_after(status, "\nSeccomp_filters:") - OURS;
  bool dead = strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX");
  /* the first thread may have ended before the others */
  *out = (struct facts){.process = (pid_t)number_after(status, "\nTgid:"),
                        .filters = filters > 0 ? (uint32_t)filters : 0,
                        .gone = dead && number_after(status, "\nThreads:") <= 1};
  return true;
}

static uint32_t row_of(const struct filters *f, pid_t process) {
  uint32_t i = 0;
  while (i < f->count && f->asked[i].process != process) i++;
  return i;
}

static void forget_dead(struct filters *f) {
  for (uint32_t i = f->count; i-- > 0;) {
    struct facts facts;
    if (!look(f->asked[i].process, &facts) || facts.gone) f->asked[i] = f->asked[--f->count];
  }
}

/* numbers are given in order, and from the lowest again after the highest */
static bool is_younger(uint64_t pid, uint64_t after, uint64_t last) {
  return after <= last ? pid > after && pid <= last : pid > after || pid <= last;
}

/* adds those of every process, or of those that began after a number was given and not after another */
static int add_processes(struct filters *f, bool all, uint64_t after, uint64_t last) {
  DIR *proc = opendir("/proc");
  if (!proc) return errno;
  for (const struct dirent *entry; (entry = readdir(proc));) {
    uint64_t pid = strtoull(entry->d_name, NULL, 10); /* 0 for what is no process */
    struct facts facts;
    if (pid == 0 || !(all || is_younger(pid, after, last)) || !look((pid_t)pid, &facts) || facts.gone) continue;
    uint32_t row = row_of(f, facts.process), asked = row < f->count ? f->asked[row].inherited + f->asked[row].own : 0;
    f->most_now += asked > facts.filters ? asked : facts.filters;
  }
  closedir(proc);
  return 0;
}

/*
 * What is alive when this ends was there all the time and is counted, or was born meanwhile: so those are looked at too, until
 * none is born during a look. Otherwise processes that hand their filters on by forking could stay out of sight. Where
 * something is born all the time, as threads of a browser are, many looks have to do: whoever forks is seen, and counted, in
 * nearly each of them.
 */
static int count_again(struct filters *f) {
  forget_dead(f);
  f->most_now = 0;
  uint64_t before = view_last_process();
  int error = add_processes(f, true, 0, 0);
  for (int look = 0; look < LOOKS && !error; look++) {
    uint64_t last = view_last_process();
    if (last == before) return 0;
    error = add_processes(f, false, before, last);
    before = last;
  }
  return error;
}

int filters_permit(struct filters *f, pid_t thread) {
  struct facts facts;
  if (!look(thread, &facts)) return ESRCH;
  int error = f->most_now >= FILTERS_MOST ? count_again(f) : 0;
  if (error) return ENOMEM;
  uint32_t row = row_of(f, facts.process);
  /* every process in the book has asked, and every permission counts: a bound below the limit leaves a row */
  if (f->most_now >= FILTERS_MOST || row == FILTERS_MOST) return ENOMEM;
  if (row == f->count) {
    f->asked[row].process = facts.process;
    f->asked[row].inherited = f->asked[row].own = 0;
    f->count++;
  }
  /* also of a number that was another process's before */
  if (f->asked[row].inherited + f->asked[row].own < facts.filters) f->asked[row].inherited = facts.filters - f->asked[row].own;
  f->asked[row].own++;
  f->most_now++;
  return 0;
}
