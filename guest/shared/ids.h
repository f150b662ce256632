/* ids.h: numbers for things that another process refers to; a number is never given twice. */
#ifndef SANDKEEP_IDS_H
#define SANDKEEP_IDS_H

#include <stddef.h>
#include <stdint.h>

/* things at once; an id is a serial number times this, plus the slot, and stays below 2^53 for JavaScript */
#define IDS_MAX 65536u

struct ids {
  void **items;
  uint64_t *numbers;
  size_t room;
  size_t next;
  uint64_t serial;
};

/* the id of the thing from now on, or 0 when there is no room */
uint64_t ids_add(struct ids *ids, void *item);
/* NULL when the id stands for nothing (any more) */
void *ids_get(const struct ids *ids, uint64_t id);
void ids_remove(struct ids *ids, uint64_t id);

#endif
