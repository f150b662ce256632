/*
 * spawn.c: becomes the user, enters the directory and runs the program; each failed step is reported separately, and
 * nothing of the command has run by then.
 */
#define _GNU_SOURCE
#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/identity.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULTS 6
#define OPEN_FILES 65536

static _Noreturn void give_up(const struct spawn *s, int error, enum wire_what what) {
  struct spawn_failure failure = {.error = error, .what = what};
  if (write(s->status, &failure, sizeof failure) < 0) _exit(126);
  _exit(127);
}

static void reset_signals(void) {
  struct sigaction standard = {.sa_handler = SIG_DFL};
  for (int n = 1; n < NSIG; n++) sigaction(n, &standard, NULL);
  /* where a disk limit is watched (machine_writes.c), a write too many fails and does not kill */
  signal(SIGXFSZ, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_limits(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    if (files.rlim_max > OPEN_FILES) files.rlim_max = OPEN_FILES;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

static void attach_streams(const struct spawn *s, const struct identity *who) {
  setsid();
  if (s->terminal >= 0) {
    /* the terminal belongs to its user; 5 is the group that devpts gives terminals (tty) */
    if (fchown(s->terminal, who->uid, 5) < 0) give_up(s, errno, WIRE_WHAT_SYSTEM);
    ioctl(s->terminal, TIOCSCTTY, 0);
  }
  dup2(s->in, 0);
  dup2(s->out, 1);
  dup2(s->err, 2);
}

/* leaves nothing open of the agent's but the way to say what failed */
static void close_others(struct spawn *s) {
  if (s->status != 3 && dup3(s->status, 3, O_CLOEXEC) < 0) give_up(s, errno, WIRE_WHAT_SYSTEM);
  s->status = 3;
  close_range(4, ~0u, 0);
}

/*
 * When memory runs out, the kernel is to take a program and not the agent. What a process has here its children inherit,
 * so it is said before the program can have any. A process that hides from debuggers, as a copy of the agent does, may
 * not write its own entries of /proc: it comes out for that moment. What keeps debuggers out meanwhile is a capability
 * of the agent's that they do not have (caps.c), so this is done before the process becomes the user.
 */
static void make_expendable(void) {
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (fd < 0) return; /* /proc is hidden by what the sandbox mounted: it has itself to blame */
  if (write(fd, "500", 3) < 0) errno = 0;
  close(fd);
}

static bool has(char *const *env, const char *name) {
  size_t length = strlen(name);
  for (; *env; env++) {
    if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') return true;
  }
  return false;
}

static const char *value_of(char *const *env, const char *name) {
  size_t length = strlen(name);
  for (; *env; env++) {
    if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') return *env + length + 1;
  }
  return NULL;
}

/* the caller's environment, and what every program expects where the caller is silent */
static char **environment(const struct spawn *s, const struct identity *who) {
  size_t count = 0;
  while (s->env[count]) count++;
  char **env = calloc(count + DEFAULTS + 1, sizeof *env);
  if (!env) return NULL;
  memcpy(env, s->env, count * sizeof *env);
  const char *defaults[DEFAULTS][2] = {{"PATH", DEFAULT_PATH}, {"HOME", who->home},   {"USER", who->name},
                                       {"LOGNAME", who->name}, {"SHELL", who->shell}, {"TERM", "xterm-256color"}};
  size_t used = s->terminal >= 0 ? DEFAULTS : DEFAULTS - 1;
  for (size_t i = 0; i < used; i++) {
    if (has(s->env, defaults[i][0])) continue;
    if (asprintf(&env[count], "%s=%s", defaults[i][0], defaults[i][1]) < 0) return NULL;
    count++;
  }
  return env;
}

static void enter_directory(const struct spawn *s, const struct identity *who) {
  if (*s->cwd) {
    if (*s->cwd != '/') give_up(s, EINVAL, WIRE_WHAT_CWD);
    if (chdir(s->cwd) < 0) give_up(s, errno, WIRE_WHAT_CWD);
  } else if (chdir(who->home) < 0 && chdir("/") < 0) {
    give_up(s, errno, WIRE_WHAT_CWD);
  }
}

/* executing a directory fails with EACCES; EISDIR says why */
static int why_not(const char *file, int error) {
  struct stat facts;
  if (error == EACCES && stat(file, &facts) == 0 && S_ISDIR(facts.st_mode)) return EISDIR;
  return error;
}

/* tries each directory of PATH, as a shell would; returns why none of them worked */
static int run(const struct spawn *s, char **env) {
  const char *name = s->argv[0];
  if (!*name) return ENOENT;
  if (strchr(name, '/')) {
    execve(name, s->argv, env);
    return why_not(name, errno);
  }
  const char *path = value_of(env, "PATH");
  int error = ENOENT;
  for (const char *at = path ? path : DEFAULT_PATH; at;) {
    const char *colon = strchr(at, ':');
    int length = colon ? (int)(colon - at) : (int)strlen(at);
    char file[4096];
    int n = snprintf(file, sizeof file, "%.*s%s%s", length, at, length ? "/" : "./", name);
    if (n > 0 && n < (int)sizeof file) {
      execve(file, s->argv, env);
      int reason = why_not(file, errno);
      if (reason != ENOENT && reason != ENOTDIR && reason != EISDIR) error = reason;
    }
    at = colon ? colon + 1 : NULL;
  }
  return error;
}

/* whether it is the program that is wrong, the caller's arguments, or the kernel that lacks something */
static enum wire_what run_problem(int error) {
  if (error == E2BIG) return WIRE_WHAT_REQUEST;
  return error == ENOMEM || error == EAGAIN || error == ENFILE || error == EIO ? WIRE_WHAT_SYSTEM : WIRE_WHAT_EXECUTABLE;
}

_Noreturn void spawn_child(struct spawn *s) {
  struct identity who;
  int error = identity_find(s->user, s->groups, &who);
  if (error) give_up(s, error, WIRE_WHAT_USER);
  reset_signals();
  set_limits();
  attach_streams(s, &who);
  close_others(s);
  umask(022);
  make_expendable();
  error = identity_assume(&who);
  if (error) give_up(s, error, WIRE_WHAT_USER);
  enter_directory(s, &who);
  char **env = environment(s, &who);
  if (!env) give_up(s, ENOMEM, WIRE_WHAT_SYSTEM);
  error = run(s, env);
  give_up(s, error, run_problem(error));
}

void spawn_free(struct spawn *s) {
  free(s->user);
  free_list(s->groups);
  free(s->cwd);
  free_list(s->argv);
  free_list(s->env);
}
