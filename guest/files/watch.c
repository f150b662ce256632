/*
 * watch.c: tells what changes at a path, through inotify, until the other side closes the connection.
 *
 * inotify watches one directory, not a tree: with `recursive` every directory gets a watch, also those that appear
 * later. What is made inside a new directory before its watch is in place is found by looking, so that nothing is
 * missed; it may therefore be reported twice. Both ends of a move carry the same cookie and are reported as one change when
 * both are watched.
 *
 * A file that appears with something in it, as one that file_draft.c puts in its place, was written too. Drafts themselves
 * are not told about: while they have no name, and while they have one beside the file that they replace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "files/files.h"
#include "files/walk.h"

/* directories that one request may watch */
#define WATCH_LIMIT (1u << 16)
/* how long the second half of a move may take to follow the first, in ms: rename(2) queues them one after the other */
#define MOVE_WAIT 20
#define EVENTS_ROOM (64u << 10)

/* IN_MODIFY rather than IN_CLOSE_WRITE: a log that is never closed changes too. */
#define CHANGES \
  (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

enum change { CREATED = 1, WRITTEN = 2, REMOVED = 3, MOVED = 4, METADATA = 5 };

struct watched {
  int wd;
  /* relative to the root of the watch, "" for itself; malloc()ed */
  char *path;
};

struct watch {
  struct file_session *s;
  int inotify;
  bool recursive;
  int root;
  /* ascending by wd */
  struct watched *list;
  size_t count, room;
  /* the first half of a move: cookie 0 when there is none */
  uint32_t cookie;
  bool moved_directory;
  char moved_from[PATH_MAX];
  /* the change told last, to tell a run of equal ones once */
  enum change last_kind;
  char last_path[PATH_MAX];
  bool over;
  int broken;
  /* why the watch cannot go on */
  int error;
  const char *reason;
};

static void give_up(struct watch *w, int error, const char *reason) {
  if (!w->error) w->reason = reason;
  if (!w->error) w->error = error;
}

static bool stopped(const struct watch *w) { return w->over || w->broken || w->error; }

/* "<root>/<relative>"; false when it is too long to be told. */
static bool absolute(const struct watch *w, const char *relative, char path[PATH_MAX]) {
  const char *root = w->s->path;
  const char *slash = *relative && root[1] ? "/" : "";
  int length = snprintf(path, PATH_MAX, "%s%s%s", root, slash, relative);
  return length > 0 && length < PATH_MAX;
}

static bool join(const char *directory, const char *name, char path[PATH_MAX]) {
  int length = snprintf(path, PATH_MAX, "%s%s%s", directory, *directory && *name ? "/" : "", name);
  return length >= 0 && length < PATH_MAX;
}

static void tell(struct watch *w, enum change kind, bool directory, const char *from, const char *to) {
  char path[PATH_MAX], target[PATH_MAX] = "";
  if (!absolute(w, from, path) || (to && !absolute(w, to, target))) return;
  if (kind == w->last_kind && (kind == WRITTEN || kind == METADATA) && strcmp(path, w->last_path) == 0) return;
  w->last_kind = kind;
  strcpy(w->last_path, path);
  struct writer frame = frame_begin(WIRE_CHANGED, w->s->id);
  write_u8(&frame, (uint8_t)kind);
  write_u8(&frame, directory);
  write_str(&frame, path);
  write_str(&frame, target);
  w->broken = out_frame(w->s, &frame);
}

/* Something that was not there, or not in the tree, before. */
static void tell_new(struct watch *w, bool directory, const char *relative) {
  char path[PATH_MAX];
  struct stat facts;
  tell(w, CREATED, directory, relative, NULL);
  if (directory || !absolute(w, relative, path) || fstatat(AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(facts.st_mode) && facts.st_size > 0) tell(w, WRITTEN, false, relative, NULL);
}

/* --- the list of watches --- */

/* the first one whose wd is not smaller */
static size_t find(const struct watch *w, int wd) {
  size_t low = 0, high = w->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (w->list[middle].wd < wd) low = middle + 1;
    else high = middle;
  }
  return low;
}

static const char *path_of(const struct watch *w, int wd) {
  size_t at = find(w, wd);
  return at < w->count && w->list[at].wd == wd ? w->list[at].path : NULL;
}

static bool make_room(struct watch *w) {
  if (w->count < w->room) return true;
  size_t room = w->room ? w->room * 2 : 16;
  struct watched *bigger = realloc(w->list, room * sizeof *bigger);
  if (!bigger) return false;
  w->list = bigger;
  w->room = room;
  return true;
}

static void drop_at(struct watch *w, size_t at) {
  free(w->list[at].path);
  memmove(&w->list[at], &w->list[at + 1], (w->count - at - 1) * sizeof *w->list);
  w->count--;
}

/* The kernel gives a directory that is watched already the same wd again: its path is what it is called now. */
static void remember(struct watch *w, int wd, const char *path) {
  size_t at = find(w, wd);
  char *copy = strdup(path);
  if (!copy || !make_room(w)) {
    free(copy);
    give_up(w, ENOMEM, NULL);
    return;
  }
  if (at < w->count && w->list[at].wd == wd) {
    free(w->list[at].path);
  } else {
    memmove(&w->list[at + 1], &w->list[at], (w->count - at) * sizeof *w->list);
    w->count++;
  }
  w->list[at] = (struct watched){.wd = wd, .path = copy};
}

/* The rest of `path` below `directory` ("" for itself), or NULL when it is elsewhere. */
static const char *below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (strncmp(path, directory, length) != 0) return NULL;
  return path[length] == '/' || path[length] == 0 ? path + length : NULL;
}

/* A directory that is not in the tree any more must not be told about under its old name. */
static void forget_below(struct watch *w, const char *directory) {
  for (size_t at = w->count; at-- > 0;) {
    if (!below(w->list[at].path, directory)) continue;
    inotify_rm_watch(w->inotify, w->list[at].wd);
    drop_at(w, at);
  }
}

static void rename_below(struct watch *w, const char *from, const char *to) {
  for (size_t at = 0; at < w->count; at++) {
    const char *rest = below(w->list[at].path, from);
    if (!rest) continue;
    char *path = NULL;
    if (asprintf(&path, "%s%s", to, rest) < 0) {
      give_up(w, ENOMEM, NULL);
      return;
    }
    free(w->list[at].path);
    w->list[at].path = path;
  }
}

/* --- adding directories --- */

/* Watches one directory; one that is gone or closed to us is left out. */
static void add(struct watch *w, const char *relative) {
  char path[PATH_MAX];
  if (!absolute(w, relative, path)) return;
  if (w->count >= WATCH_LIMIT) {
    give_up(w, ENOSPC, "it has more directories than can be watched");
    return;
  }
  /* IN_DONT_FOLLOW, IN_ONLYDIR: the name may stand for a symlink by now */
  int wd = inotify_add_watch(w->inotify, path, CHANGES | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK);
  if (wd >= 0) remember(w, wd, relative);
  else if (errno == ENOSPC) give_up(w, ENOSPC, "the kernel's limit of watches is reached");
  else if (errno == ENOMEM) give_up(w, ENOMEM, NULL);
}

/* The root of the watch may be named by a symlink; below it none is followed. */
static int open_below(const struct watch *w, const char *relative) {
  char path[PATH_MAX];
  if (!*relative) return open(w->s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  return absolute(w, relative, path) ? open_directory(AT_FDCWD, path) : -1;
}

/* Watches every directory below one that is watched already; `found` tells what is there as created. */
static void add_below(struct watch *w, const char *relative, bool found) {
  static struct walk walk;
  char path[PATH_MAX], inner[PATH_MAX];
  const char *name;
  unsigned char type;
  int fd = open_below(w, relative);
  if (fd < 0) return;
  walk = (struct walk){0};
  int error = walk_begin(&walk, fd);
  while (!error && !stopped(w)) {
    error = walk_next(&walk, &name, &type);
    if (error || (!name && walk.depth == 1)) break;
    if (!name) {
      error = walk_leave(&walk, &name);
      continue;
    }
    fd = open_directory(walk_fd(&walk), name);
    bool fits = walk_path(&walk, name, inner) == 0 && join(relative, inner, path);
    if (fits && found && !is_draft_name(name)) tell_new(w, fd >= 0, path);
    if (fits && fd >= 0 && !is_kernel_interface(fd)) {
      add(w, path);
      error = walk_enter(&walk, name, fd);
    } else if (fd >= 0) {
      close(fd);
    }
  }
  walk_end(&walk);
}

static void appeared(struct watch *w, const char *path, bool found) {
  if (!w->recursive) return;
  add(w, path);
  add_below(w, path, found);
}

/* --- events --- */

static const char *name_in(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The first half of a move that has no second one: it went out of the tree. */
static void settle_move(struct watch *w) {
  if (!w->cookie) return;
  w->cookie = 0;
  if (is_draft_name(name_in(w->moved_from))) return;
  tell(w, MOVED, w->moved_directory, w->moved_from, NULL);
  if (w->moved_directory) forget_below(w, w->moved_from);
}

static void moved_to(struct watch *w, const char *path, bool directory, uint32_t cookie) {
  if (!w->cookie || w->cookie != cookie) {
    settle_move(w);
    tell_new(w, directory, path);
    if (directory) appeared(w, path, true);
    return;
  }
  w->cookie = 0;
  if (is_draft_name(name_in(w->moved_from))) {
    tell(w, WRITTEN, directory, path, NULL);
    return;
  }
  tell(w, MOVED, directory, w->moved_from, path);
  if (directory) rename_below(w, w->moved_from, path);
}

/* Something happened to the path that is watched itself. */
static void self_event(struct watch *w, const struct inotify_event *event, bool directory) {
  if (event->mask & IN_ATTRIB) tell(w, METADATA, directory, "", NULL);
  if (event->mask & IN_MODIFY) tell(w, WRITTEN, directory, "", NULL);
  if (event->mask & IN_MOVE_SELF) tell(w, MOVED, directory, "", NULL);
  if (event->mask & IN_DELETE_SELF) tell(w, REMOVED, directory, "", NULL);
  /* nothing can be told about a path that leads here no more */
  if (event->mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT)) w->over = true;
}

/* A file without a name (O_TMPFILE) has a number as its name, and watchers of the directory get its changes. */
static bool is_nameless(const struct watch *w, const struct inotify_event *event, const char *relative) {
  char path[PATH_MAX];
  struct stat facts;
  if (event->name[0] != '#' || !(event->mask & (IN_ATTRIB | IN_MODIFY)) || !absolute(w, relative, path)) return false;
  return fstatat(AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW) != 0;
}

static void name_event(struct watch *w, const struct inotify_event *event, const char *path) {
  bool directory = event->mask & IN_ISDIR;
  if (event->mask & IN_MOVED_TO) {
    moved_to(w, path, directory, event->cookie);
    return;
  }
  settle_move(w);
  if (event->mask & IN_MOVED_FROM) {
    w->cookie = event->cookie;
    w->moved_directory = directory;
    strcpy(w->moved_from, path);
  }
  if (is_draft_name(event->name) || is_nameless(w, event, path)) return;
  if (event->mask & IN_CREATE) tell_new(w, directory, path);
  if (event->mask & IN_CREATE && directory) appeared(w, path, true);
  if (event->mask & IN_MODIFY) tell(w, WRITTEN, directory, path, NULL);
  if (event->mask & IN_ATTRIB) tell(w, METADATA, directory, path, NULL);
  if (event->mask & IN_DELETE) tell(w, REMOVED, directory, path, NULL);
}

static void take_event(struct watch *w, const struct inotify_event *event) {
  char path[PATH_MAX];
  if (event->mask & IN_Q_OVERFLOW) {
    give_up(w, EOVERFLOW, "changes came faster than they were taken, and some are lost");
    return;
  }
  const char *directory = path_of(w, event->wd);
  if (!directory) return;
  if (event->len == 0 && event->wd == w->root) {
    settle_move(w);
    self_event(w, event, event->mask & IN_ISDIR);
  } else if (event->len == 0) {
    /* the directory above tells what happens to one below the root; only the end of its watch is of interest */
    if (event->mask & IN_IGNORED) drop_at(w, find(w, event->wd));
  } else if (join(directory, event->name, path)) {
    name_event(w, event, path);
  }
}

static void take_events(struct watch *w) {
  static char events[EVENTS_ROOM] __attribute__((aligned(8)));
  ssize_t length = read(w->inotify, events, sizeof events);
  if (length < 0 && errno != EAGAIN && errno != EINTR) give_up(w, errno, NULL);
  for (char *at = events; length > 0 && at < events + length && !stopped(w);) {
    const struct inotify_event *event = (const struct inotify_event *)at;
    at += sizeof *event + event->len;
    take_event(w, event);
  }
}

static void run(struct watch *w) {
  while (!stopped(w)) {
    struct pollfd fds[2] = {{.fd = w->s->fd, .events = POLLIN}, {.fd = w->inotify, .events = POLLIN}};
    int ready = poll(fds, 2, w->cookie ? MOVE_WAIT : -1);
    if (ready < 0 && errno != EINTR) give_up(w, errno, NULL);
    if (ready == 0) settle_move(w);
    if (ready > 0 && fds[0].revents) w->broken = EPIPE;
    if (ready > 0 && fds[1].revents) take_events(w);
    if (!w->broken) w->broken = out_flush(w->s);
  }
}

/* Puts the first watch on the path itself, file or directory, and those below it. */
static int begin(struct watch *w) {
  w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (w->inotify < 0 && (errno == EMFILE || errno == ENFILE)) {
    give_up(w, ENOSPC, "the kernel's limit of watchers is reached");
    return -1;
  }
  if (w->inotify < 0) return -1;
  w->root = inotify_add_watch(w->inotify, w->s->path, CHANGES | IN_EXCL_UNLINK);
  if (w->root < 0) {
    if (errno == ENOSPC) give_up(w, ENOSPC, "the kernel's limit of watches is reached");
    return -1;
  }
  remember(w, w->root, "");
  if (w->recursive) add_below(w, "", false);
  return w->error ? -1 : 0;
}

static void end(struct watch *w) {
  for (size_t at = 0; at < w->count; at++) free(w->list[at].path);
  free(w->list);
  if (w->inotify >= 0) close(w->inotify);
}

int handle_watch(struct file_session *s, struct reader *r) {
  static struct watch watch;
  int result;
  watch = (struct watch){.s = s, .inotify = -1};
  read_path(s, r, s->path);
  watch.recursive = read_u8(r) != 0;
  if (refused(s, r, "watch", &result)) return result;
  size_t length = strlen(s->path);
  while (length > 1 && s->path[length - 1] == '/') s->path[--length] = 0;
  if (begin(&watch) != 0) {
    int error = watch.error ? watch.error : errno;
    end(&watch);
    return answer_fail(s, error, "watch", s->path, watch.reason);
  }
  watch.broken = answer_ok(s);
  run(&watch);
  end(&watch);
  if (watch.broken) return watch.broken;
  return watch.error ? answer_fail(s, watch.error, "watch", s->path, watch.reason) : answer_end(s);
}
