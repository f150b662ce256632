/* settings.c: writes the settings of settings.h. */
#define _GNU_SOURCE
#include "network/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/mountapi.h"

/* The files below /proc/sys/net are different for each network namespace, but the kernel keeps the names of all of them in one
 * chain for each directory, and searches that from its beginning: with a thousand machines it took milliseconds to find one
 * of ours. In a mount of our own there are only the names of this namespace. */
static int private_proc(void) {
  int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);
  if (fs < 0) return -1;
  int mount = -1;
  if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
    mount = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  }
  close(fs);
  return mount;
}

/* the directory sys/net; a container may forbid to mount it anew */
static int open_settings(void) {
  int proc = private_proc();
  if (proc < 0) return open("/proc/sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int settings = openat(proc, "sys/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
  close(proc);
  return settings;
}

/* of the sandbox's own network; the caller only hears that something failed, so what it was is said here */
static int write_setting(int settings, const char *name, const char *value) {
  int fd = openat(settings, name, O_WRONLY | O_CLOEXEC);
  int error = fd < 0 || write(fd, value, strlen(value)) < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  if (error) fprintf(stderr, "Cannot set \"%s\" below /proc/sys/net to %s: %s\n", name, value, strerror(error));
  return error;
}

/* The mark of a packet goes to the connection that it opens, and to what the kernel answers where there is none: a reset of
 * ours for a socket that is gone is then counted as sent. */
static int reflect_marks(int settings) {
  int error = write_setting(settings, "ipv4/tcp_fwmark_accept", "1");
  if (!error) error = write_setting(settings, "ipv4/fwmark_reflect", "1");
  bool no_ipv6 = faccessat(settings, "ipv6", F_OK, 0) < 0;
  return error || no_ipv6 ? error : write_setting(settings, "ipv6/fwmark_reflect", "1");
}

int net_settings_write(void) {
  int settings = open_settings();
  if (settings < 0) return errno;
  /* Connections that no program has accepted are charged to no cgroup, so each listening socket has few of them. */
  int error = write_setting(settings, "core/somaxconn", "512");
  /* Root inside has no capability over this namespace, so without this it could not serve on port 80. */
  if (!error) error = write_setting(settings, "ipv4/ip_unprivileged_port_start", "0");
  if (!error) error = reflect_marks(settings);
  close(settings);
  return error;
}
