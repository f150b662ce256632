/*
 * files_serve.c: lets the tests of the file requests run the real code, without a sandbox around it.
 *
 *   files_serve serve <socket> [chroot <directory>] [user <uid> <gid>] [privileged]
 *                                    answers file requests on a unix socket, in a process per connection
 *   files_serve deep <directory> <n> makes n directories inside each other, deeper than any path can say
 *   files_serve swap <a> <b> <target>
 *                                    exchanges two names all the time, until it is ended; when one of them is gone it
 *                                    makes it again, as a symlink to the target
 *
 * `serve` prints "ready" once it listens, and says on standard error when a worker ended badly.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/files.h"

struct options {
  const char *root;
  uid_t uid;
  gid_t gid;
  bool switch_user;
  struct file_context context;
};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void work(int fd, const struct options *options) {
  if (options->root && (chroot(options->root) != 0 || chdir("/") != 0)) die("chroot");
  if (options->switch_user && (setgroups(0, NULL) != 0 || setgid(options->gid) != 0 || setuid(options->uid) != 0)) {
    die("setuid");
  }
  serve_files(fd, &options->context);
  /* exit, not _exit: a leak checker has its say then */
  close(fd);
  exit(0);
}

static void reap(int signal) {
  int status;
  (void)signal;
  while (waitpid(-1, &status, WNOHANG) > 0) {
    if (status != 0 && write(STDERR_FILENO, "a worker ended badly\n", 21) < 0) _exit(2);
  }
}

static int listen_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) die("socket path");
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0) die("listen");
  return fd;
}

static void serve(const char *path, const struct options *options) {
  struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  int listener = listen_at(path);
  puts("ready");
  fflush(stdout);
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) die("accept");
    pid_t child = fork();
    if (child == 0) {
      signal(SIGCHLD, SIG_DFL);
      close(listener);
      work(fd, options);
    }
    close(fd);
  }
}

static int deep(const char *path, long count) {
  int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (long i = 0; fd >= 0 && i < count; i++) {
    if (mkdirat(fd, "d", 0755) != 0) die("mkdirat");
    int next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(fd);
    fd = next;
  }
  if (fd < 0) die("open");
  return 0;
}

static void swap(const char *a, const char *b, const char *target) {
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0) continue;
    if (symlink(target, a) != 0 && symlink(target, b) != 0) die("symlink");
  }
}

static struct options options_of(int argc, char **argv) {
  struct options options = {0};
  for (int i = 3; i < argc; i++) {
    if (strcmp(argv[i], "privileged") == 0) {
      options.context.privileged = true;
    } else if (strcmp(argv[i], "chroot") == 0 && i + 1 < argc) {
      options.root = argv[++i];
    } else if (strcmp(argv[i], "user") == 0 && i + 2 < argc) {
      options.switch_user = true;
      options.uid = (uid_t)atol(argv[++i]);
      options.gid = (gid_t)atol(argv[++i]);
    }
  }
  return options;
}

int main(int argc, char **argv) {
  if (argc >= 3 && strcmp(argv[1], "serve") == 0) {
    struct options options = options_of(argc, argv);
    serve(argv[2], &options);
  }
  if (argc == 4 && strcmp(argv[1], "deep") == 0) return deep(argv[2], atol(argv[3]));
  if (argc == 5 && strcmp(argv[1], "swap") == 0) swap(argv[2], argv[3], argv[4]);
  fputs("usage: files_serve serve|deep|swap …\n", stderr);
  return 2;
}
