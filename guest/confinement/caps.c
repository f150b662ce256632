/* caps.c: drops capabilities with the kernel's own calls, without libcap. */
#define _GNU_SOURCE
#include "confinement/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) ((uint64_t)1 << (capability))

/* What stays: enough for apt, sudo, useradd, servers on low ports and chroot, all within the user namespace. */
static const uint64_t KEPT = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |
                             BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) |
                             BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_CHROOT) | BIT(CAP_SETFCAP) | BIT(CAP_AUDIT_WRITE);

/*
 * What the agent has besides, and no program ever: it is outside of what exec may give. The kernel lets no process
 * inspect another one that has more capabilities, so these keep programs out of copies of the agent. The first
 * permits nothing in a user namespace other than the host's; with the second the agent does what programs ask of it
 * (grants.h).
 */
static const uint64_t AGENTS_OWN = BIT(CAP_WAKE_ALARM) | BIT(CAP_SYS_PTRACE);

/* Numbers above the running kernel's last capability answer EINVAL. */
static const int LAST = 63;

int caps_bound(uint64_t for_programs) {
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)) return errno;
  for (int capability = 0; capability <= LAST; capability++) {
    if (for_programs & BIT(capability)) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL && capability > CAP_AUDIT_READ) break;
    return errno;
  }
  return 0;
}

int caps_limit(uint64_t own) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct sets[2] = {0};
  if (syscall(SYS_capget, &header, sets)) return errno;
  for (int i = 0; i < 2; i++) {
    sets[i].permitted &= (uint32_t)(own >> (32 * i));
    sets[i].effective = sets[i].permitted;
    /* nothing inheritable: a plain user's program would gain it through files that say so */
    sets[i].inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) ? errno : 0;
}

int caps_drop(void) {
  /* a launcher may have set SECBIT_NO_SETUID_FIXUP, with which a change to a plain user would keep capabilities */
  if (prctl(PR_SET_SECUREBITS, SECUREBITS_DEFAULT, 0, 0, 0)) return errno;
  int error = caps_bound(KEPT);
  return error ? error : caps_limit(KEPT | AGENTS_OWN);
}

int no_new_privs(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0; }
