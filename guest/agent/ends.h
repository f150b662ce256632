/* ends.h: both ends of what connects a command with the agent: ours first, the command's second, but for its input. */
#ifndef SANDKEEP_ENDS_H
#define SANDKEEP_ENDS_H

#include <stdbool.h>
#include <stdint.h>

/* -1 where there is none */
struct ends {
  int in[2], out[2], err[2], status[2];
};

/* all return 0 or an errno; what was opened is closed by ends_close() */
int ends_terminal(struct ends *e, uint16_t rows, uint16_t columns);
int ends_pipes(struct ends *e, bool input);
void ends_close(struct ends *e);

#endif
