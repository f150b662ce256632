/*
 * fuzz_identity.c: arbitrary users, groups, /etc/passwd and /etc/group into the look-up of identity.c (libFuzzer).
 *
 * An input is four texts, each ended by a byte 0xff: a user, further groups with commas between them, the passwd file
 * and the group file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_fuzzed(const char *path, int flags);
/* the files that identity.c opens are the fuzzer's */
#define open open_fuzzed
#include "agent/identity.c"

#define MOST_EXTRA 16

struct text {
  const uint8_t *data;
  size_t length;
};

static struct text passwd, group;

static int open_fuzzed(const char *path, int flags) {
  (void)flags;
  const struct text *content = strcmp(path, "/etc/passwd") == 0 ? &passwd : &group;
  int fd = memfd_create("fuzzed", MFD_CLOEXEC);
  if (fd < 0 || write(fd, content->data, content->length) != (ssize_t)content->length) abort();
  lseek(fd, 0, SEEK_SET);
  return fd;
}

static struct text next_text(const uint8_t **at, const uint8_t *end) {
  const uint8_t *stop = memchr(*at, 0xff, (size_t)(end - *at));
  struct text text = {.data = *at, .length = (size_t)((stop ? stop : end) - *at)};
  *at = stop ? stop + 1 : end;
  return text;
}

/* the wire lets no NUL through */
static char *to_string(struct text text) { return strndup((const char *)text.data, text.length); }

static void check(const struct identity *who) {
  if (who->group_count < 1 || who->group_count > IDENTITY_GROUPS || who->groups[0] != who->gid) abort();
  if (!memchr(who->name, 0, sizeof who->name) || !memchr(who->home, 0, sizeof who->home)) abort();
  if (!memchr(who->shell, 0, sizeof who->shell) || !*who->home || !*who->shell) abort();
  /* 2^32-1 would mean "leave it as it is", and with it root's */
  if (who->uid == (uid_t)-1 || who->gid == (gid_t)-1) abort();
  for (size_t i = 0; i < who->group_count; i++) {
    if (who->groups[i] == (gid_t)-1) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *at = data, *end = data + size;
  char *user = to_string(next_text(&at, end)), *extra = to_string(next_text(&at, end));
  passwd = next_text(&at, end);
  group = next_text(&at, end);
  char *groups[MOST_EXTRA + 1] = {0};
  size_t count = 0;
  for (char *rest = extra; rest && *rest && count < MOST_EXTRA;) groups[count++] = strsep(&rest, ",");
  struct identity who;
  int error = identity_find(user, groups, &who);
  if (!error) check(&who);
  else if (error != ENOENT && error != E2BIG) abort();
  free(user);
  free(extra);
  return 0;
}
