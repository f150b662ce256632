/* title.c: overwrites the arguments where the kernel reads them from. */
#include "shared/title.h"

#include <stdio.h>
#include <stddef.h>
#include <string.h>

static char *area;
static size_t area_length;

void title_remember(int argc, char **argv) {
  area = argv[0];
  /* the kernel lays the arguments out one after the other */
  area_length = argc > 0 ? (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]) : 0;
}

void title_set(const char *title) {
  if (area_length == 0) return;
  memset(area, 0, area_length);
  snprintf(area, area_length, "%s", title);
}
