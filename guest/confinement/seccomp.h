/* seccomp.h: the filter between a sandbox's programs and the kernel. What it lets through is in syscalls.h. */
#ifndef SANDKEEP_SECCOMP_H
#define SANDKEEP_SECCOMP_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/* more instructions than the filter can need, and fewer than the kernel's own bound of 4096 */
#define SECCOMP_ROOM 1024

/*
 * What tells the agent's own calls from those of programs, where a call is held back (grants.h): the kernel takes some
 * arguments as 32-bit numbers, and the filter sees what stands above them. 96 random bits that only the agent knows.
 */
struct seccomp_pass {
  uint32_t words[3];
};

/*
 * An option: files share no content with others. btrfs charges shared content to the volume that wrote it, until its last
 * user is gone. So one drive could hold content that is charged to another one, even after that one is deleted.
 */
#define SECCOMP_NO_CLONES 1u

/*
 * Puts the calling thread, and all it will ever fork or exec, behind the filter, and ends core dumps for them: neither
 * to a file, nor to the helper that the host's core_pattern may name, which would run as the host's root and parse a
 * hostile process's memory. The filter freezes that limit. It does not set no_new_privs, so that sudo keeps working
 * inside; the kernel then wants CAP_SYS_ADMIN in the caller's user namespace: call it before caps_drop().
 *
 * Calls that are counted go to the reader of `listener`, which must be the caller; without a listener they are allowed.
 * Returns 0 or an errno.
 */
int seccomp_install(const struct seccomp_pass *pass, unsigned options, int *listener);

/*
 * Writes the filter; returns its length, or 0 when it does not fit. With a pass, calls that are counted are held back
 * unless they show it. The tests run it in user space.
 */
size_t seccomp_build(struct sock_filter *program, size_t room, const struct seccomp_pass *pass, unsigned options);

#endif
