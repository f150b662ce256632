/*
 * caller.h: the process inside whose system call the agent makes in its place (grants.h): its memory, its descriptors and
 * files as it would reach them. All of this may wait for the file system of view.h, so never in the agent's own loop.
 */
#ifndef SANDKEEP_CALLER_H
#define SANDKEEP_CALLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "confinement/seccomp.h"

#define CALLER_STATUS 4096

/*
 * Once the thread has gone, its number may become another's. So the code that finds a caller asks the kernel afterwards whether
 * its call still waits: then all of this is the caller's own, and stays so.
 */
struct caller {
  pid_t thread, process;
  int memory, pidfd;
  char status[CALLER_STATUS]; /* of /proc, with its user and groups */
};

/* 0, or an errno when the thread has gone; give it back with caller_drop() either way */
int caller_find(pid_t thread, struct caller *out);
void caller_drop(struct caller *c);

/* all of it or EFAULT */
int caller_read(const struct caller *c, uint64_t address, void *to, size_t length);
int caller_write(const struct caller *c, uint64_t address, const void *from, size_t length);

/* its descriptor as one of ours, or -1 with errno */
int caller_descriptor(const struct caller *c, uint64_t fd, const struct seccomp_pass *pass);

/* makes what belongs to a user as a thread would; 0 or errno, and caller_leave() ends it either way */
int caller_enter(pid_t thread);
void caller_leave(void);

/* what a path means to it, opened with O_PATH, under its own permissions; -1 with errno */
int caller_open(const struct caller *c, uint64_t address);

#endif
