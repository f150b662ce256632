/*
 * machine_writes.c: stops a machine's programs from writing more to its files, where no file system enforces a limit.
 *
 *   WRITES  str machine, str file that lists its processes (cgroup.procs), u8 allowed -> OK
 *
 * A limit of 0 on the size of files makes every write beyond it fail with EFBIG, in programs that run already too (the
 * signal that comes with it is ignored from their start, see spawn.c); reading and deleting go on. Root inside cannot
 * raise it again: that takes CAP_SYS_RESOURCE on the host. Where the launcher lacks it too, the owner of the sandbox's user
 * namespace may still lower limits; programs that were stopped stay so, and those that are started afterwards write
 * again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "launcher/machine.h"
#include "sandbox/sandbox.h"

/* every process of the machine but its agent, which has output to keep */
static int limit_all(const char *list, const struct machine *m, bool allowed) {
  FILE *file = fopen(list, "re");
  if (!file) return errno;
  int error = become_owner(m->base);
  struct rlimit limit = {allowed ? RLIM_INFINITY : 0, allowed ? RLIM_INFINITY : 0};
  for (int pid; !error && fscanf(file, "%d", &pid) == 1;) {
    /* one that ended meanwhile writes no more anyway */
    if (pid != m->sandbox.pid) prlimit(pid, RLIMIT_FSIZE, &limit, NULL);
  }
  if (!error) become_launcher();
  fclose(file);
  return error;
}

void machine_writes(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  char *list = read_string(r);
  bool allowed = read_u8(r) != 0;
  struct machine *m = NULL;
  if (!reader_done(r)) machine_malformed(from, id);
  else m = machine_named(all, from, id, name);
  int error = m ? limit_all(list, m, allowed) : 0;
  if (m && error) connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot stop writes: %s", strerror(error));
  else if (m) connection_ok(from, id);
  free(list);
}
