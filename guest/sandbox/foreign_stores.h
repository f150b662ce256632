/* foreign_stores.h: lets go of the stores of other daemons, which a copy of the host's mounts has. */
#ifndef SANDKEEP_FOREIGN_STORES_H
#define SANDKEEP_FOREIGN_STORES_H

/* Unmounts, in this mount namespace, the stores of other daemons on the host. A launcher begins with a copy of all of the
 * host's mounts; where the host does not share its mounts, the copy would keep a store in use, with its loop device and its
 * disk space, after the daemon that it belongs to has unmounted and deleted it. `own` is the store that stays; where it is
 * NULL, nothing is unmounted. */
void foreign_stores_forget(const char *own);

#endif
