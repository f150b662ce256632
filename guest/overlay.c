/*
 * overlay.c: the root file system of a sandbox.
 *
 * Every layer is a private clone of the mount it lies on, with the sandbox's own id map over it: on disk a file
 * belongs to 0 or 1000, the sandbox sees 0 or 1000, and the host sees ids that nobody else has.
 */
#define _GNU_SOURCE
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mountapi.h"

#define MOST_LAYERS 480 /* the kernel takes 500 */

static void tell(struct trouble *t, int error, enum wire_what what, const char *sentence, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(struct trouble *t, int error, enum wire_what what, const char *sentence, ...) {
  t->error = error;
  t->what = what;
  va_list args;
  va_start(args, sentence);
  vsnprintf(t->sentence, sizeof t->sentence, sentence, args);
  va_end(args);
}

static const char *layer_problem(int error) {
  if (error == ENOENT) return "it does not exist";
  if (error == ENOTDIR) return "not a directory";
  if (error == EINVAL) return "its file system does not support id maps";
  return strerror(error);
}

/* a clone of the directory's mount, idmapped; read-only unless it is the volume */
static int clone_layer(const char *path, int user_namespace, uint64_t attributes, struct trouble *t) {
  struct stat facts;
  int error = stat(path, &facts) < 0 ? errno : S_ISDIR(facts.st_mode) ? 0 : ENOTDIR;
  if (error) {
    tell(t, error, WIRE_WHAT_LAYER, "Cannot boot from layer \"%s\": %s", path, layer_problem(error));
    return -1;
  }
  int fd = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | attributes, .userns_fd = (uint64_t)user_namespace};
  if (fd >= 0 && sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0) return fd;
  tell(t, errno, WIRE_WHAT_LAYER, "Cannot boot from layer \"%s\": %s", path, layer_problem(errno));
  if (fd >= 0) close(fd);
  return -1;
}

int overlay_bind(const char *directory, int user_namespace, bool read_only, struct trouble *t) {
  uint64_t attributes = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | (read_only ? MOUNT_ATTR_RDONLY : 0);
  return clone_layer(directory, user_namespace, attributes, t);
}

static bool set(int fs, const char *key, const char *value, struct trouble *t) {
  if (sys_fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) == 0) return true;
  tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: the kernel refuses %s=%s: %s", key, value, strerror(errno));
  return false;
}

static bool set_layer(int fs, const char *key, int fd, struct trouble *t) {
  if (sys_fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0) return true;
  tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: the kernel refuses %s: %s", key, strerror(errno));
  return false;
}

/* a clone that is attached nowhere lives as long as its descriptor: all are kept until the overlay has its own */
struct clones {
  int fds[MOST_LAYERS + 1];
  size_t count;
};

static int keep(struct clones *c, int fd) {
  if (fd >= 0) c->fds[c->count++] = fd;
  return fd;
}

static void close_clones(struct clones *c) {
  while (c->count > 0) close(c->fds[--c->count]);
}

static bool add_lower(int fs, const struct overlay *o, struct clones *c, struct trouble *t) {
  for (char *const *layer = o->layers; *layer; layer++) {
    if (c->count == MOST_LAYERS) {
      tell(t, E2BIG, WIRE_WHAT_LAYER, "Cannot boot: there are more than %d layers", MOST_LAYERS);
      return false;
    }
    int fd = keep(c, clone_layer(*layer, o->user_namespace, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, t));
    if (fd < 0 || !set_layer(fs, "lowerdir+", fd, t)) return false;
  }
  if (c->count == 0) tell(t, EINVAL, WIRE_WHAT_LAYER, "Cannot boot: there is no layer to boot from");
  return c->count > 0;
}

/* "fs" and "work" must be reached through one and the same mount, so the volume is cloned and both opened below it */
static bool add_upper(int fs, const struct overlay *o, struct clones *c, struct trouble *t) {
  int volume = keep(c, clone_layer(o->volume, o->user_namespace, MOUNT_ATTR_NODEV, t));
  if (volume < 0) return false;
  int upper = openat(volume, "fs", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  int work = openat(volume, "work", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  bool ok = upper >= 0 && work >= 0;
  if (!ok) tell(t, errno, WIRE_WHAT_LAYER, "Cannot boot on volume \"%s\": it has no fs or no work", o->volume);
  ok = ok && set_layer(fs, "upperdir", upper, t) && set_layer(fs, "workdir", work, t);
  if (upper >= 0) close(upper);
  if (work >= 0) close(work);
  return ok;
}

/*
 * Overlay makes directories in "work" as whoever mounts it. Host root has no id in the sandbox's map, so they could
 * not be stored: for the moment of the mount we are the sandbox's root for files, and the securebit keeps the
 * kernel from taking the file capabilities away with it.
 */
static bool create_as(int fs, uid_t base, struct trouble *t) {
  int bits = prctl(PR_GET_SECUREBITS);
  prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP);
  setfsgid(base);
  setfsuid(base);
  int result = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
  int error = errno;
  setfsuid(0);
  setfsgid(0);
  prctl(PR_SET_SECUREBITS, bits);
  if (result == 0) return true;
  char log[256] = "";
  ssize_t n = read(fs, log, sizeof log - 1); /* the kernel's own words, when it has any */
  if (n > 0) log[n] = 0;
  tell(t, error, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: %s%s%s", strerror(error), *log ? ": " : "", log);
  return false;
}

int overlay_mount(const struct overlay *o, struct trouble *t) {
  int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
  if (fs < 0) {
    tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: this kernel has no overlayfs");
    return -1;
  }
  static struct clones clones;
  /* volatile: the store is synced as a whole, not file by file, so an fsync inside costs nothing */
  bool ok = set(fs, "source", "sandkeep", t) && set(fs, "redirect_dir", "on", t) && set(fs, "metacopy", "off", t) &&
            set(fs, "index", "off", t) && set(fs, "xino", "off", t) &&
            sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) == 0 && add_lower(fs, o, &clones, t) &&
            add_upper(fs, o, &clones, t) && create_as(fs, o->base, t);
  int root = ok ? sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV) : -1;
  if (ok && root < 0) tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: %s", strerror(errno));
  close(fs);
  close_clones(&clones);
  return root;
}
