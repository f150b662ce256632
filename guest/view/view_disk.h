/*
 * view_disk.h: how much a sandbox may write and has written. Its root is an overlay on the store that all sandboxes share, and
 * its drives lie there too. statfs() tells of the whole store; for each volume the kernel counts in a folder of /sys (qgroups
 * of btrfs).
 */
#ifndef SANDKEEP_VIEW_DISK_H
#define SANDKEEP_VIEW_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/vfs.h>

/* the root and the drives */
#define VIEW_DISKS 9

/* `mount` is on the volume that `counts`, a folder of counts, is about; keeps the folder's descriptor */
void view_disk_add(int mount, int counts);

/* whether the kernel counts what is written, and so holds a limit */
bool view_disk_is_counted(void);

/* the descriptors of folders that are kept; returns how many */
size_t view_disk_descriptors(int out[VIEW_DISKS]);

/* puts the sandbox's own numbers into what the kernel says of a file on such a volume; leaves other file systems as they are */
void view_disk(struct statfs *facts);

#endif
