/*
 * holder.h: a connection on which is asked, again and again, which process holds a socket, and whose child that is.
 *
 *   HOLDER  u64 inode of the socket
 *           -> OK { str program, u16 count, count x { u32 pid, u32 session, u64 start in ms since 1970 } }
 *              the process and its ancestors, up to the agent's own child; count 0 and no program when it was not found
 *
 * The processes that are searched belong to programs in the sandbox, which may have as many processes and descriptors as they
 * likes: a search is short, all of them together take a small part of the time, and what lies beyond is not found.
 */
#ifndef SANDKEEP_HOLDER_H
#define SANDKEEP_HOLDER_H

#include <stdint.h>

/* answers the request that opened the connection, and then serves it until it ends */
void serve_holders(int fd, uint32_t id);

#endif
