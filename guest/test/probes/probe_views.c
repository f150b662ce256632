/*
 * probe_views.c: what a program inside can see that it did not make: descriptors, environment, processes, shared
 * memory, terminals, mounts. Some lines are for the tests to read rather than to be closed.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static enum ending inherited_descriptors(const struct probe *p) {
  (void)p;
  for (int fd = 3; fd < 4096; fd++) {
    if (fcntl(fd, F_GETFD) < 0) continue;
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = 0;
    return is_open("%d is \"%s\"", fd, target);
  }
  return is_closed("only 0, 1 and 2");
}

/* A descriptor of a directory would be a way around the root. */
static enum ending standard_descriptors(const struct probe *p) {
  (void)p;
  struct stat facts;
  for (int fd = 0; fd < 3; fd++) {
    if (fstat(fd, &facts)) continue;
    if (S_ISDIR(facts.st_mode) || S_ISBLK(facts.st_mode) || S_ISREG(facts.st_mode))
      return is_open("%d has mode %o", fd, facts.st_mode);
    if (S_ISSOCK(facts.st_mode)) return is_open("%d is a socket", fd);
  }
  return is_closed("pipes, terminals or null devices");
}

static enum ending shared_memory(const struct probe *p) {
  (void)p;
  struct shm_info info;
  struct shmid_ds facts;
  if (shmctl(0, SHM_INFO, (struct shmid_ds *)&info) < 0) return is_closed("%s", strerror(errno));
  if (info.used_ids) return is_open("%d segments are there", info.used_ids);
  return shmctl(0, SHM_STAT, &facts) >= 0 ? is_open("a segment is there") : is_closed("no segment is there");
}

static enum ending semaphores(const struct probe *p) {
  (void)p;
  struct seminfo info;
  if (semctl(0, 0, SEM_INFO, &info) < 0) return is_closed("%s", strerror(errno));
  return info.semusz ? is_open("%d sets are there", info.semusz) : is_closed("no set is there");
}

static enum ending message_queues(const struct probe *p) {
  (void)p;
  struct msginfo info;
  if (msgctl(0, MSG_INFO, (struct msqid_ds *)&info) < 0) return is_closed("%s", strerror(errno));
  return info.msgpool ? is_open("%d queues are there", info.msgpool) : is_closed("no queue is there");
}

/* Directories that a sandbox has to itself: everything in them must come from inside. */
static enum ending foreign_entries(const struct probe *p) {
  DIR *directory = opendir(p->path);
  if (!directory) return is_closed("%s", strerror(errno));
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (entry->d_name[0] == '.' || (p->first && !strcmp(entry->d_name, "ptmx"))) continue;
    return is_open("there is \"%s\"", entry->d_name);
  }
  return is_closed("it is empty");
}

static enum ending environment(const struct probe *p) {
  (void)p;
  printf("n/a:");
  for (char **variable = environ; *variable; variable++) printf(" %s", *variable);
  putchar('\n');
  return UNTRIED;
}

static enum ending processes(const struct probe *p) {
  (void)p;
  char path[64], line[256];
  DIR *directory = opendir("/proc");
  if (!directory) return untried("%s", strerror(errno));
  printf("n/a:");
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%.16s/cmdline", entry->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < got; i++)
      if (line[i] < ' ') line[i] = ' ';
    line[got < 0 ? 0 : got] = 0;
    printf(" [%s %s]", entry->d_name, line);
  }
  putchar('\n');
  return UNTRIED;
}

/* The argument is a piece of a path of the host's that no mount may show. */
static enum ending mounts_show(const struct probe *p) {
  (void)p;
  char line[8192];
  if (!probe_argument) return untried("needs a piece of a path outside");
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (!file) return is_closed("%s", strerror(errno));
  while (fgets(line, sizeof line, file))
    if (strstr(line, probe_argument)) {
      line[strcspn(line, "\n")] = 0;
      fclose(file);
      return is_open("%s", line);
    }
  fclose(file);
  return is_closed("no mount shows it");
}

/* Which cgroup one is in must not be told by its name outside. */
static enum ending cgroup_path(const struct probe *p) {
  (void)p;
  char line[512];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return is_closed("%s", strerror(errno));
  while (fgets(line, sizeof line, file)) {
    char *path = strrchr(line, ':');
    if (!path || !strcmp(path, ":/\n")) continue;
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    return is_open("%s", line);
  }
  fclose(file);
  return is_closed("every path is /");
}

/* A security module's label, which a program may change only to what its policy says; this one is in no policy. */
static enum ending change_label(const struct probe *p) {
  int fd = open(p->path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return ended(write(fd, "sandkeep-probe", 14));
}

const struct probe VIEW_PROBES[] = {
    {"inherited-descriptors", inherited_descriptors, NULL, 0, 0, 0},
    {"standard-descriptors", standard_descriptors, NULL, 0, 0, 0},
    {"shared-memory-of-others", shared_memory, NULL, 0, 0, 0},
    {"semaphores-of-others", semaphores, NULL, 0, 0, 0},
    {"message-queues-of-others", message_queues, NULL, 0, 0, 0},
    {"posix-queues-of-others", foreign_entries, "/dev/mqueue", 0, 0, 0},
    {"shared-files-of-others", foreign_entries, "/dev/shm", 0, 0, 0},
    {"terminals-of-others", foreign_entries, "/dev/pts", 1, 0, 0},
    {"cgroup-path", cgroup_path, NULL, 0, 0, 0},
    {"attr-current-write", change_label, "/proc/self/attr/current", 0, 0, 0},
    {"attr-exec-write", change_label, "/proc/self/attr/exec", 0, 0, 0},
    {"mounts-show", mounts_show, NULL, 0, 0, 0},
    {"environment", environment, NULL, 0, 0, 0},
    {"processes", processes, NULL, 0, 0, 0},
    {0},
};
