/* view_mount.c: mounts the file system of view.h and puts its files over the kernel's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <unistd.h>

#include "shared/mountapi.h"
#include "view/view.h"
#include "view/view_files.h"

/* the stack of a thread that answers requests: fuse_serve() and the texts have buffers of up to 12 KiB on it */
#define STACK (128u << 10)

/* relative to the root that is being built */
static const struct {
  const char *name, *covers;
} places[] = {
    {"meminfo", "proc/meminfo"},
    {"vmstat", "proc/vmstat"},
    {"swaps", "proc/swaps"},
    {"cpuinfo", "proc/cpuinfo"},
    {"loadavg", "proc/loadavg"},
    {"uptime", "proc/uptime"},
    {"stat", "proc/stat"},
    {"cgroups", "proc/cgroups"},
    {"file-nr", "proc/sys/fs/file-nr"},
    {"inode-nr", "proc/sys/fs/inode-nr"},
    {"inode-state", "proc/sys/fs/inode-state"},
    {"dentry-state", "proc/sys/fs/dentry-state"},
    {"aio-nr", "proc/sys/fs/aio-nr"},
    {"pty-nr", "proc/sys/kernel/pty/nr"},
    {"boot_id", "proc/sys/kernel/random/boot_id"},
};

struct server {
  int fd;
  int end; /* readable when the server is to end */
};

static void *serve(void *argument) {
  const struct server *s = argument;
  for (;;) {
    struct pollfd polled[] = {{.fd = s->end, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents) return NULL;
    if (polled[1].revents && fuse_serve(&view_files, s->fd) == ENODEV) return NULL;
  }
}

/* To name a file of the file system is to ask its server, which the calling process is: for now a thread answers. */
static int start(struct server *s, pthread_t *thread) {
  mallopt(M_ARENA_MAX, 1); /* a thread would get 64 MiB of addresses of its own */
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  error = pthread_attr_setstacksize(&attributes, STACK);
  if (!error) error = pthread_create(thread, &attributes, serve, s);
  pthread_attr_destroy(&attributes);
  return error;
}

static int stop(const struct server *s, pthread_t thread) {
  if (eventfd_write(s->end, 1) < 0) return errno;
  return pthread_join(thread, NULL);
}

static int cover(int directory, const char *name, const char *path) {
  int mount = sys_open_tree(directory, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (mount < 0) return errno;
  int error = sys_move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? errno : 0;
  close(mount);
  return error;
}

static int cover_all(int directory, const char **step) {
  int error = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places && !error; i++) {
    *step = places[i].covers;
    /* not every kernel has them all */
    if (faccessat(AT_FDCWD, places[i].covers, F_OK, 0) == 0) error = cover(directory, places[i].name, places[i].covers);
  }
  return error;
}

static int show_served(int fd, const char *at, const char **step) {
  char options[128];
  snprintf(options, sizeof options, "fd=%d,rootmode=40555,user_id=0,group_id=0,allow_other,default_permissions", fd);
  if (mount("view", at, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0) return errno;
  /* to open it takes no question yet */
  int directory = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct server server = {.fd = fd, .end = eventfd(0, EFD_CLOEXEC)};
  pthread_t thread;
  int error = directory < 0 || server.end < 0 ? errno : start(&server, &thread);
  if (!error) {
    error = cover_all(directory, step);
    int late = stop(&server, thread);
    if (!error) error = late;
  }
  if (directory >= 0) close(directory);
  if (server.end >= 0) close(server.end);
  return error;
}

static int write_file(int directory, const struct fuse_file *file) {
  char *text = malloc(FUSE_TEXT);
  if (!text) return ENOMEM;
  size_t length = file->text(text, FUSE_TEXT);
  int fd = openat(directory, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  int error = fd < 0 ? errno : write(fd, text, length) == (ssize_t)length ? 0 : ENOSPC;
  if (fd >= 0) close(fd);
  free(text);
  return error;
}

/* without FUSE: what is true when the sandbox begins; its limits, but not what is in use later */
static int show_written(const char *at, const char **step) {
  if (mount("view", at, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555,size=1m,nr_inodes=64") < 0) return errno;
  int directory = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = directory < 0 ? errno : 0;
  for (size_t i = 0; i < view_files.count && !error; i++) error = write_file(directory, &view_files.files[i]);
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
  if (!error && sys_mount_setattr(directory, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) error = errno;
  if (!error) error = cover_all(directory, step);
  if (directory >= 0) close(directory);
  return error;
}

int view_mount(int fd, const char *at, const char **step) {
  *step = "mounting its own files of /proc";
  return fd < 0 ? show_written(at, step) : show_served(fd, at, step);
}
