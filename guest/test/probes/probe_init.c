/* probe_init.c: reaching into PID 1, the agent, which root inside must neither read, change, slow down nor end. */
#define _GNU_SOURCE
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static enum ending read_link(const struct probe *p) {
  char target[256];
  ssize_t length = readlink(p->path, target, sizeof target - 1);
  if (length < 0) return is_closed("%s", strerror(errno));
  target[length] = 0;
  return is_open("it is \"%s\"", target);
}

/* Opening alone proves nothing: the kernel checks some of these files when they are read. */
static enum ending read_some(const struct probe *p) {
  char byte[16];
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return is_closed("%s", strerror(errno));
  if (p->first) lseek(fd, p->first, SEEK_SET);
  ssize_t got = read(fd, byte, sizeof byte);
  if (got < 0) return is_closed("%s", strerror(errno));
  return got ? is_open("it has content") : is_closed("it is empty");
}

static enum ending list_directory(const struct probe *p) {
  DIR *directory = opendir(p->path);
  if (!directory) return is_closed("%s", strerror(errno));
  errno = 0;
  for (struct dirent *entry; (entry = readdir(directory));)
    if (entry->d_name[0] != '.') return is_open("it lists \"%s\"", entry->d_name);
  return is_closed("%s", errno ? strerror(errno) : "it lists nothing");
}

/* "Text file busy" is said to those who may write, while the program runs: they only have to wait until it does not. */
static enum ending open_busy(const struct probe *p) {
  return open(p->path, (int)p->first | O_CLOEXEC) < 0 && errno != ETXTBSY ? is_closed("%s", strerror(errno))
                                                                          : is_open("it may be written");
}

/* The kernel's own default for it. */
static enum ending write_text(const struct probe *p) {
  int fd = open(p->path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return ended(write(fd, "50000\n", 6));
}

static enum ending enter(const struct probe *p) { return ended(chdir(p->path)); }

static enum ending trace(const struct probe *p) {
  if (ptrace((enum __ptrace_request)p->first, 1, NULL, NULL)) return is_closed("%s", strerror(errno));
  /* seizing does not stop it; either ends with this process */
  if (p->first == PTRACE_ATTACH) waitpid(1, NULL, __WALL), ptrace(PTRACE_DETACH, 1, NULL, NULL);
  return is_open("attached");
}

/* An address that is mapped in no process: the permission is asked for first. */
static enum ending copy_memory(const struct probe *p) {
  char byte = 0;
  struct iovec ours = {&byte, 1}, theirs = {(void *)16, 1};
  return reached(syscall(p->first, 1, &ours, 1, &theirs, 1, 0));
}

static enum ending take_descriptor(const struct probe *p) {
  (void)p;
  long fd = syscall(SYS_pidfd_open, 1, 0);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return reached(syscall(SYS_pidfd_getfd, fd, 0, 0));
}

static enum ending compare(const struct probe *p) {
  (void)p;
  return reached(syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
}

/* Asks without setting: the kernel wants the same permission for both. */
static enum ending limits(const struct probe *p) {
  struct rlimit limit;
  return ended(syscall(SYS_prlimit64, 1, p->first, NULL, &limit));
}

static enum ending set_affinity(const struct probe *p) {
  (void)p;
  cpu_set_t none;
  CPU_ZERO(&none); /* no processor at all is refused, after the permission check */
  return reached(sched_setaffinity(1, sizeof none, &none));
}

static enum ending set_class(const struct probe *p) {
  (void)p;
  struct sched_param parameters = {.sched_priority = 1}; /* which SCHED_IDLE refuses */
  return reached(sched_setscheduler(1, SCHED_IDLE, &parameters));
}

static char state_of_init(void) {
  char line[512];
  if (read_line("/proc/1/stat", line, sizeof line) < 0) return '?';
  char *end = strrchr(line, ')');
  return end && end[1] ? end[2] : '?';
}

static int send_signal(long how, int number) {
  siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
  switch (how) {
    case 1: return (int)syscall(SYS_tgkill, 1, 1, number);
    case 2: return (int)syscall(SYS_rt_sigqueueinfo, 1, number, &info);
    case 3: return (int)syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, 1, 0), number, NULL, 0);
    default: return kill(1, number);
  }
}

/* The kernel delivers to a namespace's PID 1 only what it has handlers for: it must go on, not end and not stop. */
static enum ending send_to_init(const struct probe *p) {
  struct stat facts;
  if (stat("/proc/self/ns/pid", &facts) || facts.st_ino == 0xEFFFFFFC)
    return untried("PID 1 is the host's own: not signalled");
  int64_t started = status_number("1", "NSpid", 10);
  if (send_signal(p->second, (int)p->first)) return is_closed("%s", strerror(errno));
  /* it gets the signal when it runs next: give it a moment in which it would stop, or the sandbox would end */
  for (int i = 0; i < 20; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    char state = state_of_init();
    if (state == 'T' || state == 't') return is_open("PID 1 is stopped");
    if (state == 'Z' || state == 'X' || kill(1, 0)) return is_open("PID 1 is gone");
  }
  return started < 0 ? untried("no /proc") : is_closed("sent, and PID 1 goes on");
}

/* the last word of /proc/loadavg */
static pid_t newest_process(void) {
  char line[128];
  if (read_line("/proc/loadavg", line, sizeof line) < 0) return 0;
  char *last = strrchr(line, ' ');
  return last ? atoi(last) : 0;
}

/*
 * A command whose program does not run yet is a copy of the agent. Watches as many processes begin as the argument
 * says, and tries to attach to each from its first moment on.
 */
static enum ending catch_newborn(const struct probe *p) {
  (void)p;
  int wanted = probe_argument ? atoi(probe_argument) : 0;
  if (wanted == 0) return untried("needs to be told how many");
  for (pid_t last = getpid(); wanted > 0;) {
    pid_t pid = newest_process();
    if (pid <= last) continue;
    last = pid;
    wanted--;
    long refused;
    while ((refused = ptrace(PTRACE_SEIZE, pid, NULL, NULL)) && errno == EPERM) continue;
    if (refused || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL)) continue;
    char path[64], title[64] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    waitpid(pid, NULL, __WALL);
    if (read_line(path, title, sizeof title) > 0 && strcmp(title, "sandkeep-agent") == 0) return is_open("attached");
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
  }
  return is_closed("none let itself be caught");
}

const struct probe INIT_PROBES[] = {
    {"init-memory-read", probe_opening, "/proc/1/mem", O_RDONLY, 0, 0},
    {"init-memory-write", probe_opening, "/proc/1/mem", O_RDWR, 0, 0},
    {"init-task-memory", probe_opening, "/proc/1/task/1/mem", O_RDWR, 0, 0},
    {"init-root", enter, "/proc/1/root", 0, 0, 0},
    {"init-root-etc", probe_opening, "/proc/1/root/etc/passwd", O_RDONLY, 0, 0},
    {"init-cwd", enter, "/proc/1/cwd", 0, 0, 0},
    {"init-fds", list_directory, "/proc/1/fd", 0, 0, 0},
    {"init-fd-0", probe_opening, "/proc/1/fd/0", O_RDONLY, 0, 0},
    {"init-fdinfo", read_some, "/proc/1/fdinfo/0", 0, 0, 0},
    {"init-map-files", list_directory, "/proc/1/map_files", 0, 0, 0},
    {"init-environment", read_some, "/proc/1/environ", 0, 0, 0},
    {"init-maps", read_some, "/proc/1/maps", 0, 0, 0},
    {"init-smaps", read_some, "/proc/1/smaps", 0, 0, 0},
    {"init-pagemap", read_some, "/proc/1/pagemap", 0x400000 / 512, 0, 0},
    {"init-auxv", read_some, "/proc/1/auxv", 0, 0, 0},
    {"init-syscall", read_some, "/proc/1/syscall", 0, 0, 0},
    {"init-stack", read_some, "/proc/1/stack", 0, 0, 0},
    {"init-personality", read_some, "/proc/1/personality", 0, 0, 0},
    {"init-io", read_some, "/proc/1/io", 0, 0, 0},
    {"init-exe-link", read_link, "/proc/1/exe", 0, 0, 0},
    {"init-exe-read", probe_opening, "/proc/1/exe", O_RDONLY, 0, 0},
    {"init-exe-write", open_busy, "/proc/1/exe", O_WRONLY, 0, 0},
    {"init-namespace-link", read_link, "/proc/1/ns/mnt", 0, 0, 0},
    {"init-clear-refs", probe_opening, "/proc/1/clear_refs", O_WRONLY, 0, 0},
    {"init-comm-write", probe_opening, "/proc/1/comm", O_WRONLY, 0, 0},
    {"init-oom-score-write", probe_opening, "/proc/1/oom_score_adj", O_WRONLY, 0, 0},
    {"init-coredump-filter-write", probe_opening, "/proc/1/coredump_filter", O_WRONLY, 0, 0},
    {"init-timerslack-write", write_text, "/proc/1/timerslack_ns", 0, 0, 0},
    {"init-sched-write", probe_opening, "/proc/1/sched", O_WRONLY, 0, 0},
    {"init-uid-map-write", probe_opening, "/proc/1/uid_map", O_WRONLY, 0, 0},
    {"init-setgroups-write", probe_opening, "/proc/1/setgroups", O_WRONLY, 0, 0},
    {"init-ptrace-attach", trace, NULL, PTRACE_ATTACH, 0, 0},
    {"init-ptrace-seize", trace, NULL, PTRACE_SEIZE, 0, 0},
    {"init-process-vm-read", copy_memory, NULL, SYS_process_vm_readv, 0, 0},
    {"init-process-vm-write", copy_memory, NULL, SYS_process_vm_writev, 0, 0},
    {"init-pidfd-getfd", take_descriptor, NULL, 0, 0, 0},
    {"init-kcmp", compare, NULL, 0, 0, 0},
    {"init-limit-cpu", limits, NULL, RLIMIT_CPU, 0, 0},
    {"init-limit-files", limits, NULL, RLIMIT_NOFILE, 0, 0},
    {"init-affinity", set_affinity, NULL, 0, 0, 0},
    {"init-idle-class", set_class, NULL, 0, 0, 0},
    {"init-kill", send_to_init, NULL, SIGKILL, 0, 0},
    {"init-stop", send_to_init, NULL, SIGSTOP, 0, 0},
    {"init-terminate", send_to_init, NULL, SIGTERM, 0, 0},
    {"init-interrupt", send_to_init, NULL, SIGINT, 0, 0},
    {"init-hangup", send_to_init, NULL, SIGHUP, 0, 0},
    {"init-segv", send_to_init, NULL, SIGSEGV, 0, 0},
    {"init-abort", send_to_init, NULL, SIGABRT, 0, 0},
    {"init-pipe", send_to_init, NULL, SIGPIPE, 0, 0},
    {"init-child", send_to_init, NULL, SIGCHLD, 0, 0},
    {"init-alarm", send_to_init, NULL, SIGALRM, 0, 0},
    {"init-user-1", send_to_init, NULL, SIGUSR1, 0, 0},
    {"init-user-2", send_to_init, NULL, SIGUSR2, 0, 0},
    {"init-real-time-signal", send_to_init, NULL, 40, 0, 0},
    {"init-kill-thread", send_to_init, NULL, SIGKILL, 1, 0},
    {"init-kill-queued", send_to_init, NULL, SIGTERM, 2, 0},
    {"init-kill-by-pidfd", send_to_init, NULL, SIGKILL, 3, 0},
    {"newborn-ptrace", catch_newborn, NULL, 0, 0, 0},
    {0},
};
