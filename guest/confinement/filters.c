/* filters.c: see filters.h. */
#define _GNU_SOURCE
#include "confinement/filters.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/view_source.h"

/* the filter that everything inside runs behind */
#define OURS 1
/* number of rounds over processes that were born meanwhile */
#define LOOKS 16

/* of a process or one of its threads; kernels before 6.11 keep the filters of one that is dead and only waited for */
struct facts {
  pid_t process;
  uint32_t filters;
};

/* whether a line has this name; *number is what it says then */
static bool says(const char *line, const char *name, long *number) {
  size_t length = strlen(name);
  if (strncmp(line, name, length) != 0) return false;
  *number = strtol(line + length, NULL, 10);
  return true;
}

static bool look(pid_t pid, struct facts *out) {
  char path[64], line[128];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *status = fopen(path, "re");
  if (!status) return false;
  long process = 0, filters = 0;
  /* the line of its groups may have 65,536 of them: what is not the beginning of a line is passed over */
  for (bool begins = true; fgets(line, sizeof line, status); begins = strchr(line, '\n') != NULL) {
    if (begins && !says(line, "Tgid:", &process)) says(line, "Seccomp_filters:", &filters);
  }
  fclose(status);
  *out = (struct facts){.process = (pid_t)process, .filters = filters > OURS ? (uint32_t)(filters - OURS) : 0};
  return process > 0;
}

static uint32_t row_of(const struct filters *f, pid_t process) {
  uint32_t i = 0;
  while (i < f->count && f->asked[i].process != process) i++;
  return i;
}

static void forget_dead(struct filters *f) {
  for (uint32_t i = f->count; i-- > 0;) {
    struct facts facts;
    if (!look(f->asked[i].process, &facts)) f->asked[i] = f->asked[--f->count];
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
    if (pid == 0 || !(all || is_younger(pid, after, last)) || !look((pid_t)pid, &facts)) continue;
    uint32_t row = row_of(f, facts.process), asked = row < f->count ? f->asked[row].inherited + f->asked[row].own : 0;
    f->most_now += asked > facts.filters ? asked : facts.filters;
  }
  closedir(proc);
  return 0;
}

/*
 * A process that is alive at the end of a pass existed before it and is counted, or started during it. So passes are repeated
 * until no process starts during one. Otherwise processes that pass their filters on by forking could escape the count. Where
 * processes or threads start all the time, as in a browser, the number of passes is limited: nearly every pass sees, and
 * counts, the one that forks.
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
  int error = f->most_now >= f->most ? count_again(f) : 0;
  if (error) return ENOMEM;
  uint32_t row = row_of(f, facts.process);
  /* every process in the book has asked, and every permission counts: a bound below the limit leaves a row */
  if (f->most_now >= f->most || row == FILTERS_MOST) return ENOMEM;
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
