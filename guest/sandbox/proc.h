/* proc.h: hides what /proc tells of the host and programs have no use for; view.h has what they need of it. */
#ifndef SANDKEEP_PROC_H
#define SANDKEEP_PROC_H

/*
 * In the root that is being built, with /proc mounted and the tree of device.h at "dev": covers files and folders. 0, or an
 * errno with the step that failed.
 */
int proc_mask(const char **step);

#endif
