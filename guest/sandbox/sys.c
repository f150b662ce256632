/* sys.c: see sys.h. */
#define _GNU_SOURCE
#include "sandbox/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/mountapi.h"

/* the processors that programs may count on, as the kernel writes it; glibc counts those that are online */
static int show_processors(uint32_t count) {
  static const char *const files[] = {"sys/devices/system/cpu/online", "sys/devices/system/cpu/possible",
                                      "sys/devices/system/cpu/present"};
  char text[32];
  int length = count > 1 ? snprintf(text, sizeof text, "0-%u\n", count - 1) : snprintf(text, sizeof text, "0\n");
  int error = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files && !error; i++) {
    int fd = open(files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (fd < 0 || write(fd, text, (size_t)length) < 0) error = errno;
    if (fd >= 0) close(fd);
  }
  return error;
}

static int show_cgroups(const struct sandbox_spec *spec, int first_view) {
  for (size_t i = 0; i < spec->view_count; i++) {
    char path[64];
    snprintf(path, sizeof path, "sys/fs/cgroup%s%s", *spec->views[i].name ? "/" : "", spec->views[i].name);
    if (*spec->views[i].name && mkdir(path, 0755) < 0) return errno;
    if (sys_move_mount(first_view + (int)i, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0) return errno;
  }
  return 0;
}

int sys_mount(const struct sandbox_spec *spec, int first_view, uint32_t cpus) {
  static const char *const folders[] = {"sys/fs", "sys/fs/cgroup", "sys/devices", "sys/devices/system", "sys/devices/system/cpu"};
  if (mount("sys", "sys", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=64k,nr_inodes=64") < 0) return errno;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    if (mkdir(folders[i], 0755) < 0) return errno;
  }
  int error = show_processors(cpus);
  if (!error) error = show_cgroups(spec, first_view);
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
  return error || sys_mount_setattr(AT_FDCWD, "sys", 0, &attr, sizeof attr) == 0 ? error : errno;
}
