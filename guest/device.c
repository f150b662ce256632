/* device.c: makes the shared /dev of device.h. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const struct {
  const char *name;
  unsigned major, minor;
} devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                       {"/proc/self/fd/0", "stdin"},
                                       {"/proc/self/fd/1", "stdout"},
                                       {"/proc/self/fd/2", "stderr"},
                                       {"pts/ptmx", "ptmx"}};

/* where each sandbox mounts its own; mqueue stays empty */
static const char *const folders[] = {"pts", "shm", "mqueue"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

int device_template(const char *directory) {
  if (mount("dev", directory, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k,nr_inodes=64") < 0) return errno;
  int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  mode_t before = umask(0);
  int error = 0;
  for (size_t i = 0; !error && i < COUNT(devices); i++) {
    if (mknodat(fd, devices[i].name, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0) error = errno;
  }
  for (size_t i = 0; !error && i < COUNT(links); i++) {
    if (symlinkat(links[i][0], fd, links[i][1]) < 0) error = errno;
  }
  for (size_t i = 0; !error && i < COUNT(folders); i++) {
    if (mkdirat(fd, folders[i], 0755) < 0) error = errno;
  }
  umask(before);
  close(fd);
  return error;
}
