/* volume.c: the btrfs ioctls behind volume.h. */
#define _GNU_SOURCE
#include "layers/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/mountapi.h"

/* newer than some headers: extents belong to the subvolume that wrote them, so a snapshot costs no accounting */
#define QUOTA_ENABLE_SIMPLE 4
#define JOIN_MOST 8

/* opens the directory a path lies in and copies its last name, which must be a plain one */
static int open_parent(const char *path, char *name, size_t room) {
  char copy[PATH_MAX];
  if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy) {
    errno = ENAMETOOLONG;
    return -1;
  }
  char *slash = strrchr(copy, '/');
  if (!slash || slash == copy || !slash[1] || strlen(slash + 1) >= room) {
    errno = EINVAL;
    return -1;
  }
  snprintf(name, room, "%s", slash + 1);
  *slash = 0;
  return open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int on_btrfs(int fd) {
  struct statfs facts;
  if (fstatfs(fd, &facts) < 0) return errno;
  return facts.f_type == BTRFS_SUPER_MAGIC ? 0 : EOPNOTSUPP;
}

static int parent_call(const char *path, int source, unsigned long request) {
  struct btrfs_ioctl_vol_args_v2 args = {.fd = source};
  int parent = open_parent(path, args.name, sizeof args.name);
  if (parent < 0) return errno;
  int error = on_btrfs(parent);
  if (!error && ioctl(parent, request, &args) < 0) error = errno;
  close(parent);
  return error;
}

int volume_create(const char *path) { return parent_call(path, 0, BTRFS_IOC_SUBVOL_CREATE_V2); }

int volume_snapshot(const char *from, const char *to) {
  int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (source < 0) return errno;
  int error = parent_call(to, source, BTRFS_IOC_SNAP_CREATE_V2);
  close(source);
  return error;
}

int volume_delete(const char *path) { return parent_call(path, 0, BTRFS_IOC_SNAP_DESTROY_V2); }

static int open_volume(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = fd < 0 ? errno : on_btrfs(fd);
  if (fd >= 0 && error) {
    close(fd);
    fd = -1;
  }
  errno = error;
  return fd;
}

int volume_enable_limits(const char *path) {
  int fd = open_volume(path);
  if (fd < 0) return errno;
  struct btrfs_ioctl_quota_ctl_args args = {.cmd = QUOTA_ENABLE_SIMPLE};
  int error = ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) < 0 ? errno : 0;
  if (error == EEXIST) error = 0; /* it is on */
  close(fd);
  return error;
}

/* the subvolume's own id is the first inode's tree: asked from the kernel by an empty look-up */
static int tree_of(int fd, uint64_t *tree) {
  struct btrfs_ioctl_ino_lookup_args args = {.treeid = 0, .objectid = BTRFS_FIRST_FREE_OBJECTID};
  if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0) return errno;
  *tree = args.treeid;
  return 0;
}

/*
 * A directory in another subvolume of the same file system: what lies beside the volume, or, at the top of the file
 * system, the subvolume "empty". -1 for none.
 */
static int open_elsewhere(const char *path) {
  char name[BTRFS_SUBVOL_NAME_MAX + 1], empty[PATH_MAX];
  int fd = open_parent(path, name, sizeof name);
  if (fd >= 0 && on_btrfs(fd) == 0) return fd;
  if (fd >= 0) close(fd);
  return snprintf(empty, sizeof empty, "%s/empty", path) < (int)sizeof empty ? open_volume(empty) : -1;
}

static int limit_group(int fd, uint64_t group, uint64_t bytes) {
  /* ~0 lifts the limit */
  struct btrfs_ioctl_qgroup_limit_args args = {
      .qgroupid = group, .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes ? bytes : UINT64_MAX}};
  return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? errno : 0;
}

/* groups of level 1 count what their members of level 0, which are volumes, count together */
static uint64_t line_group(uint64_t line) { return UINT64_C(1) << 48 | line; }

static int join_group(int fd, uint64_t tree, uint64_t group) {
  struct btrfs_ioctl_qgroup_create_args create = {.create = 1, .qgroupid = group};
  struct btrfs_ioctl_qgroup_assign_args assign = {.assign = 1, .src = tree, .dst = group};
  for (int tries = 0;; tries++) {
    if (ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &create) < 0 && errno != EEXIST) return errno;
    if (ioctl(fd, BTRFS_IOC_QGROUP_ASSIGN, &assign) == 0 || errno == EEXIST) return 0;
    /* until it has a member, it may be taken for one that is of no more use */
    if (errno != ENOENT || tries == JOIN_MOST) return errno;
  }
}

int volume_limit(const char *path, uint64_t bytes, uint64_t line) {
  int fd = open_volume(path);
  if (fd < 0) return errno;
  uint64_t tree;
  int error = tree_of(fd, &tree);
  /* asked of a volume that has reached its limit, the kernel refuses to raise it: that too takes room */
  int elsewhere = error ? -1 : open_elsewhere(path), asked = elsewhere >= 0 ? elsewhere : fd;
  if (!error && line) error = join_group(asked, tree, line_group(line));
  if (!error) error = limit_group(asked, line ? line_group(line) : tree, bytes);
  if (elsewhere >= 0) close(elsewhere);
  close(fd);
  return error;
}

static bool read_number(const char *path, uint64_t *number) {
  FILE *file = fopen(path, "re");
  bool read = file && fscanf(file, "%" SCNu64, number) == 1;
  if (file) fclose(file);
  return read;
}

/* the first item of this type and object in the quota tree, from an offset on, is put at `item` */
static int quota_item(int fd, struct btrfs_ioctl_search_key key, struct btrfs_ioctl_search_header *head, void *item,
                      size_t size) {
  static struct btrfs_ioctl_search_args search;
  memset(&search, 0, sizeof search);
  search.key = key;
  search.key.tree_id = BTRFS_QUOTA_TREE_OBJECTID;
  search.key.max_transid = UINT64_MAX;
  search.key.nr_items = 1;
  if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &search) < 0) return errno;
  if (search.key.nr_items == 0) return ENODATA;
  memcpy(head, search.buf, sizeof *head);
  if (head->len < size) return ENODATA;
  memcpy(item, search.buf + sizeof *head, size);
  return 0;
}

/* the group that a subvolume counts in: that of its line, or its own */
static uint64_t group_of(int fd, uint64_t tree) {
  struct btrfs_ioctl_search_header head;
  struct btrfs_ioctl_search_key key = {.min_objectid = tree,
                                       .max_objectid = tree,
                                       .min_type = BTRFS_QGROUP_RELATION_KEY,
                                       .max_type = BTRFS_QGROUP_RELATION_KEY,
                                       .min_offset = line_group(0),
                                       .max_offset = UINT64_MAX};
  return quota_item(fd, key, &head, NULL, 0) ? tree : head.offset;
}

/* the folder in which the kernel says what it counts for a group */
static bool counts_path(int fd, uint64_t group, char *path, size_t room) {
  struct btrfs_ioctl_fs_info_args info = {0};
  if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0) return false;
  char uuid[37], *end = uuid;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *end++ = '-';
    end += sprintf(end, "%02x", info.fsid[i]);
  }
  uint64_t level = group >> 48, number = group & ((UINT64_C(1) << 48) - 1);
  return snprintf(path, room, "/sys/fs/btrfs/%s/qgroups/%" PRIu64 "_%" PRIu64, uuid, level, number) < (int)room;
}

/*
 * What the kernel counts in memory: what is on the disk, and what was written and has no place there yet. False where
 * it does not say.
 */
static bool usage_now(int fd, uint64_t tree, uint64_t *bytes) {
  char folder[128], path[160];
  uint64_t referenced, reserved;
  if (!counts_path(fd, tree, folder, sizeof folder)) return false;
  snprintf(path, sizeof path, "%s/referenced", folder);
  if (!read_number(path, &referenced)) return false;
  snprintf(path, sizeof path, "%s/rsv_data", folder);
  if (!read_number(path, &reserved)) return false;
  *bytes = referenced + reserved;
  return true;
}

/* as of the last commit, which may be half a minute ago */
static int usage_then(int fd, uint64_t tree, uint64_t *bytes) {
  struct btrfs_ioctl_search_header head;
  struct btrfs_qgroup_info_item info;
  struct btrfs_ioctl_search_key key = {.min_type = BTRFS_QGROUP_INFO_KEY,
                                       .max_type = BTRFS_QGROUP_INFO_KEY,
                                       .min_offset = tree,
                                       .max_offset = tree};
  int error = quota_item(fd, key, &head, &info, sizeof info);
  if (!error) *bytes = info.rfer;
  return error;
}

int volume_usage(const char *path, uint64_t *bytes) {
  int fd = open_volume(path);
  if (fd < 0) return errno;
  uint64_t tree;
  int error = tree_of(fd, &tree);
  if (!error && !usage_now(fd, tree, bytes)) error = usage_then(fd, tree, bytes);
  close(fd);
  return error;
}

/* whether there is a subvolume of this number */
static bool is_there(int fd, uint64_t tree) {
  struct btrfs_ioctl_ino_lookup_args args = {.treeid = tree, .objectid = BTRFS_FIRST_FREE_OBJECTID};
  return ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) == 0 || errno != ENOENT;
}

static void forget_group(int fd, uint64_t group) {
  uint64_t line = group >> 48 ? group : group_of(fd, group);
  if (line != group) {
    struct btrfs_ioctl_qgroup_assign_args leave = {.assign = 0, .src = group, .dst = line};
    ioctl(fd, BTRFS_IOC_QGROUP_ASSIGN, &leave);
  }
  /* refused for one that has members or counts something */
  struct btrfs_ioctl_qgroup_create_args args = {.create = 0, .qgroupid = group};
  ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args);
}

int volume_forget_counts(const char *path) {
  int fd = open_volume(path);
  if (fd < 0) return errno;
  char folder[128], file[PATH_MAX];
  DIR *groups = counts_path(fd, 0, folder, sizeof folder) ? opendir(dirname(folder)) : NULL;
  /* volumes first: the group of a line has to be without members */
  for (uint64_t level = 0; groups && level < 2; level++, rewinddir(groups)) {
    for (struct dirent *entry; (entry = readdir(groups));) {
      uint64_t found, number, bytes;
      if (sscanf(entry->d_name, "%" SCNu64 "_%" SCNu64, &found, &number) != 2 || found != level) continue;
      snprintf(file, sizeof file, "%s/%s/referenced", folder, entry->d_name);
      if (!read_number(file, &bytes) || bytes > 0 || (level == 0 && is_there(fd, number))) continue;
      forget_group(fd, level << 48 | number);
    }
  }
  if (groups) closedir(groups);
  close(fd);
  return 0;
}

int volume_counts(const char *path) {
  int fd = open_volume(path);
  if (fd < 0) return -1;
  uint64_t tree;
  char folder[128];
  bool known = tree_of(fd, &tree) == 0 && counts_path(fd, group_of(fd, tree), folder, sizeof folder);
  close(fd);
  if (!known) return -1;
  /* a mount of its own: from the folder nothing leads to others */
  int mount = sys_open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
  if (mount >= 0 && sys_mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) {
    close(mount);
    return -1;
  }
  return mount;
}
