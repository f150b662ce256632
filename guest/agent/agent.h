/* agent.h: the process with PID 1 of each sandbox. */
#ifndef SANDKEEP_AGENT_H
#define SANDKEEP_AGENT_H

#include "confinement/seccomp.h"

struct agent_fds {
  int listener;      /* unix socket on which the daemon connects */
  int journal;       /* directory for journals, outside of the sandbox's view */
  int memory_events; /* the cgroup's count of memory kills, or -1 */
  int grants;        /* on which the filter tells of calls that are counted, or -1 */
  int view;          /* on which programs ask for the files of view.h, or -1 */
  struct seccomp_pass pass;
};

/* serves until it is killed */
_Noreturn void agent_run(const struct agent_fds *fds);

#endif
