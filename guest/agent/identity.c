/* identity.c: looks users up in the sandbox's passwd and group files; the C library's own look-up would load modules. */
#define _GNU_SOURCE
#include "agent/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELDS 7
#define LINE_ROOM (64u << 10)
/* longest part of a file that is read: a sparse file could be endless */
#define FILE_BOUND (16u << 20)

/* a file line by line */
struct lines {
  FILE *file;
  size_t left;
  char line[LINE_ROOM];
};

/* opens a file of the sandbox only if it is a plain file: a FIFO there must not block us */
static bool open_plain(struct lines *l, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  struct stat facts;
  l->left = FILE_BOUND;
  l->file = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? fdopen(fd, "r") : NULL;
  if (!l->file) close(fd);
  return l->file;
}

/* false at the end. A line without room is passed over as a whole: its rest must not count as a line of its own */
static bool next_line(struct lines *l) {
  size_t length = 0;
  for (int c; l->left > 0 && (c = getc_unlocked(l->file)) != EOF;) {
    l->left--;
    if (c != '\n') {
      if (length < LINE_ROOM) l->line[length++] = (char)c;
    } else if (length < LINE_ROOM) {
      l->line[length] = 0;
      return true;
    } else {
      length = 0;
    }
  }
  if (length == 0 || length == LINE_ROOM || l->left == 0) return false;
  l->line[length] = 0;
  l->left = 0;
  return true;
}

/* cuts a line at its colons; returns how many fields it has */
static size_t cut(char *line, char *fields[FIELDS]) {
  size_t count = 0;
  for (char *rest = line; rest && count < FIELDS;) fields[count++] = strsep(&rest, ":");
  return count;
}

static bool parse_id(const char *text, unsigned *id) {
  if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 9) return false;
  *id = (unsigned)strtoul(text, NULL, 10);
  return true;
}

/* finds the passwd line whose name, or whose uid, this is; the first one counts */
static bool find_passwd(const char *name, const unsigned *uid, struct identity *out) {
  static struct lines l;
  if (!open_plain(&l, "/etc/passwd")) return false;
  bool found = false;
  while (!found && next_line(&l)) {
    char *f[FIELDS];
    unsigned id, group;
    if (cut(l.line, f) < FIELDS || !parse_id(f[2], &id) || !parse_id(f[3], &group)) continue;
    if (name ? strcmp(f[0], name) != 0 : id != *uid) continue;
    found = true;
    out->uid = id;
    out->gid = group;
    snprintf(out->name, sizeof out->name, "%s", f[0]);
    snprintf(out->home, sizeof out->home, "%s", *f[5] ? f[5] : "/");
    snprintf(out->shell, sizeof out->shell, "%s", *f[6] ? f[6] : "/bin/sh");
  }
  fclose(l.file);
  return found;
}

/* false when there is no room for it */
static bool add_group(struct identity *out, gid_t group) {
  for (size_t i = 0; i < out->group_count; i++) {
    if (out->groups[i] == group) return true;
  }
  if (out->group_count == IDENTITY_GROUPS) return false;
  out->groups[out->group_count++] = group;
  return true;
}

static bool is_member(char *members, const char *name) {
  for (char *member; (member = strsep(&members, ","));) {
    if (strcmp(member, name) == 0) return true;
  }
  return false;
}

/* adds the groups that list the user; or, with `wanted`, finds the one group of that name. Returns 0 or why not */
static int scan_groups(struct identity *out, const char *wanted, unsigned *found) {
  static struct lines l;
  if (!open_plain(&l, "/etc/group")) return ENOENT;
  int error = ENOENT;
  while (next_line(&l)) {
    char *f[FIELDS];
    unsigned id;
    if (cut(l.line, f) < 4 || !parse_id(f[2], &id)) continue;
    if (wanted && strcmp(f[0], wanted) == 0) {
      error = 0;
      *found = id;
    } else if (!wanted && is_member(f[3], out->name)) {
      error = add_group(out, id) ? 0 : E2BIG;
    }
  }
  fclose(l.file);
  return error;
}

/* the number of a group that is given by its name or its number */
static int find_group(const char *group, unsigned *id) {
  int error = parse_id(group, id) ? 0 : scan_groups(NULL, group, id);
  return !error && *id > 65534 ? ENOENT : error;
}

static int find_user(const char *user, struct identity *out) {
  char text[256];
  if (snprintf(text, sizeof text, "%s", user) >= (int)sizeof text) return ENOENT;
  char *colon = strchr(text, ':');
  unsigned uid, gid;
  if (colon) *colon = 0;
  int error = colon ? find_group(colon + 1, &gid) : 0;
  if (error) return error;
  if (strcmp(text, "root") == 0) snprintf(text, sizeof text, "0"); /* an image without passwd has a root too */
  bool numbered = parse_id(text, &uid);
  if (numbered && uid > 65534) return ENOENT;
  if (!find_passwd(numbered ? NULL : text, &uid, out)) {
    if (!numbered) return ENOENT;
    out->uid = uid;
    out->gid = uid;
    snprintf(out->name, sizeof out->name, "%u", uid);
    snprintf(out->home, sizeof out->home, "/");
    snprintf(out->shell, sizeof out->shell, "/bin/sh");
  }
  if (colon) out->gid = gid;
  return 0;
}

int identity_find(const char *user, char *const *extra, struct identity *out) {
  memset(out, 0, sizeof *out);
  int error = find_user(*user ? user : "0", out);
  if (error) return error;
  add_group(out, out->gid);
  scan_groups(out, NULL, NULL);
  for (; extra && *extra; extra++) {
    unsigned id;
    error = find_group(*extra, &id);
    if (!error && !add_group(out, id)) error = E2BIG;
    if (error) return error;
  }
  return 0;
}

int identity_assume(const struct identity *who) {
  if (setgroups(who->group_count, who->groups) < 0) return errno;
  if (setresgid(who->gid, who->gid, who->gid) < 0) return errno;
  if (setresuid(who->uid, who->uid, who->uid) < 0) return errno;
  /* a change of user makes a process visible to debuggers where the host says so (fs.suid_dumpable) */
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? errno : 0;
}
