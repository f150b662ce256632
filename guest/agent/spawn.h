/* spawn.h: what a command's process does between fork and exec, inside the sandbox. */
#ifndef SANDKEEP_SPAWN_H
#define SANDKEEP_SPAWN_H

#include "shared/wire.h"

struct spawn {
  char *user;
  char **groups;
  char *cwd; /* empty: the user's home */
  char **argv;
  char **env;
  int in, out, err;
  /* the terminal that becomes its controlling one, or -1 */
  int terminal;
  /* close-on-exec: says what failed, or closes when the program runs */
  int status;
};

/* what is written to `status` when the program cannot be run */
struct spawn_failure {
  int error;
  enum wire_what what;
};

_Noreturn void spawn_child(struct spawn *s);
void spawn_free(struct spawn *s);

#endif
