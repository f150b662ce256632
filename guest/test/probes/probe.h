/* probe.h: what the probe_*.c files share: a table of attempts each, and the words in which an attempt ends. */
#ifndef SANDKEEP_PROBE_H
#define SANDKEEP_PROBE_H

#include <stdint.h>

/* How an attempt ended; also the exit status of `probe NAME`. */
enum ending {
  CLOSED = 0, /* it did not work */
  OPEN = 1,   /* it worked, or the kernel got as far as looking at arguments that only the permitted may pass */
  UNTRIED = 2 /* this machine lacks what it takes to try */
};

struct probe {
  const char *name;
  enum ending (*run)(const struct probe *probe);
  /* what `run` tries, where several probes share one function */
  const char *path;
  long first, second, third;
};

/* each ends with an entry without a name */
extern const struct probe DEVICE_PROBES[];
extern const struct probe FILE_PROBES[];
extern const struct probe INIT_PROBES[];
extern const struct probe KERNEL_PROBES[];
extern const struct probe MOUNT_PROBES[];
extern const struct probe NAMESPACE_PROBES[];
extern const struct probe PRIVILEGE_PROBES[];
extern const struct probe PROC_PROBES[];
extern const struct probe SOCKET_PROBES[];
extern const struct probe VIEW_PROBES[];

/* what follows the name on the command line, or NULL */
extern const char *probe_argument;

/* Each prints the attempt's one line of output. */
enum ending is_open(const char *how, ...) __attribute__((format(printf, 1, 2)));
enum ending is_closed(const char *how, ...) __attribute__((format(printf, 1, 2)));
enum ending untried(const char *why, ...) __attribute__((format(printf, 1, 2)));
/* open when a call's result is not negative, else closed with its errno */
enum ending ended(long result);
/*
 * For calls with arguments that make them harmless: closed when the kernel said that one may not (EPERM, EACCES, EROFS)
 * or that there is no such thing (ENOSYS …), open when it said anything else, even that the arguments are wrong
 */
enum ending reached(long result);

/* opens `path` with `first` as flags, and closes it again */
enum ending probe_opening(const struct probe *probe);

/* "Name:" of /proc/PID/status as a hexadecimal or decimal number; -1 when it is not there */
int64_t status_number(const char *pid, const char *field, int base);

/* the first line of a file, cut to the room there is; negative errno or its length */
int read_line(const char *path, char *line, int room);

/* a fresh directory that this user may write; NULL when there is none; remove_scratch() removes it and what is in it */
const char *scratch_directory(void);
void remove_scratch(void);

#endif
