/* ends.c: opens the pipes or the terminal of a command; see ends.h. */
#define _GNU_SOURCE
#include "agent/ends.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

void ends_close(struct ends *e) {
  int *all = (int *)e;
  for (size_t i = 0; i < sizeof *e / sizeof(int); i++) {
    if (all[i] >= 0) close(all[i]);
  }
}

int ends_terminal(struct ends *e, uint16_t rows, uint16_t columns) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return errno;
  int unlocked = 0;
  struct winsize size = {.ws_row = rows, .ws_col = columns};
  ioctl(master, TIOCSPTLCK, &unlocked);
  ioctl(master, TIOCSWINSZ, &size);
  /* TIOCGPTPEER opens the other side without a path that a program could have replaced */
  int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) {
    int error = errno;
    close(master);
    return error;
  }
  e->out[0] = master;
  e->out[1] = slave;
  return 0;
}

int ends_pipes(struct ends *e, bool input) {
  if (pipe2(e->out, O_CLOEXEC) < 0 || pipe2(e->err, O_CLOEXEC) < 0) return errno;
  if (input) return pipe2(e->in, O_CLOEXEC) < 0 ? errno : 0;
  e->in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return e->in[0] < 0 ? errno : 0;
}
