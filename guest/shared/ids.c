/* ids.c: the table behind ids.h: slots that are used again, under a new number each time. */
#define _GNU_SOURCE
#include "shared/ids.h"

#include <stdbool.h>
#include <stdlib.h>

static bool grow(struct ids *ids) {
  size_t room = ids->room ? ids->room * 2 : 64;
  if (room > IDS_MAX) return false;
  void **items = realloc(ids->items, room * sizeof *items);
  if (!items) return false;
  ids->items = items;
  uint64_t *numbers = realloc(ids->numbers, room * sizeof *numbers);
  if (!numbers) return false;
  ids->numbers = numbers;
  for (size_t i = ids->room; i < room; i++) {
    items[i] = NULL;
    numbers[i] = 0;
  }
  ids->next = ids->room;
  ids->room = room;
  return true;
}

uint64_t ids_add(struct ids *ids, void *item) {
  /* The search goes on where the last one ended: slots come free in about the order in which they were taken. */
  size_t tried = 0;
  while (tried < ids->room && ids->items[ids->next]) {
    ids->next = (ids->next + 1) % ids->room;
    tried++;
  }
  if (tried == ids->room && !grow(ids)) return 0;
  size_t slot = ids->next;
  uint64_t id = ++ids->serial * IDS_MAX + slot;
  ids->items[slot] = item;
  ids->numbers[slot] = id;
  ids->next = (slot + 1) % ids->room;
  return id;
}

void *ids_get(const struct ids *ids, uint64_t id) {
  size_t slot = id % IDS_MAX;
  return id && slot < ids->room && ids->numbers[slot] == id ? ids->items[slot] : NULL;
}

void ids_remove(struct ids *ids, uint64_t id) {
  if (!ids_get(ids, id)) return;
  size_t slot = id % IDS_MAX;
  ids->items[slot] = NULL;
  ids->numbers[slot] = 0;
}
