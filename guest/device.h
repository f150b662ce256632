/* device.h: the /dev that all sandboxes share, read-only: a handful of harmless devices and empty folders. */
#ifndef SANDKEEP_DEVICE_H
#define SANDKEEP_DEVICE_H

/* mounts it on the directory, in the caller's mount namespace; 0 or errno */
int device_template(const char *directory);

#endif
