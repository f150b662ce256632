/*
 * filters.h: how many system call filters programs of a sandbox have installed. The kernel compiles each, to up to 110 KiB of
 * code, charges that to no cgroup and has one limit for the whole host (net.core.bpf_jit_limit). Once that is used up no other
 * sandbox can start, nor can programs of the host that lock themselves up, sshd for example. So each sandbox has FILTERS_MOST.
 *
 * The agent cannot install a filter in a program's place. It only lets the call go on, and the program may then install a
 * longer filter than it showed: so filters are counted, and not what is in them. A filter lives as long as a thread has it,
 * be it inherited, and the kernel tells only how many each thread has. So the book holds an upper bound:
 *
 *   a process that has asked     what it had inherited when it first asked, and each time that it was let on
 *   any other process            as many as it has
 *
 * Between two counts of all processes every permission adds one; processes are counted again when the bound is reached.
 *
 * Many sandboxes that take all they may would still use up what the host has. The daemon watches for that, and lowers how many
 * each may have (src/runtime/linux/host/filter-watch.ts).
 */
#ifndef SANDKEEP_FILTERS_H
#define SANDKEEP_FILTERS_H

#include <stdint.h>
#include <sys/types.h>

/* what one sandbox may have at the same time, besides the one that it runs behind; browsers have one in each process */
#define FILTERS_MOST 128

struct filters {
  uint32_t most; /* that there may be now: at most FILTERS_MOST */
  uint32_t most_now; /* there are not more than these */
  uint32_t count;
  struct {
    pid_t process;
    uint32_t inherited, own;
  } asked[FILTERS_MOST];
};

/* 0 when a thread may install another, or what its call fails with. Reads /proc, and view_last_process(). `f` begins as zeroes but for `most` */
int filters_permit(struct filters *f, pid_t thread);

#endif
