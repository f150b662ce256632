/*
 * allow_list.h: a seccomp filter for one of our own processes: the calls that it makes, and nothing else.
 *
 * A call that is not listed answers ENOSYS, as on a kernel that lacks it: the C library and Node then use an older one,
 * or report an error that says what happened. Calls of another architecture end the process.
 */
#ifndef SANDKEEP_ALLOW_LIST_H
#define SANDKEEP_ALLOW_LIST_H

#include <stddef.h>

/* A call that is allowed only with some values of one argument. The kernel takes each of these arguments as a 32-bit
 * number, so the filter compares the lower half. */
struct argument_rule {
  unsigned call;
  /* which argument, from 0 */
  unsigned argument;
  /* bits that must be set, and bits that must not be */
  unsigned wanted, unwanted;
  /* the values that are allowed; NULL for all */
  const unsigned *values;
  size_t count;
  /* what any other value answers */
  int error;
};

struct allow_list {
  /* calls that are allowed with all arguments */
  const unsigned *calls;
  size_t call_count;
  const struct argument_rule *rules;
  size_t rule_count;
};

/* Puts the calling thread and all that it makes behind the filter. It must have set no_new_privs. Returns 0 or an errno. */
int allow_list_install(const struct allow_list *list);

#endif
