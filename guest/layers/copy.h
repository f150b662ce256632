/* copy.h: copies files with everything about them, where they cannot be linked. */
#ifndef SANDKEEP_COPY_H
#define SANDKEEP_COPY_H

#include <sys/stat.h>

/* all return 0 or an errno */

/* owner, mode and extended attributes but those that mean something to an overlay; of a file or directory */
int copy_facts(int from, int to, const struct stat *st);
int copy_times(int fd, const struct stat *st);
/* any file but a directory, under the same name; *made is a descriptor of the copy, which the caller closes */
int copy_file(int from_dir, int to_dir, const char *name, const struct stat *st, int *made);

#endif
