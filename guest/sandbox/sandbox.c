/* sandbox.c: see sandbox.h. The parent's half is above, the child's below in the order it happens. */
#define _GNU_SOURCE
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/grants.h"
#include "confinement/caps.h"
#include "confinement/seccomp.h"
#include "sandbox/clock.h"
#include "sandbox/proc.h"
#include "sandbox/sys.h"
#include "shared/mountapi.h"
#include "shared/title.h"
#include "view/view.h"
#include "view/view_disk.h"

/* what the first process says on `control`: "" when it is ready */
struct answer {
  int error;
  enum wire_what what;
  char step[120];
};

static _Noreturn void first_process(const struct sandbox_spec *spec, const struct clock_zero *zero, int control);

/* ---- the launcher's half ---- */

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
  close(fd);
  return error;
}

static int write_id_maps(pid_t pid, uid_t base) {
  char path[64], map[64];
  snprintf(map, sizeof map, "0 %u %u\n", base, SANDBOX_IDS);
  snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
  int error = write_file(path, map);
  if (error) return error;
  snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
  return write_file(path, map);
}

/*
 * The kernel counts what a sandbox uses (inotify instances, pending signals, timers, message queues) again on the user
 * who made its user namespace. So each namespace is made by its sandbox's own first id: counted on the host's root, one
 * sandbox could use up what the host and all others need. Files are still opened as the host's root, and no capability
 * is lost meanwhile.
 */
int become_owner(uid_t base) {
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 || setresuid(-1, base, -1) < 0) return errno;
  setfsuid(0);
  return 0;
}

void become_launcher(void) {
  if (setresuid(-1, 0, -1) < 0 || prctl(PR_SET_SECUREBITS, SECUREBITS_DEFAULT, 0, 0, 0) < 0) abort();
}

int sandbox_clone(const struct sandbox_spec *spec, struct sandbox *out) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return errno;
  int pidfd = -1;
  struct clone_args args = {
      .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
      .pidfd = (uint64_t)(uintptr_t)&pidfd,
      .exit_signal = SIGCHLD,
  };
  if (spec->unified_cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = (uint64_t)spec->unified_cgroup;
  }
  int error = become_owner(spec->base);
  struct clock_zero zero = clock_zero();
  pid_t pid = error ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) first_process(spec, &zero, pair[1]);
  if (!error && pid < 0) error = errno;
  become_launcher();
  close(pair[1]);
  if (!error) error = write_id_maps(pid, spec->base);
  if (error) {
    if (pid > 0) kill(pid, SIGKILL);
    if (pidfd >= 0) close(pidfd);
    close(pair[0]);
    return error;
  }
  *out = (struct sandbox){.pid = pid, .pidfd = pidfd, .control = pair[0]};
  return 0;
}

union mount_message {
  struct cmsghdr head;
  char room[CMSG_SPACE(SANDBOX_DESCRIPTORS * sizeof(int))];
};

static size_t descriptor_count(const struct sandbox_options *options) {
  return 1 + options->mount_count + (size_t)__builtin_popcount(options->counted);
}

int sandbox_activate(struct sandbox *s, const int *mounts, const struct sandbox_options *options) {
  size_t size = descriptor_count(options) * sizeof(int);
  struct iovec body = {.iov_base = (void *)options, .iov_len = sizeof *options};
  union mount_message ancillary;
  memset(&ancillary, 0, sizeof ancillary);
  struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = CMSG_SPACE(size)};
  ancillary.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&ancillary.head), mounts, size);
  return sendmsg(s->control, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

bool sandbox_answer(struct sandbox *s, struct failure *failure) {
  struct answer answer;
  ssize_t n = recv(s->control, &answer, sizeof answer, 0);
  if (n == (ssize_t)sizeof answer && answer.error == 0) return true;
  failure->what = WIRE_WHAT_SYSTEM;
  if (n == (ssize_t)sizeof answer) {
    failure->what = answer.what;
    answer.step[sizeof answer.step - 1] = 0;
    failure->error = answer.error;
    snprintf(failure->sentence, sizeof failure->sentence, "Cannot start the sandbox: %s: %s", answer.step, strerror(answer.error));
  } else {
    failure->error = ESRCH;
    snprintf(failure->sentence, sizeof failure->sentence, "Cannot start the sandbox: its first process died");
  }
  return false;
}

/* ---- the first process ---- */

/* the agent's descriptors, up to FD_REST, then those that the first process needs on its way: devices, cgroups, views of
 * them */
enum {
  FD_LISTENER = 3, FD_JOURNAL, FD_CONTROL, FD_MEMORY_EVENTS, FD_CPU_TIME, FD_PROCESSES, FD_VIEW,
  FD_COUNTS, FD_REST = FD_COUNTS + VIEW_DISKS, FD_DEVICES = FD_REST, FD_CGROUPS
};
#define FD_COUNT (FD_CGROUPS - FD_LISTENER)

static int control_fd = -1;

static _Noreturn void give_up_over(enum wire_what what, const char *step) {
  struct answer answer = {.error = errno ? errno : EIO, .what = what};
  snprintf(answer.step, sizeof answer.step, "%s", step);
  send(control_fd, &answer, sizeof answer, MSG_NOSIGNAL);
  _exit(1);
}

static _Noreturn void give_up(const char *step) { give_up_over(WIRE_WHAT_SYSTEM, step); }

#define MUST(call, step) \
  do {                   \
    if ((call) < 0) give_up(step); \
  } while (0)

static void move_descriptor(int from, int to) {
  if (from == to) return;
  MUST(dup3(from, to, O_CLOEXEC), "moving descriptors");
  close(from);
}

/* on v1 this may wait for the kernel to let go of old readers (10 ms and more): here it delays no other sandbox */
static void join_cgroups(const int *cgroups, size_t count) {
  for (size_t i = 0; i < count; i++) MUST(write(cgroups[i], "0", 1), "joining its cgroups");
  /* from here on its own cgroup is the root of what it sees */
  MUST(unshare(CLONE_NEWCGROUP), "making a cgroup namespace");
}

/* waits for the root and other mounts; nothing more will come means that this sandbox is not wanted */
static void receive_mounts(struct sandbox_options *options, int mounts[SANDBOX_DESCRIPTORS]) {
  struct iovec body = {.iov_base = options, .iov_len = sizeof *options};
  union mount_message ancillary;
  struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof ancillary};
  ssize_t n = recvmsg(control_fd, &message, MSG_CMSG_CLOEXEC);
  struct cmsghdr *c = n == (ssize_t)sizeof *options ? CMSG_FIRSTHDR(&message) : NULL;
  if (!c || c->cmsg_type != SCM_RIGHTS) _exit(0);
  size_t count = descriptor_count(options);
  if (count > SANDBOX_DESCRIPTORS) _exit(0);
  memcpy(mounts, CMSG_DATA(c), count * sizeof(int));
  /* the lowest numbers are kept for what is opened later */
  for (size_t i = 0; i < count; i++) {
    int high = fcntl(mounts[i], F_DUPFD_CLOEXEC, FD_REST);
    MUST(high, "moving descriptors");
    close(mounts[i]);
    mounts[i] = high;
  }
}

static void become_root_inside(void) {
  MUST(setgroups(0, NULL), "clearing groups");
  MUST(setresgid(0, 0, 0), "becoming group 0");
  MUST(setresuid(0, 0, 0), "becoming user 0");
}

/* what lies below is counted for each user namespace; a program that got past the filter could still make none */
static void forbid_namespaces(void) {
  int fd = open("proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
  MUST(fd, "opening /proc/sys/user");
  MUST(write(fd, "0", 1), "forbidding user namespaces");
  close(fd);
}

/* some settings below it belong to the sandbox's own namespaces: root inside could change them */
static void freeze_settings(void) {
  int settings = sys_open_tree(AT_FDCWD, "proc/sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  MUST(settings, "cloning /proc/sys");
  struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
  MUST(sys_mount_setattr(settings, "", AT_EMPTY_PATH, &attr, sizeof attr), "making /proc/sys read-only");
  MUST(sys_move_mount(settings, "", AT_FDCWD, "proc/sys", MOVE_MOUNT_F_EMPTY_PATH), "mounting /proc/sys");
  close(settings);
}

/* the tree of device.h is at "dev" meanwhile. What covers /proc/sys would hide below it what was put there before */
static void mount_proc(void) {
  MUST(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mounting /proc");
  forbid_namespaces();
  freeze_settings();
  const char *step = "masking files of /proc";
  errno = proc_mask(&step);
  if (errno) give_up(step);
}

/* processors that programs see; 0 stands for all */
static uint32_t shown_cpus(uint32_t shown) {
  cpu_set_t all;
  if (shown) return shown;
  return sched_getaffinity(0, sizeof all, &all) == 0 ? (uint32_t)CPU_COUNT(&all) : 1;
}

/* files of /proc that show the host get the sandbox's own in their place */
static void show_own(int fuse, uint32_t cpus) {
  struct sysinfo host;
  MUST(sysinfo(&host), "asking for the host's memory");
  struct view_source source = {.cpu_time = FD_CPU_TIME, .processes = FD_PROCESSES, .host_memory = (uint64_t)host.totalram * host.mem_unit};
  int processes = open("proc/loadavg", O_RDONLY | O_CLOEXEC);
  MUST(processes, "opening /proc/loadavg");
  move_descriptor(processes, FD_PROCESSES);
  errno = view_describe(shown_cpus(cpus), &source);
  if (errno) give_up("choosing the boot's number");
  const char *step = "";
  errno = view_mount(fuse, "dev/view", &step);
  if (errno) give_up(step);
}

/* most terminals of one sandbox: all sandboxes of a host share what kernel.pty.max leaves them, 3,072 by default */
#define TERMINALS "64"

/* of the tree of device.h only its "dev" stays in sight */
static void mount_devices(uint64_t shm_size) {
  int dev = sys_open_tree(AT_FDCWD, "dev/dev", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  MUST(dev, "cloning /dev");
  MUST(umount2("dev", MNT_DETACH), "leaving the tree of devices");
  MUST(sys_move_mount(dev, "", AT_FDCWD, "dev", MOVE_MOUNT_F_EMPTY_PATH), "mounting /dev");
  close(dev);
  MUST(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5,max=" TERMINALS),
       "mounting /dev/pts");
  char options[64];
  snprintf(options, sizeof options, "mode=1777,size=%llu", (unsigned long long)shm_size);
  MUST(mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options), "mounting /dev/shm");
}

/* after this nothing of the host's files can be named any more */
static void enter_root(void) {
  MUST(sys_pivot_root(".", "."), "entering the root");
  MUST(umount2(".", MNT_DETACH), "leaving the host's root");
  MUST(chdir("/"), "entering the root");
}

/* makes the directories on the way; symlinks on it lead nowhere but into the sandbox, whose root we are in */
static void make_path(char *path) {
  for (char *slash = path + 1; *slash; slash++) {
    if (*slash != '/') continue;
    *slash = 0;
    mkdir(path, 0755);
    *slash = '/';
  }
  mkdir(path, 0755);
}

/* what is written on each mount is told apart while the filter does not hold statfs() back */
static void count_mounts(const struct sandbox_options *options, const int *mounts) {
  const int *counts = mounts + 1 + options->mount_count;
  for (uint32_t i = 0; i <= options->mount_count; i++) {
    if (!(options->counted & 1u << i)) continue;
    int fd = FD_COUNTS + (int)i;
    move_descriptor(*counts++, fd);
    view_disk_add(mounts[i], fd);
  }
}

static void add_mounts(struct sandbox_options *options, const int *mounts) {
  for (uint32_t i = 0; i < options->mount_count; i++) {
    make_path(options->mount_paths[i]);
    if (sys_move_mount(mounts[i], "", AT_FDCWD, options->mount_paths[i], MOVE_MOUNT_F_EMPTY_PATH) == 0) continue;
    /* where a drive goes is the caller's choice, and what is there the image's: a file there is no fault of ours */
    if (errno == EINVAL) errno = ENOTDIR;
    give_up_over(WIRE_WHAT_PATH, "mounting a drive");
  }
}

/* programs size themselves by the processors they may run on; the quota of the cgroup is what limits them */
static void show_cpus(uint32_t count) {
  cpu_set_t all, some;
  if (count == 0 || sched_getaffinity(0, sizeof all, &all) < 0 || (uint32_t)CPU_COUNT(&all) <= count) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int total = CPU_COUNT(&all), seen = 0;
  int first = (int)((uint64_t)now.tv_nsec % (uint64_t)total); /* spreads sandboxes over the processors */
  CPU_ZERO(&some);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if ((uint32_t)((seen++ - first + total) % total) < count) CPU_SET(cpu, &some);
  }
  sched_setaffinity(0, sizeof some, &some);
}

/*
 * Keeps only what this process needs. The launcher's other descriptors must not live on in here: not its sockets, not
 * its lock, and not its own end of `control`, whose closing is how we learn that the launcher died.
 */
static void keep_descriptors(const struct sandbox_spec *spec, int control, int *cgroups) {
  control_fd = control;
  int wanted[FD_COUNT + 2 * SANDBOX_CGROUPS] = {spec->listener, spec->journal, control, spec->memory_events, spec->cpu_time};
  for (int fd = FD_PROCESSES; fd < FD_REST; fd++) wanted[fd - FD_LISTENER] = -1;
  wanted[FD_DEVICES - FD_LISTENER] = spec->devices;
  int count = FD_COUNT;
  for (size_t i = 0; i < spec->cgroup_count; i++) wanted[count++] = spec->cgroups[i];
  for (size_t i = 0; i < spec->view_count; i++) wanted[count++] = spec->views[i].mount;
  int high[FD_COUNT + 2 * SANDBOX_CGROUPS];
  for (int i = 0; i < count; i++) {
    high[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD_CLOEXEC, 1000);
    if (wanted[i] >= 0 && high[i] < 0) give_up("moving descriptors");
  }
  for (int i = 0; i < count; i++) {
    if (high[i] < 0) close(FD_LISTENER + i);
    else MUST(dup3(high[i], FD_LISTENER + i, O_CLOEXEC), "moving descriptors");
  }
  control_fd = FD_CONTROL;
  for (size_t i = 0; i < spec->cgroup_count; i++) cgroups[i] = FD_CGROUPS + (int)i;
  MUST((int)syscall(SYS_close_range, (unsigned)(FD_LISTENER + count), ~0u, 0), "closing descriptors");
}

/* connects the standard streams to /dev/null, and closes all descriptors that the setup has used */
static struct agent_fds last_descriptors(const struct sandbox_spec *spec, bool is_served) {
  MUST((int)syscall(SYS_close_range, (unsigned)FD_REST, ~0u, 0), "closing descriptors");
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  MUST(null, "opening /dev/null");
  for (int i = 0; i < 3; i++) MUST(dup2(null, i), "closing the standard streams");
  close(null);
  return (struct agent_fds){.listener = FD_LISTENER,
                            .journal = FD_JOURNAL,
                            .memory_events = spec->memory_events < 0 ? -1 : FD_MEMORY_EVENTS,
                            .view = is_served ? FD_VIEW : -1};
}

/* the order matters: the filter may only be loaded without no_new_privs while we still have a capability */
static void drop_privileges(const struct sandbox_options *options, struct agent_fds *fds) {
  /* the soft limit is the launcher's (launch.c), and counts for the whole sandbox */
  struct rlimit signals;
  if (getrlimit(RLIMIT_SIGPENDING, &signals) == 0) {
    signals.rlim_max = signals.rlim_cur;
    MUST(setrlimit(RLIMIT_SIGPENDING, &signals), "limiting pending signals");
  }
  errno = options->flags & SANDBOX_NO_NEW_PRIVS ? no_new_privs() : 0;
  if (errno) give_up("setting no_new_privs");
  MUST(getrandom(&fds->pass, sizeof fds->pass, 0), "choosing the agent's pass");
  errno = seccomp_install(&fds->pass, options->mount_count > 1 ? SECCOMP_NO_CLONES : 0, &fds->grants);
  if (errno) give_up("installing the system call filter");
  errno = caps_drop();
  if (errno) give_up("dropping capabilities");
  /* no program inside may inspect PID 1: its memory is a copy of the launcher's */
  MUST(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "hiding the agent");
}

static _Noreturn void first_process(const struct sandbox_spec *spec, const struct clock_zero *zero, int control) {
  int cgroups[SANDBOX_CGROUPS];
  keep_descriptors(spec, control, cgroups);
  errno = clock_enter(zero);
  if (errno) give_up("making a time namespace");
  int devices = FD_DEVICES;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_NAME, "sandkeep-agent", 0, 0, 0);
  title_set("sandkeep-agent");
  umask(022);
  setsid();
  join_cgroups(cgroups, spec->cgroup_count);
  static struct sandbox_options options;
  int mounts[SANDBOX_DESCRIPTORS];
  receive_mounts(&options, mounts);
  int root = mounts[0];
  /* the host's folder is reached while we still are the host's root */
  int fuse = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  bool is_served = fuse >= 0;
  if (is_served) move_descriptor(fuse, FD_VIEW);
  int staging = open(spec->staging, O_PATH | O_DIRECTORY | O_CLOEXEC);
  MUST(staging, "opening the launcher's folder");
  MUST(sys_move_mount(root, "", staging, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "attaching the root");
  become_root_inside();
  MUST(fchdir(root), "entering the root");
  MUST(sys_move_mount(devices, "", AT_FDCWD, "dev", MOVE_MOUNT_F_EMPTY_PATH), "mounting the tree of devices");
  errno = sys_mount(spec, FD_CGROUPS + (int)spec->cgroup_count, shown_cpus(options.cpus));
  if (errno) give_up("making /sys");
  mount_proc();
  show_own(is_served ? FD_VIEW : -1, options.cpus);
  mount_devices(options.shm_size);
  enter_root();
  add_mounts(&options, mounts + 1);
  count_mounts(&options, mounts);
  MUST(sethostname("sandbox", strlen("sandbox")), "setting the host name");
  show_cpus(options.cpus);
  struct agent_fds fds = last_descriptors(spec, is_served);
  drop_privileges(&options, &fds);
  errno = grants_open();
  if (errno) give_up("opening the numbers of sockets");
  struct answer ready = {0};
  send(control_fd, &ready, sizeof ready, MSG_NOSIGNAL);
  close(control_fd);
  agent_run(&fds);
}
