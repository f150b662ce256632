/* confine.c: see confine.h. */
#define _GNU_SOURCE
#include "confinement/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confinement/caps.h"

/* younger than some kernel headers */
#define ACCESS_REFER (1ull << 13)
#define ACCESS_TRUNCATE (1ull << 14)
#define ACCESS_IOCTL_DEVICE (1ull << 15)
#define NET_ALL 3ull
#define SCOPE_ALL 3ull
struct ruleset {
  uint64_t files, network, scopes;
};

/* all that the first version knows */
#define ACCESS_FIRST ((1ull << 13) - 1)
/* what is never done below: running a program, and talking to a device */
#define ACCESS_NEVER (LANDLOCK_ACCESS_FS_EXECUTE | ACCESS_IOCTL_DEVICE)

#define BIT(capability) ((uint64_t)1 << (capability))
/* files of every owner, whiteouts, and attributes that only root may set: the marks of overlays and of capabilities */
static const uint64_t KEPT = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) |
                             BIT(CAP_FSETID) | BIT(CAP_MKNOD) | BIT(CAP_SETFCAP) | BIT(CAP_SYS_ADMIN);

static int restrict_files(const int *directories, size_t count) {
  int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return 0; /* a kernel without it: the root of the process and its capabilities have to do */
  struct ruleset rules = {.files = ACCESS_FIRST};
  size_t size = sizeof rules.files;
  if (version >= 2) rules.files |= ACCESS_REFER;
  if (version >= 3) rules.files |= ACCESS_TRUNCATE;
  if (version >= 4) rules.network = NET_ALL, size = offsetof(struct ruleset, scopes);
  if (version >= 5) rules.files |= ACCESS_IOCTL_DEVICE;
  if (version >= 6) rules.scopes = SCOPE_ALL, size = sizeof rules;
  int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (fd < 0) return errno;
  int error = 0;
  for (size_t i = 0; i < count && !error; i++) {
    struct landlock_path_beneath_attr below = {.allowed_access = rules.files & ~ACCESS_NEVER, .parent_fd = directories[i]};
    if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0) error = errno;
  }
  if (!error && syscall(SYS_landlock_restrict_self, fd, 0) < 0) error = errno;
  close(fd);
  return error;
}

int confine_to(const int *directories, size_t count) {
  int error = no_new_privs();
  if (!error) error = restrict_files(directories, count);
  if (!error) error = caps_bound(0);
  return error ? error : caps_limit(KEPT);
}
