/* foreign_stores.c: finds the stores of other daemons in the list of mounts, and unmounts them. */
#define _GNU_SOURCE
#include "sandbox/foreign_stores.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

/* no host has more daemons, and one that did would only keep some of their stores a little longer */
enum { MOST_PASSES = 256 };

/* the kernel writes spaces and their like as a backslash and three octal digits */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from; to++) {
    if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
        from[3] <= '7') {
      *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
      from += 4;
    } else {
      *to = *from++;
    }
  }
  *to = '\0';
}

/* the fifth field of a line of mountinfo; NULL where there are fewer */
static char *mount_point(char *line) {
  char *rest = line;
  char *field = NULL;
  for (int i = 0; i < 5; i++) {
    field = strsep(&rest, " ");
    if (!field) return NULL;
  }
  unescape(field);
  return field;
}

/* a store is mounted beside the file that it is in: <data>/store and <data>/store.btrfs */
static bool is_store(const char *point) {
  size_t length = strlen(point);
  if (length < 6 || strcmp(point + length - 6, "/store")) return false;
  char image[4096];
  int written = snprintf(image, sizeof image, "%s.btrfs", point);
  return written > 0 && (size_t)written < sizeof image && access(image, F_OK) == 0;
}

/* whether it found one; the list is read anew afterwards, as it changes under its reader */
static bool forget_one(const char *own) {
  FILE *mounts = fopen("/proc/self/mountinfo", "re");
  if (!mounts) return false;
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  while (!found && getline(&line, &room, mounts) > 0) {
    char *point = mount_point(line);
    found = point && strcmp(point, own) && is_store(point) && umount2(point, MNT_DETACH) == 0;
  }
  free(line);
  fclose(mounts);
  return found;
}

void foreign_stores_forget(const char *own) {
  if (!own) return;
  for (int pass = 0; pass < MOST_PASSES && forget_one(own);) pass++;
}
