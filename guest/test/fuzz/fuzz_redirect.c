/*
 * fuzz_redirect.c: arbitrary redirects of an overlay directory into the look-up of merge.c (libFuzzer; as root, who
 * alone may set trusted attributes). Whatever a layer says, nothing outside of the layers may be reached.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "layers/merge.h"

#define CHECK(truth) ((truth) ? (void)0 : abort())
#define COUNT(array) (sizeof(array) / sizeof *(array))

static char folder[PATH_MAX];
static int at = -1;
static int layers[2];
static int moved;

/* below the layers lies what must not be reached; "up" and "etc" in the lower layer are ways out for code that follows them */
static const char *const directories[] = {"outside", "top", "top/moved", "below",
                                          "below/a", "below/a/b", "below/moved"};
static const char *const links[][2] = {{"..", "below/up"}, {"../outside", "below/etc"}, {"/", "below/a/root"}};

static void remove_folder(void) {
  for (size_t i = 0; i < COUNT(links); i++) unlinkat(at, links[i][1], 0);
  for (size_t i = COUNT(directories); i > 0; i--) unlinkat(at, directories[i - 1], AT_REMOVEDIR);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  const char *parent = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/fuzz-redirect-XXXXXX", parent ? parent : "/tmp");
  CHECK(mkdtemp(folder));
  at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  atexit(remove_folder);
  for (size_t i = 0; i < COUNT(directories); i++) CHECK(mkdirat(at, directories[i], 0700) == 0);
  for (size_t i = 0; i < COUNT(links); i++) CHECK(symlinkat(links[i][0], at, links[i][1]) == 0);
  layers[0] = openat(at, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  layers[1] = openat(at, "below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  moved = openat(at, "top/moved", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(layers[0] >= 0 && layers[1] >= 0 && moved >= 0);
  return 0;
}

static void check_inside(int fd, const char *layer) {
  char link[64], path[PATH_MAX], wanted[PATH_MAX + 16];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  CHECK(length > 0);
  path[length] = 0;
  snprintf(wanted, sizeof wanted, "%s/%s", folder, layer);
  CHECK(strncmp(path, wanted, strlen(wanted)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (fsetxattr(moved, REDIRECT_MARK, data, size, 0) != 0) return 0;
  struct merged roots = {.count = 2, .fds = {layers[0], layers[1]}, .layers = {0, 1}, .below = NULL};
  struct found found;
  if (merged_lookup(layers, 2, &roots, "moved", &found) == 0) {
    CHECK(found.kind == FOUND_DIRECTORY && found.directory.count >= 1 && found.directory.count <= 2);
    check_inside(found.directory.fds[0], "top/");
    if (found.directory.count == 2) check_inside(found.directory.fds[1], "below/");
    close_merged(&found.directory);
  }
  return 0;
}
