/*
 * overlay.c: the root file system of a sandbox.
 *
 * Every layer is a private clone of the mount it lies on, with the sandbox's own id map over it: on disk a file
 * belongs to 0 or 1000, the sandbox sees 0 or 1000, and the host sees ids that no other sandbox has.
 */
#define _GNU_SOURCE
#include "sandbox/overlay.h"

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

#include "shared/mountapi.h"

#define MOST_LAYERS 480 /* the kernel takes 500 */

static void tell(struct failure *t, int error, enum wire_what what, const char *sentence, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(struct failure *t, int error, enum wire_what what, const char *sentence, ...) {
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
static int clone_layer(const char *path, int user_namespace, uint64_t attributes, struct failure *t) {
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

int overlay_bind(const char *directory, int user_namespace, bool read_only, struct failure *t) {
  uint64_t attributes = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | (read_only ? MOUNT_ATTR_RDONLY : 0);
  return clone_layer(directory, user_namespace, attributes, t);
}

static bool set(int fs, const char *key, const char *value, struct failure *t) {
  if (sys_fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) == 0) return true;
  tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: the kernel refuses %s=%s: %s", key, value, strerror(errno));
  return false;
}

static bool set_flag(int fs, const char *key, struct failure *t) {
  if (sys_fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0) == 0) return true;
  tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: the kernel refuses %s: %s", key, strerror(errno));
  return false;
}

/*
 * How the kernel is told where the layers are, newest first:
 *
 *   by descriptor  the clones are attached nowhere (Linux 6.15)
 *   by name        they must be attached; each lower layer is a value of its own (6.8)
 *   by list        they must be attached; all lower layers are one value (older)
 *
 * The first one that works is remembered. A name is a number in /proc/self/fd, which is the directory we are in for that
 * moment: short enough for many layers in the 255 bytes that a value may have.
 */
enum way { BY_DESCRIPTOR, BY_NAME, BY_LIST, WAYS };
static enum way way = BY_DESCRIPTOR;

/* the clones live as long as their descriptors, which are kept until the overlay has its own */
struct clones {
  int lower[MOST_LAYERS];
  size_t count;
  int volume, upper, work;
};

static void close_clones(struct clones *c) {
  while (c->count > 0) close(c->lower[--c->count]);
  int others[] = {c->upper, c->work, c->volume};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (others[i] >= 0) close(others[i]);
  }
}

static bool open_lower(const struct overlay *o, struct clones *c, struct failure *t) {
  for (char *const *layer = o->layers; *layer; layer++) {
    if (c->count == MOST_LAYERS) {
      tell(t, E2BIG, WIRE_WHAT_LAYER, "Cannot boot: there are more than %d layers", MOST_LAYERS);
      return false;
    }
    int fd = clone_layer(*layer, o->user_namespace, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, t);
    if (fd < 0) return false;
    c->lower[c->count++] = fd;
  }
  if (c->count == 0) tell(t, EINVAL, WIRE_WHAT_LAYER, "Cannot boot: there is no layer to boot from");
  return c->count > 0;
}

/* "fs" and "work" must be reached through one and the same mount, so the volume is cloned and both opened below it */
static bool open_upper(const struct overlay *o, struct clones *c, struct failure *t) {
  c->volume = clone_layer(o->volume, o->user_namespace, MOUNT_ATTR_NODEV, t);
  if (c->volume < 0) return false;
  c->upper = openat(c->volume, "fs", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  c->work = openat(c->volume, "work", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (c->upper >= 0 && c->work >= 0) return true;
  tell(t, errno, WIRE_WHAT_LAYER, "Cannot boot on volume \"%s\": it has no fs or no work", o->volume);
  return false;
}

static bool set_layer(int fs, const char *key, int fd, struct failure *t) {
  char name[16];
  snprintf(name, sizeof name, "%d", fd);
  if (way != BY_DESCRIPTOR) return set(fs, key, name, t);
  if (sys_fsconfig(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0) return true;
  tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: the kernel refuses %s: %s", key, strerror(errno));
  return false;
}

static bool set_lower(int fs, const struct clones *c, struct failure *t) {
  char list[256];
  size_t used = 0;
  for (size_t i = 0; i < c->count; i++) {
    if (way != BY_LIST) {
      if (!set_layer(fs, "lowerdir+", c->lower[i], t)) return false;
      continue;
    }
    int n = snprintf(list + used, sizeof list - used, "%s%d", i ? ":" : "", c->lower[i]);
    used += (size_t)n;
    if (used >= sizeof list) {
      tell(t, E2BIG, WIRE_WHAT_LAYER, "Cannot boot: this kernel takes no more than %zu layers here", i);
      return false;
    }
  }
  return way != BY_LIST || set(fs, "lowerdir", list, t);
}

/* all on one folder of our own: they hide each other there, but are only reached by their descriptors */
static bool attach(const struct overlay *o, const struct clones *c, size_t *attached, struct failure *t) {
  if (way == BY_DESCRIPTOR) return true;
  for (size_t i = 0; i <= c->count; i++) {
    int fd = i < c->count ? c->lower[i] : c->volume;
    if (sys_move_mount(fd, "", AT_FDCWD, o->attach_at, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
      tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: attaching a layer: %s", strerror(errno));
      return false;
    }
    (*attached)++;
  }
  return chdir("/proc/self/fd") == 0;
}

static void detach(const struct overlay *o, size_t attached) {
  if (chdir("/") < 0) abort();
  while (attached-- > 0) umount2(o->attach_at, MNT_DETACH);
}

/*
 * Overlay makes directories in "work" as the user that mounts it. Host root has no id in the sandbox's map, so they could
 * not be stored: for the moment of the mount we are the sandbox's root for files, and the securebit keeps the
 * kernel from taking the file capabilities away with it.
 */
static bool create_as(int fs, uid_t base, struct failure *t) {
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

static int mount_clones(const struct overlay *o, const struct clones *c, struct failure *t) {
  int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
  if (fs < 0) {
    tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: this kernel has no overlayfs");
    return -1;
  }
  size_t attached = 0;
  /* volatile: the store is synced as a whole, not file by file, so an fsync inside costs nothing */
  bool ok = set(fs, "source", "sandkeep", t) && set(fs, "redirect_dir", "on", t) && set(fs, "metacopy", "off", t) &&
            set(fs, "index", "off", t) && set(fs, "xino", "off", t) && set_flag(fs, "volatile", t) &&
            attach(o, c, &attached, t) && set_lower(fs, c, t) && set_layer(fs, "upperdir", c->upper, t) &&
            set_layer(fs, "workdir", c->work, t) && create_as(fs, o->base, t);
  int root = ok ? sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV) : -1;
  if (ok && root < 0) tell(t, errno, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: %s", strerror(errno));
  detach(o, attached);
  close(fs);
  return root;
}

int overlay_mount(const struct overlay *o, struct failure *t) {
  struct clones *c = calloc(1, sizeof *c);
  if (!c) {
    tell(t, ENOMEM, WIRE_WHAT_SYSTEM, "Cannot mount the sandbox's root: out of memory");
    return -1;
  }
  c->volume = c->upper = c->work = -1;
  int root = -1;
  if (open_lower(o, c, t) && open_upper(o, c, t)) {
    root = mount_clones(o, c, t);
    /* an older kernel says that it does not understand; what is wrong with the layers themselves is known by now */
    while (root < 0 && t->error == EINVAL && way + 1 < WAYS) {
      way++;
      root = mount_clones(o, c, t);
    }
  }
  close_clones(c);
  free(c);
  return root;
}

void overlay_begin_with(const char *name) {
  const char *const names[WAYS] = {"descriptor", "name", "list"};
  for (int i = 0; name && i < WAYS; i++) {
    if (strcmp(name, names[i]) == 0) way = (enum way)i;
  }
}
