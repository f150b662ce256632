/* main.c: the guest binary: `sandkeep-guest launch FOLDER -- EGRESS…` is the launcher; everything else it forks itself. */
#include <stdio.h>
#include <string.h>

#include "launcher/launch.h"
#include "shared/title.h"

int main(int argc, char **argv) {
  title_remember(argc, argv);
  if (argc >= 4 && strcmp(argv[1], "launch") == 0 && strcmp(argv[3], "--") == 0) return launch_main(argv[2], argv + 4);
  fprintf(stderr, "usage: %s launch FOLDER -- [EGRESS COMMAND…]\n", argv[0]);
  return 2;
}
