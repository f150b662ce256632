/* launch.h: the resident, privileged process that makes sandboxes for the daemon. */
#ifndef SANDKEEP_LAUNCH_H
#define SANDKEEP_LAUNCH_H

/* run: the launcher's own folder; egress: the command line of the proxy process. Serves until SHUTDOWN; exit code. */
int launch_main(const char *run, char *const egress[]);

#endif
