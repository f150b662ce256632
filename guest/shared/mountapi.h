/* mountapi.h: the mount system calls that the C library does not wrap everywhere. */
#ifndef SANDKEEP_MOUNTAPI_H
#define SANDKEEP_MOUNTAPI_H

#include <stddef.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int sys_open_tree(int directory, const char *path, unsigned flags) {
  return (int)syscall(SYS_open_tree, directory, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags) {
  return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_mount_setattr(int directory, const char *path, unsigned flags, struct mount_attr *attr, size_t size) {
  return (int)syscall(SYS_mount_setattr, directory, path, flags, attr, size);
}

static inline int sys_fsopen(const char *type, unsigned flags) { return (int)syscall(SYS_fsopen, type, flags); }

static inline int sys_fsconfig(int fs, unsigned command, const char *key, const void *value, int aux) {
  return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int sys_fsmount(int fs, unsigned flags, unsigned attributes) {
  return (int)syscall(SYS_fsmount, fs, flags, attributes);
}

static inline int sys_pivot_root(const char *new_root, const char *old_root) {
  return (int)syscall(SYS_pivot_root, new_root, old_root);
}

#endif
