/*
 * probe.c: tries, from inside a sandbox, one thing that must not work there (or tells what is visible there).
 *
 *   probe list              the names
 *   probe NAME [ARGUMENT]   one attempt: prints "open: …", "closed: …" or "n/a: …" and exits with 1, 0 or 2
 *   probe all               every attempt that needs no argument: lines of name, tab, ending
 *
 * Each attempt is harmless when it succeeds: it opens without writing, passes arguments that are refused after the
 * permission check, or undoes what it did.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* longest an attempt may take, in seconds */
#define TIME_LIMIT 20

static const struct probe *const TABLES[] = {DEVICE_PROBES, FILE_PROBES,      INIT_PROBES,      KERNEL_PROBES,
                                             MOUNT_PROBES,  NAMESPACE_PROBES, PRIVILEGE_PROBES, PROC_PROBES,
                                             SOCKET_PROBES, VIEW_PROBES};
#define TABLE_COUNT (sizeof TABLES / sizeof *TABLES)

const char *probe_argument;
static char scratch[64];

static enum ending attempt(const struct probe *probe);

int main(int argc, char **argv) {
  const char *wanted = argc > 1 ? argv[1] : "";
  if (argc > 2) probe_argument = argv[2];
  int list = strcmp(wanted, "list") == 0, all = strcmp(wanted, "all") == 0;
  for (size_t t = 0; t < TABLE_COUNT; t++)
    for (const struct probe *probe = TABLES[t]; probe->name; probe++) {
      if (list) puts(probe->name);
      if (all) printf("%s\t", probe->name), attempt(probe);
      if (!strcmp(wanted, probe->name)) return (int)attempt(probe);
    }
  if (list || all) return 0;
  fprintf(stderr, "usage: probe list | all | NAME [ARGUMENT]\n");
  return 64;
}

/* In a process of its own: an attempt may be killed for what it does, or leave the process unusable. */
static enum ending attempt(const struct probe *probe) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return untried("cannot fork: %s", strerror(errno));
  if (child == 0) {
    alarm(TIME_LIMIT);
    enum ending ending = probe->run(probe);
    remove_scratch();
    fflush(stdout);
    _exit((int)ending);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status)) return (enum ending)WEXITSTATUS(status);
  if (WTERMSIG(status) == SIGSYS) return is_closed("killed for the attempt");
  return untried("died of %s", strsignal(WTERMSIG(status)));
}

static enum ending say(enum ending ending, const char *word, const char *format, va_list values) {
  printf("%s: ", word);
  vprintf(format, values);
  putchar('\n');
  return ending;
}

enum ending is_open(const char *how, ...) {
  va_list values;
  va_start(values, how);
  enum ending ending = say(OPEN, "open", how, values);
  va_end(values);
  return ending;
}

enum ending is_closed(const char *how, ...) {
  va_list values;
  va_start(values, how);
  enum ending ending = say(CLOSED, "closed", how, values);
  va_end(values);
  return ending;
}

enum ending untried(const char *why, ...) {
  va_list values;
  va_start(values, why);
  enum ending ending = say(UNTRIED, "n/a", why, values);
  va_end(values);
  return ending;
}

enum ending ended(long result) { return result < 0 ? is_closed("%s", strerror(errno)) : is_open("it worked"); }

enum ending reached(long result) {
  if (result >= 0) return is_open("it worked");
  switch (errno) {
    case EPERM:
    case EACCES:
    case EROFS:
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
      return is_closed("%s", strerror(errno));
    default:
      return is_open("only the arguments were refused (%s)", strerror(errno));
  }
}

enum ending probe_opening(const struct probe *probe) {
  int fd = open(probe->path, (int)probe->first | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return is_closed("%s", strerror(errno));
  close(fd);
  return is_open("%s opened", probe->path);
}

int read_line(const char *path, char *line, int room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -errno;
  ssize_t got = read(fd, line, (size_t)room - 1);
  int error = errno;
  close(fd);
  if (got < 0) return -error;
  line[got] = 0;
  line[strcspn(line, "\n")] = 0;
  return (int)strlen(line);
}

int64_t status_number(const char *pid, const char *field, int base) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%s/status", pid);
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  int64_t number = -1;
  size_t length = strlen(field);
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, field, length) && line[length] == ':') number = (int64_t)strtoull(line + length + 1, NULL, base);
  fclose(file);
  return number;
}

const char *scratch_directory(void) {
  static const char *const PLACES[] = {"/tmp", "/var/tmp", "/dev/shm", "."};
  for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
    snprintf(scratch, sizeof scratch, "%s/probe.XXXXXX", PLACES[i]);
    if (mkdtemp(scratch)) return scratch;
  }
  scratch[0] = 0;
  return NULL;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  (void)facts, (void)kind, (void)place;
  return remove(path) && errno != ENOENT ? 1 : 0;
}

void remove_scratch(void) {
  if (scratch[0]) nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  scratch[0] = 0;
}
