/* clock.c: see clock.h. */
#define _GNU_SOURCE
#include "sandbox/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define SECOND 1000000000L

struct clock_zero clock_zero(void) {
  struct clock_zero zero;
  clock_gettime(CLOCK_MONOTONIC, &zero.monotonic);
  clock_gettime(CLOCK_BOOTTIME, &zero.boot);
  return zero;
}

/* the kernel wants nanoseconds of 0 and more, also where seconds are below 0 */
static struct timespec negative(const struct timespec *t) {
  if (t->tv_nsec == 0) return (struct timespec){.tv_sec = -t->tv_sec};
  return (struct timespec){.tv_sec = -t->tv_sec - 1, .tv_nsec = SECOND - t->tv_nsec};
}

/* possible until the first process is in it */
static int set_offsets(const struct clock_zero *zero) {
  struct timespec monotonic = negative(&zero->monotonic), boot = negative(&zero->boot);
  char text[128];
  int length = snprintf(text, sizeof text, "monotonic %lld %ld\nboottime %lld %ld\n", (long long)monotonic.tv_sec,
                        monotonic.tv_nsec, (long long)boot.tv_sec, boot.tv_nsec);
  int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = write(fd, text, (size_t)length) == length ? 0 : errno;
  close(fd);
  return error;
}

int clock_enter(const struct clock_zero *zero) {
  /* makes one for children to come; the calling process is not in it yet */
  if (unshare(CLONE_NEWTIME) < 0) return errno == EINVAL || errno == ENOSPC ? 0 : errno;
  int error = set_offsets(zero);
  if (error) return error;
  int fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  error = setns(fd, CLONE_NEWTIME) < 0 ? errno : 0;
  close(fd);
  return error;
}
