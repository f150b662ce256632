/* keeper.c: starts, watches and ends the egress process for netd. */
#define _GNU_SOURCE
#include "egress/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "egress/egress_filter.h"
#include "egress/egress_root.h"
#include "netd/netd_process.h"

/* descriptors of the egress process; Node finds its channel by the number, the others by the environment */
#define CHANNEL_FD 3
#define SOCKET_FD 4
#define SETTINGS_FD 5

static char *const *command;
/* 0 where it is not confined */
static uid_t user;
static int listener = -1;
/* the folder of the settings, from before the root was left behind, and their name in it */
static int settings_folder = -1;
static char settings_name[NAME_MAX + 1];

/* ---- the egress process, before it is Node ---- */

static void number_variable(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

/* moves a descriptor to a number that is not among those that are yet to be moved */
static int placed(int fd, int number) { return fd < 0 ? -1 : dup2(fd, number); }

static _Noreturn void run(int channel, pid_t keeper) {
  int settings = settings_folder < 0 ? -1 : openat(settings_folder, settings_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  int high_channel = fcntl(channel, F_DUPFD_CLOEXEC, 16);
  int high_listener = listener < 0 ? -1 : fcntl(listener, F_DUPFD_CLOEXEC, 16);
  int high_settings = settings < 0 ? -1 : fcntl(settings, F_DUPFD_CLOEXEC, 16);
  if (placed(high_channel, CHANNEL_FD) < 0) _exit(1);
  syscall(SYS_close_range, SOCKET_FD, 15, 0);
  if (placed(high_listener, SOCKET_FD) >= 0) number_variable("SANDKEEP_EGRESS_SOCKET_FD", SOCKET_FD);
  if (placed(high_settings, SETTINGS_FD) >= 0) number_variable("SANDKEEP_EGRESS_SETTINGS_FD", SETTINGS_FD);
  syscall(SYS_close_range, SETTINGS_FD + 1, ~0u, 0);
  setenv("NODE_CHANNEL_FD", "3", 1);
  setenv("NODE_CHANNEL_SERIALIZATION_MODE", "json", 1);
  process_limit();
  int error = process_become(user);
  if (!error && user) error = egress_filter_install();
  if (error) {
    fprintf(stderr, "Cannot confine the egress process: %s\n", strerror(error));
    _exit(1);
  }
  /* After the change of user, which takes it back. If the keeper is gone already, the signal would never come. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(1);
  execv(command[0], command);
  fprintf(stderr, "Cannot run the egress process \"%s\": %s\n", command[0], strerror(errno));
  _exit(127);
}

/* ---- the keeper ---- */

/* under a name of its own, which takes the place of the last one's: that may still be there, with its keeper */
static int listen_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (snprintf(address.sun_path, sizeof address.sun_path, "%s.%d", path, getpid()) >= (int)sizeof address.sun_path) {
    return ENAMETOOLONG;
  }
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(address.sun_path);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0) return errno;
  return listen(listener, SOMAXCONN) < 0 || rename(address.sun_path, path) < 0 ? errno : 0;
}

static int remember_settings(const char *path) {
  char folder[PATH_MAX], name[PATH_MAX];
  if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) return ENAMETOOLONG;
  snprintf(name, sizeof name, "%s", path);
  if (snprintf(settings_name, sizeof settings_name, "%s", basename(name)) >= (int)sizeof settings_name) return ENAMETOOLONG;
  settings_folder = open(dirname(folder), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return settings_folder < 0 ? errno : 0;
}

static int confine(void) {
  const char *socket_path = getenv("SANDKEEP_EGRESS_SOCKET"), *settings = getenv("SANDKEEP_EGRESS_SETTINGS");
  int error = process_user("SANDKEEP_EGRESS_UID", &user);
  if (error || !user) return error;
  if (socket_path) error = listen_at(socket_path);
  if (!error && settings) error = remember_settings(settings);
  return error ? error : egress_root_enter(getenv("SANDKEEP_EGRESS_VIEW"), getenv("SANDKEEP_EGRESS_LOGS"));
}

/* one letter, and the descriptor that came beside it or -1; 0 when netd is gone */
static char hear(int netd, int *fd) {
  char letter = 0;
  struct iovec part = {.iov_base = &letter, .iov_len = 1};
  _Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof *fd)];
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  *fd = -1;
  ssize_t got;
  do got = recvmsg(netd, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got != 1) return 0;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(head), sizeof *fd);
  return letter;
}

/* for the daemon's log, in the form of launcher-log.ts */
static void tell_ended(pid_t pid, int status) {
  bool killed = WIFSIGNALED(status);
  fprintf(stderr, "{\"process\":\"egress\",\"level\":\"warn\",\"sentence\":\"The egress process (process %d) %s %d; "
                  "another one is started\"}\n", pid, killed ? "was ended by signal" : "ended with code",
          killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

static _Noreturn void keep(int netd, pid_t parent) {
  prctl(PR_SET_NAME, "sandkeep-keeper");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  int error = confine();
  if (error) {
    fprintf(stderr, "Cannot confine the egress process: %s\n", strerror(error));
    _exit(1);
  }
  for (pid_t pid = -1, self = getpid();;) {
    int process = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd polled[] = {{.fd = netd, .events = POLLIN}, {.fd = process, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0 && errno != EINTR) _exit(1);
    if (process >= 0) close(process);
    int status;
    if (pid > 0 && polled[1].revents && waitpid(pid, &status, WNOHANG) == pid) {
      tell_ended(pid, status);
      pid = -1;
      if (send(netd, &(char){KEEPER_ENDED}, 1, MSG_NOSIGNAL) != 1) _exit(0);
    }
    if (!polled[0].revents) continue;
    int fd;
    char letter = hear(netd, &fd);
    if (!letter) _exit(0);
    if (letter == KEEPER_END && pid > 0) kill(pid, SIGKILL);
    if (letter == KEEPER_START && pid < 0 && fd >= 0) {
      pid = fork();
      if (pid == 0) run(fd, self);
      if (pid < 0 && send(netd, &(char){KEEPER_ENDED}, 1, MSG_NOSIGNAL) != 1) _exit(0);
    }
    if (fd >= 0) close(fd);
  }
}

int keeper_start(char *const argv[], int *fd) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return errno;
  command = argv;
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    /* netd's own descriptors are not its business; the end of netd is the end of its socket */
    if (dup2(pair[1], 3) < 0) _exit(1);
    syscall(SYS_close_range, 4, ~0u, 0);
    keep(3, parent);
  }
  int error = pid < 0 ? errno : 0;
  close(pair[1]);
  if (error) close(pair[0]);
  else *fd = pair[0];
  return error;
}
