/*
 * channel.c: tries to reach one sandbox from another through whatever both might share.
 *
 * `channel send NUMBER` and `channel receive NUMBER`, where the number tells the marks of one run from those of others:
 *
 *   send     leaves a mark of every kind, says "sent" and keeps the marks until it is killed
 *   receive  says "ready", waits until a line arrives on its standard input, then prints one line for each mark it finds
 *            ("kind what") and at last "done"
 *
 * Both look at the same paths: every device, the files that cover /proc, settings, files of the image, and one of their
 * own. In one sandbox the receiver finds marks of every kind, which is how a test knows that both work.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST 128
#define OWN "/var/tmp/channel"

/* of SysV objects, and of everything else that has a name */
static key_t key;
static char name[64];

static char *paths[MOST];
static size_t path_count;

static const char *const FIXED[] = {
    "/proc/kcore",   "/proc/keys",          "/proc/key-users",    "/proc/timer_list",
    "/proc/cmdline", "/proc/sysrq-trigger", "/proc/kallsyms",     "/proc/interrupts",
    "/proc/acpi",    "/proc/fs",            "/proc/bus",          "/proc/irq",
    "/proc/meminfo", "/proc/version",       "/proc/sys",          "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",          "/proc/sys/fs/file-nr", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue",
    "/usr/bin/env",  "/etc/hosts",          "/etc/passwd",        "/",
    OWN,
};

static void add(const char *path) {
  if (path_count < MOST && access(path, F_OK) == 0) paths[path_count++] = strdup(path);
}

static void find_paths(void) {
  close(open(OWN, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED; i++) add(FIXED[i]);
  DIR *devices = opendir("/dev");
  for (struct dirent *entry; devices && (entry = readdir(devices));) {
    char path[512];
    snprintf(path, sizeof path, "/dev/%s", entry->d_name);
    if (entry->d_type == DT_CHR) add(path);
  }
  if (devices) closedir(devices);
}

static int open_any(const char *path) {
  int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return fd >= 0 ? fd : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* ---- sending ---- */

static void mark(const char *path) {
  int fd = open_any(path);
  if (fd < 0) return;
  char byte;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) < 0) lock.l_type = F_RDLCK, fcntl(fd, F_SETLK, &lock);
  flock(fd, LOCK_EX | LOCK_NB);
  fcntl(fd, F_SETLEASE, F_RDLCK);
  if (read(fd, &byte, 1) < 0) errno = 0;
  if ((strncmp(path, "/dev/", 5) == 0 || strcmp(path, OWN) == 0) && write(fd, "x", 1) < 0) errno = 0;
  futimens(fd, NULL);
  utimensat(AT_FDCWD, path, NULL, 0);
  struct stat facts;
  if (fstat(fd, &facts) == 0) chmod(path, facts.st_mode & 07777);
  /* stays open, and with it the locks */
}

static void leave_objects(void) {
  shmget(key, 4096, IPC_CREAT | 0666);
  msgget(key, IPC_CREAT | 0666);
  semget(key, 1, IPC_CREAT | 0666);
  shm_open(name, O_RDWR | O_CREAT, 0666);
  mq_open(name, O_RDWR | O_CREAT, 0666, NULL);
  syscall(SYS_add_key, "user", name, "x", 1, -5);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) == 0) {
    listen(fd, 1);
  }
}

static _Noreturn void send_marks(void) {
  for (size_t i = 0; i < path_count; i++) mark(paths[i]);
  leave_objects();
  puts("sent");
  fflush(stdout);
  for (;;) pause();
}

/* ---- receiving ---- */

static struct stat before[MOST];
static int watches[MOST];

static void look_at_locks(const char *path) {
  int fd = open_any(path);
  if (fd < 0) return;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) printf("lock %s\n", path);
  if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) printf("flock %s\n", path);
  close(fd);
}

/* a lease of another process makes a nonblocking open fail */
static void look_at_leases(const char *path) {
  int fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 && errno == EWOULDBLOCK) printf("lease %s\n", path);
  if (fd >= 0) close(fd);
}

static bool same(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static void look_at_times(size_t i) {
  struct stat now;
  /* files of the kernel's own have the time at which one looks */
  if (strncmp(paths[i], "/proc/sys", 9) == 0 || stat(paths[i], &now) < 0) return;
  if (!same(&now.st_mtim, &before[i].st_mtim) || !same(&now.st_ctim, &before[i].st_ctim)) printf("times %s\n", paths[i]);
}

static void look_at_events(int inotify) {
  char buffer[65536];
  ssize_t n = read(inotify, buffer, sizeof buffer);
  for (char *at = buffer; n > 0 && at < buffer + n;) {
    struct inotify_event *event = (struct inotify_event *)(void *)at;
    for (size_t i = 0; i < path_count; i++) {
      if (watches[i] == event->wd) printf("event %s\n", paths[i]);
    }
    at += sizeof *event + event->len;
  }
}

static void look_for_objects(void) {
  if (shmget(key, 0, 0) >= 0) puts("sysv shared memory");
  if (msgget(key, 0) >= 0) puts("sysv queue");
  if (semget(key, 0, 0) >= 0) puts("sysv semaphore");
  if (shm_open(name, O_RDONLY, 0) >= 0) puts("posix shared memory");
  if (mq_open(name, O_RDONLY) >= 0) puts("posix queue");
  if (syscall(SYS_request_key, "user", name, NULL, 0) >= 0) puts("key user");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path + 1, name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (connect(fd, (struct sockaddr *)&address, size) == 0) puts("abstract socket");
}

/* locks of processes that are not ours would have a number all the same */
static void look_at_list(const char *path, const char *kind) {
  char line[256];
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file)) printf("%s %s", kind, line);
  if (file) fclose(file);
}

static int receive_marks(void) {
  int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  for (size_t i = 0; i < path_count; i++) {
    watches[i] = inotify_add_watch(inotify, paths[i], IN_ALL_EVENTS);
    if (stat(paths[i], &before[i]) < 0) memset(&before[i], 0, sizeof before[i]);
  }
  puts("ready");
  fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin)) return 1;
  look_at_events(inotify);
  for (size_t i = 0; i < path_count; i++) look_at_times(i);
  for (size_t i = 0; i < path_count; i++) {
    look_at_leases(paths[i]);
    look_at_locks(paths[i]);
  }
  look_for_objects();
  look_at_list("/proc/locks", "listed");
  puts("done");
  return 0;
}

int main(int argc, char **argv) {
  find_paths();
  key = argc > 2 ? 0x5a000000 + atoi(argv[2]) : 0;
  snprintf(name, sizeof name, "/sandkeep-channel-%s", argc > 2 ? argv[2] : "");
  if (argc > 2 && !strcmp(argv[1], "send")) send_marks();
  if (argc > 2 && !strcmp(argv[1], "receive")) return receive_marks();
  fprintf(stderr, "usage: channel send NUMBER | channel receive NUMBER\n");
  return 64;
}
