/* probe_mounts.c: the mount table, old interface and new, and the cgroup tree. */
#define _GNU_SOURCE
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* `path` is a file system's type; `first` says what goes along as its options. */
static enum ending mount_type(const struct probe *p) {
  static const char *const OPTIONS[] = {NULL, "none,name=probe", "lowerdir=/etc:/tmp",
                                        "fd=0,rootmode=40000,user_id=0,group_id=0"};
  const char *target = scratch_directory();
  if (!target) return untried("no directory to write to");
  /* that the kernel does not know the type, or wants other options, is reported only to processes that may mount */
  if (mount("none", target, p->path, 0, OPTIONS[p->first])) return reached(-1);
  umount2(target, MNT_DETACH);
  return is_open("mounted %s", p->path);
}

static enum ending bind(const struct probe *p) {
  const char *target = scratch_directory();
  if (!target) return untried("no directory to write to");
  if (mount(p->path, target, NULL, MS_BIND | (unsigned long)p->first, NULL)) return is_closed("%s", strerror(errno));
  umount2(target, MNT_DETACH);
  return is_open("bound %s", p->path);
}

/* With contradicting flags, or on a place that is no mount: refused, but only after the question who asks. */
static enum ending change_mount(const struct probe *p) {
  return reached(mount(NULL, p->path, NULL, (unsigned long)p->first, NULL));
}

/* MNT_EXPIRE only marks a mount at the first call, or says that it is busy. */
static enum ending unmount(const struct probe *p) {
  int result = umount2(p->path, MNT_EXPIRE);
  if (result && errno == EINVAL) return is_closed("locked, or not a mount (%s)", strerror(errno));
  return reached(result);
}

static enum ending call(const struct probe *p) {
  return reached(syscall(p->first, p->second, p->path, p->third, 0, 0, 0));
}

static enum ending open_file_system(const struct probe *p) { return ended(syscall(SYS_fsopen, p->path, 0)); }

static enum ending pick(const struct probe *p) { return ended(syscall(SYS_fspick, AT_FDCWD, p->path, 0)); }

/* 1 is OPEN_TREE_CLONE: a detached copy of the mount; 0x8000 AT_RECURSIVE */
static enum ending copy_tree(const struct probe *p) {
  return ended(syscall(SYS_open_tree, AT_FDCWD, p->path, 1 | 0x8000));
}

/* An empty change, which is still one. */
static enum ending set_attributes(const struct probe *p) {
  uint64_t attributes[4] = {0};
  return reached(syscall(SYS_mount_setattr, AT_FDCWD, p->path, 0, attributes, sizeof attributes));
}

/* The old root onto itself: refused as busy, but only after the question who asks. */
static enum ending pivot(const struct probe *p) { return reached(syscall(SYS_pivot_root, p->path, p->path)); }

/* Mounts that pass events on, to or from namespaces of the host. */
static enum ending propagation(const struct probe *p) {
  (void)p;
  char line[4096];
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (!file) return is_closed("%s", strerror(errno));
  while (fgets(line, sizeof line, file))
    if (strstr(line, " shared:") || strstr(line, " master:") || strstr(line, " propagate_from:")) {
      fclose(file);
      line[strcspn(line, "\n")] = 0;
      return is_open("%s", line);
    }
  fclose(file);
  return is_closed("every mount is private");
}

static char found[256];

static int find_writable(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  (void)place;
  if (kind != FTW_F || !(facts->st_mode & 0222)) return 0;
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return 0;
  close(fd);
  snprintf(found, sizeof found, "%s", path);
  return 1;
}

/* Whether any file below a directory opens for writing: limits, release agents, processes' places, hardware. */
static enum ending writable_below(const struct probe *p) {
  struct stat facts;
  if (stat(p->path, &facts)) return is_closed("%s", strerror(errno));
  if (nftw(p->path, find_writable, 32, FTW_PHYS) == 1) return is_open("%s opened for writing", found);
  return is_closed("nothing below opens for writing");
}

const struct probe MOUNT_PROBES[] = {
    {"mount-tmpfs", mount_type, "tmpfs", 0, 0, 0},
    {"mount-proc", mount_type, "proc", 0, 0, 0},
    {"mount-sysfs", mount_type, "sysfs", 0, 0, 0},
    {"mount-cgroup", mount_type, "cgroup", 1, 0, 0},
    {"mount-cgroup2", mount_type, "cgroup2", 0, 0, 0},
    {"mount-devpts", mount_type, "devpts", 0, 0, 0},
    {"mount-devtmpfs", mount_type, "devtmpfs", 0, 0, 0},
    {"mount-mqueue", mount_type, "mqueue", 0, 0, 0},
    {"mount-overlay", mount_type, "overlay", 2, 0, 0},
    {"mount-fuse", mount_type, "fuse", 3, 0, 0},
    {"mount-bpf", mount_type, "bpf", 0, 0, 0},
    {"mount-debugfs", mount_type, "debugfs", 0, 0, 0},
    {"mount-tracefs", mount_type, "tracefs", 0, 0, 0},
    {"mount-securityfs", mount_type, "securityfs", 0, 0, 0},
    {"mount-binfmt-misc", mount_type, "binfmt_misc", 0, 0, 0},
    {"mount-ramfs", mount_type, "ramfs", 0, 0, 0},
    {"mount-bind-root", bind, "/", 0, 0, 0},
    {"mount-bind-root-recursive", bind, "/", MS_REC, 0, 0},
    {"mount-bind-proc", bind, "/proc", 0, 0, 0},
    {"mount-bind-dev", bind, "/dev", 0, 0, 0},
    {"mount-share-root", change_mount, "/", MS_SHARED | MS_PRIVATE, 0, 0},
    {"mount-remount", change_mount, "/proc/self/task", MS_REMOUNT | MS_BIND, 0, 0},
    {"mount-propagation", propagation, NULL, 0, 0, 0},
    {"unmount-proc", unmount, "/proc", 0, 0, 0},
    {"unmount-dev", unmount, "/dev", 0, 0, 0},
    {"fsopen-tmpfs", open_file_system, "tmpfs", 0, 0, 0},
    {"fsopen-proc", open_file_system, "proc", 0, 0, 0},
    {"fsopen-overlay", open_file_system, "overlay", 0, 0, 0},
    {"fspick-root", pick, "/", 0, 0, 0},
    {"fsmount", call, NULL, SYS_fsmount, -1, 0},
    {"move-mount", call, "", SYS_move_mount, -1, -1},
    {"open-tree-clone", copy_tree, "/", 0, 0, 0},
    {"open-tree-clone-proc", copy_tree, "/proc", 0, 0, 0},
    {"mount-setattr", set_attributes, "/", 0, 0, 0},
    {"pivot-root", pivot, "/", 0, 0, 0},
    {"cgroup-write", writable_below, "/sys/fs/cgroup", 0, 0, 0},
    {"sys-write", writable_below, "/sys", 0, 0, 0},
    {0},
};
