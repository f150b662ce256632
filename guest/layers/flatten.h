/* flatten.h: makes one overlay layer out of several, so that a chain of layers does not grow for ever. */
#ifndef SANDKEEP_FLATTEN_H
#define SANDKEEP_FLATTEN_H

#include <stddef.h>

/* how many layers are merged at most; every layer of a merged directory is open while it is worked on */
#define FLATTEN_MAX_LAYERS 256

/*
 * Merges `count` layer directories, topmost first, into the empty directory `out_fd`, so that the result means the same
 * as all of them on top of whatever lies below. Returns 0, or an errno with the reason in words in `why`; a failed
 * attempt leaves a part of the result behind, which the caller deletes.
 *
 * A layer whose root is opaque says that nothing lies below it: layers under it are left out, and so are whiteouts,
 * which then hide nothing. (The kernel itself does not look at that mark.)
 *
 * The layers must not change meanwhile. Needs CAP_DAC_READ_SEARCH (file handles), CAP_SYS_ADMIN (trusted xattrs).
 */
int flatten_layers(const int *layer_fds, size_t count, int out_fd, char *why, size_t why_size);

#endif
