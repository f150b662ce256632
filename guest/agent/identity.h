/* identity.h: who a user is, by the sandbox's own /etc/passwd and /etc/group, and becoming that user. */
#ifndef SANDKEEP_IDENTITY_H
#define SANDKEEP_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define IDENTITY_GROUPS 64

struct identity {
  uid_t uid;
  gid_t gid;
  char name[64];
  char home[256];
  char shell[128];
  gid_t groups[IDENTITY_GROUPS];
  size_t group_count;
};

/*
 * user: a name or number, and after a colon perhaps a group's, which is then the first one; empty means root. extra:
 * names or numbers of further groups, or NULL.
 * Returns 0, ENOENT when there is no such user or group, or another errno. The files are the sandbox's and may be
 * anything: call it in a process that may hang or die without harm to others.
 */
int identity_find(const char *user, char *const *extra, struct identity *out);
/* takes on the identity for good */
int identity_assume(const struct identity *who);

#endif
