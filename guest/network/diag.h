/* diag.h: which socket of a program a connection or a datagram came from: its inode, as links in /proc/<pid>/fd name it. */
#ifndef SANDKEEP_DIAG_H
#define SANDKEEP_DIAG_H

#include <stdint.h>

#include "network/packet.h"

/*
 * Whether this kernel answers. To be called once and before the others: one that has the answer in a module loads it
 * now, and one that has it nowhere is not asked again, since it would look for the module each time.
 */
void diag_try(void);

/*
 * Asks the kernel through a socket of the sandbox's network (NET_DIAG of net.h). `protocol` is IPPROTO_TCP or
 * IPPROTO_UDP. Never waits; 0 when there is no such socket any more, or it cannot be told.
 */
uint32_t diag_inode(int fd, uint8_t protocol, const struct endpoint *inside, const struct endpoint *outside);

#endif
