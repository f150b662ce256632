/*
 * caller.h: the process inside whose system call the agent makes in its place (grants.h): its memory, its descriptors and
 * files as it would reach them. All of this may wait for the file system of view.h, so never in the agent's own loop.
 */
#ifndef SANDKEEP_CALLER_H
#define SANDKEEP_CALLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "seccomp.h"

struct caller {
  pid_t thread, process;
};

/* 0, or ESRCH when the thread has gone */
int caller_find(pid_t thread, struct caller *out);

/* all of it or EFAULT */
int caller_read(const struct caller *c, uint64_t address, void *to, size_t length);
int caller_write(const struct caller *c, uint64_t address, const void *from, size_t length);

/* its descriptor as one of ours, or -1 with errno */
int caller_descriptor(const struct caller *c, uint64_t fd, const struct seccomp_pass *pass);

/* what a path means to it, opened with O_PATH, under its own permissions; -1 with errno */
int caller_open(const struct caller *c, uint64_t address);

#endif
