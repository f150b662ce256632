/*
 * flatten_main.c: runs flatten_layers() for the tests, and shows what a merged tree holds.
 *
 *   flatten_main flatten OUT LAYER...     topmost layer first
 *   flatten_main dump DIRECTORY           one line a file, with everything that must survive a flattening
 *   flatten_main xattr PATH NAME VALUE    sets an xattr, which Node cannot
 *   flatten_main whiteout PATH            makes a character device 0/0, which Node cannot
 */
#define _GNU_SOURCE
#include "layers/flatten.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static int flatten(int count, char **paths) {
  int out = open(paths[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int layers[FLATTEN_MAX_LAYERS + 1];
  if (out < 0 || count - 1 > FLATTEN_MAX_LAYERS) {
    fprintf(stderr, "%s: %s\n", paths[0], strerror(out < 0 ? errno : E2BIG));
    return 1;
  }
  for (int i = 1; i < count; i++) {
    layers[i - 1] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layers[i - 1] < 0) {
      fprintf(stderr, "%s: %s\n", paths[i], strerror(errno));
      return 1;
    }
  }
  char why[1024];
  int error = flatten_layers(layers, (size_t)(count - 1), out, why, sizeof why);
  if (error) fprintf(stderr, "Cannot flatten layers: %s\n", why);
  return error ? 1 : 0;
}

static uint64_t hash_file(int fd) {
  uint64_t hash = 0xcbf29ce484222325u;
  uint8_t buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < n; i++) hash = (hash ^ buffer[i]) * 0x100000001b3u;
  }
  return hash;
}

static void dump_xattrs(int fd) {
  char list[4096], value[4096];
  ssize_t length = flistxattr(fd, list, sizeof list);
  for (char *name = list; length > 0 && name < list + length; name += strlen(name) + 1) {
    ssize_t n = fgetxattr(fd, name, value, sizeof value);
    if (strncmp(name, "trusted.overlay.", 16) != 0 && n >= 0) printf(" %s=%.*s", name, (int)n, value);
  }
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* the tests' trees are shallow, so this one may recurse */
static int dump(int at, const char *name, const char *shown) {
  struct stat st;
  if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW)) {
    printf("%s %s\n", shown, strerror(errno));
    return 0;
  }
  printf("%s %o %u:%u %" PRId64 ".%09ld", shown, st.st_mode, st.st_uid, st.st_gid, (int64_t)st.st_mtim.tv_sec,
         st.st_mtim.tv_nsec);
  if (S_ISLNK(st.st_mode)) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(at, name, target, sizeof target);
    printf(" -> %.*s\n", (int)(n < 0 ? 0 : n), target);
    return 0;
  }
  if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) printf(" %u/%u", major(st.st_rdev), minor(st.st_rdev));
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return printf("\n"), 0;
  int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  dump_xattrs(fd);
  if (S_ISREG(st.st_mode)) {
    printf(" %lld %016" PRIx64 "\n", (long long)st.st_size, hash_file(fd));
    close(fd);
    return 0;
  }
  printf("\n");
  struct dirent **entries;
  int count = scandirat(fd, ".", &entries, NULL, by_name), error = count < 0 ? errno : 0;
  for (int i = 0; i < count; i++) {
    const char *child = entries[i]->d_name;
    if (!error && strcmp(child, ".") != 0 && strcmp(child, "..") != 0) {
      char *path;
      if (asprintf(&path, "%s/%s", shown, child) < 0) return ENOMEM;
      error = dump(fd, child, path);
      free(path);
    }
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  close(fd);
  return error;
}

int main(int argc, char **argv) {
  if (argc >= 4 && strcmp(argv[1], "flatten") == 0) return flatten(argc - 2, argv + 2);
  if (argc == 3 && strcmp(argv[1], "dump") == 0) return dump(AT_FDCWD, argv[2], ".") ? 1 : 0;
  int failed = 2;
  if (argc == 5 && strcmp(argv[1], "xattr") == 0) failed = lsetxattr(argv[2], argv[3], argv[4], strlen(argv[4]), 0);
  else if (argc == 3 && strcmp(argv[1], "whiteout") == 0) failed = mknod(argv[2], S_IFCHR, makedev(0, 0));
  else fprintf(stderr, "usage: flatten_main flatten|dump|xattr|whiteout ...\n");
  if (failed == -1) perror(argv[2]);
  return failed ? 1 : 0;
}
