/* overlay.h: mounts a sandbox's root: idmapped read-only layers under one writable volume. */
#ifndef SANDKEEP_OVERLAY_H
#define SANDKEEP_OVERLAY_H

#include <stddef.h>
#include <sys/types.h>

#include "shared/wire.h"

struct overlay {
  char *const *layers; /* directories, topmost first, NULL at the end */
  const char *volume;  /* directory that holds "fs" (what is written) and an empty "work" */
  int user_namespace;  /* its id map is laid over every layer */
  uid_t base;          /* the host's id of the sandbox's root */
  const char *attach_at; /* a folder of the launcher's own, for kernels that want layers attached */
};

/* what went wrong, for the answer */
struct failure {
  int error;
  enum wire_what what;
  char sentence[512];
};

/* an idmapped clone of a directory, attached nowhere yet; -1 and the failure */
int overlay_bind(const char *directory, int user_namespace, bool read_only, struct failure *failure);

/* returns the fd of a mount that is attached nowhere yet, or -1 and fills in the failure */
int overlay_mount(const struct overlay *o, struct failure *failure);

/* "descriptor", "name" or "list": how layers are named to the kernel at first, for trying the ways of older kernels */
void overlay_begin_with(const char *name);

#endif
