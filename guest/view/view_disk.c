/* view_disk.c: see view_disk.h. */
#define _GNU_SOURCE
#include "view/view_disk.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct disk {
  struct statfs facts; /* its type and id tell it from others */
  int counts;
} disks[VIEW_DISKS];
static size_t disk_count;

void view_disk_add(int mount, int counts) {
  struct disk *d = &disks[disk_count];
  if (disk_count == VIEW_DISKS || fstatfs(mount, &d->facts) < 0) return;
  d->counts = counts;
  disk_count++;
}

bool view_disk_is_counted(void) { return disk_count > 0; }

size_t view_disk_descriptors(int out[VIEW_DISKS]) {
  for (size_t i = 0; i < disk_count; i++) out[i] = disks[i].counts;
  return disk_count;
}

static const struct disk *find(const struct statfs *facts) {
  for (size_t i = 0; i < disk_count; i++) {
    const struct statfs *own = &disks[i].facts;
    if (own->f_type == facts->f_type && memcmp(&own->f_fsid, &facts->f_fsid, sizeof own->f_fsid) == 0) return &disks[i];
  }
  return NULL;
}

static bool read_count(int counts, const char *name, uint64_t *out) {
  char text[32];
  int fd = openat(counts, name, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (got <= 0) return false;
  text[got] = 0;
  *out = strtoull(text, NULL, 10);
  return true;
}

void view_disk(struct statfs *facts) {
  const struct disk *d = find(facts);
  uint64_t limit, written, reserved;
  if (!d || facts->f_bsize <= 0 || !read_count(d->counts, "max_referenced", &limit) ||
      !read_count(d->counts, "referenced", &written) || !read_count(d->counts, "rsv_data", &reserved)) {
    return;
  }
  uint64_t used = written + reserved, block = (uint64_t)facts->f_bsize;
  bool is_limited = limit > 0 && limit < UINT64_MAX;
  /* what is only read is as large as what is in it */
  if (!is_limited && !(facts->f_flags & ST_RDONLY)) return;
  if (!is_limited || used > limit) limit = used;
  facts->f_blocks = limit / block;
  facts->f_bfree = facts->f_bavail = (limit - used) / block;
}
