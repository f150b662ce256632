/* seccomp_check.h: the part of the filter that decides by the arguments of a call, one block for each check of syscalls.h. */
#ifndef SANDKEEP_SECCOMP_CHECK_H
#define SANDKEEP_SECCOMP_CHECK_H

#include "confinement/filter_program.h"
#include "confinement/seccomp.h"
#include "confinement/syscalls.h"

/* every way through the block ends in an answer */
void seccomp_put_check(struct program *p, enum syscall_check check, const struct seccomp_pass *pass, unsigned flags);

#endif
