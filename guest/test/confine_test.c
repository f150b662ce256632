/*
 * confine_test.c: confines itself to a directory as a file worker does, and prints what is left. `confine_test DIRECTORY
 * OUTSIDE`: the first holds a file "inside" and a program "program", the second is a file elsewhere. Run as root.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confinement/confine.h"

static void say(const char *what, long result) {
  printf("%s: %s\n", what, result >= 0 ? "allowed" : strerrorname_np(errno));
}

static long connect_somewhere(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int directory = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
  int error = confine_to(&directory, 1);
  if (error) {
    printf("not confined: %s\n", strerror(error));
    return 1;
  }
  printf("landlock %d\n", version < 0 ? 0 : version);
  say("a file inside", openat(directory, "inside", O_RDWR));
  say("a new file inside", openat(directory, "new", O_WRONLY | O_CREAT, 0600));
  say("a device inside", mknodat(directory, "whiteout", S_IFCHR, 0));
  say("a program inside", execveat(directory, "program", (char *[]){"program", NULL}, NULL, 0));
  say("a file outside", open(argv[2], O_RDONLY));
  say("a file outside, to write", open(argv[2], O_WRONLY));
  say("a folder outside", open("/", O_RDONLY | O_DIRECTORY));
  say("a new file outside", open("/tmp/confine-test-outside", O_WRONLY | O_CREAT | O_EXCL, 0600));
  say("a connection", connect_somewhere());
  int mounted = mount("none", argv[1], "tmpfs", 0, NULL);
  say("a mount", mounted);
  if (mounted == 0) umount2(argv[1], MNT_DETACH);
  return 0;
}
