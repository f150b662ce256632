/*
 * copier.h: processes that copy volumes for the launcher. The kernel writes the source's data and commits the file system
 * before a copy is done, which would keep the launcher's loop from everything else. Payload:
 *
 *   VOLUME_COPY  str from, str to, u64 bytes -> OK: as VOLUME_SNAPSHOT, and the copy is limited to so many bytes (0 none)
 *
 * Each copies one volume at a time. There are as many as there are copies at once; a few stay for the next ones, because
 * to make a process takes the launcher longer than to ask one.
 */
#ifndef SANDKEEP_COPIER_H
#define SANDKEEP_COPIER_H

#include "shared/connection.h"

void copier_ask(struct connection *from, uint32_t id, struct reader *r);
/* the connection has ended: nothing waits for its copies any more */
void copiers_forget(const struct connection *gone);

#endif
