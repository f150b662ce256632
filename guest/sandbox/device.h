/*
 * device.h: the small read-only file system that each sandbox gets for itself. No sandbox shares an inode of it with
 * another, because locks, watches and times of a shared inode would be a channel between them.
 *
 *   dev/    the /dev of the sandbox: six harmless devices, links, and folders to mount on
 *   mask    an empty file, which covers files of /proc
 *   empty/  an empty folder, which covers folders of /proc
 */
#ifndef SANDKEEP_DEVICE_H
#define SANDKEEP_DEVICE_H

#include <sys/types.h>

/* makes it, owned by the sandbox's root, and returns its detached mount; -1 with errno when it cannot */
int device_tree(uid_t base);

#endif
