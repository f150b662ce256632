/* volume.h: btrfs subvolumes: made, captured, limited and deleted in constant time. Paths are absolute. */
#ifndef SANDKEEP_VOLUME_H
#define SANDKEEP_VOLUME_H

#include <stdint.h>

/* all return 0 or an errno; ENOTTY or EOPNOTSUPP where the path is not on btrfs */
int volume_create(const char *path);
int volume_snapshot(const char *from, const char *to);
int volume_delete(const char *path);
/*
 * bytes; 0 takes the limit away. With a line (1 to 2^48 - 1) the limit is for all volumes together that were given the same
 * line, also those that are deleted and whose data others still share; such a volume may have a limit of its own besides.
 */
int volume_limit(const char *path, uint64_t bytes, uint64_t line);
/* bytes that count against the limit */
int volume_usage(const char *path, uint64_t *bytes);
/* turns accounting on for the whole file system; harmless when it is on */
int volume_enable_limits(const char *path);

/* forgets what was counted for volumes and lines that are gone, on the whole file system */
int volume_forget_counts(const char *path);

/* a detached, read-only mount of the folder in which the kernel counts for the volume's line, or for the volume; -1 where there is none */
int volume_counts(const char *path);

#endif
