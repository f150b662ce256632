/* netd_process.c: sets the limits of netd_process.h. */
#define _GNU_SOURCE
#include "netd_process.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* every sandbox needs some descriptors, and each connection two in Node */
static void raise_descriptor_limit(void) {
  struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* Node has secrets of policies in memory, which must not get to disk. A limit of 1 keeps the host's core dump helper from
 * being started, too, which 0 does not. */
static void end_core_dumps(void) {
  struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
  setrlimit(RLIMIT_CORE, &one);
}

static void drop_capabilities(void) {
  for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
  syscall(SYS_capset, &header, none);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void netd_limit(void) {
  raise_descriptor_limit();
  end_core_dumps();
}

void netd_confine(void) {
  netd_limit();
  drop_capabilities();
}
