/* probe_devices.c: disks, memory, hypervisor and consoles, by nodes that exist or are made; tricks with terminals. */
#define _GNU_SOURCE
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Numbers of the first real disk, as the kernel tells; else those of a first virtio disk. */
static dev_t first_disk(void) {
  char line[256];
  unsigned major_number, minor_number;
  dev_t disk = makedev(254, 0);
  FILE *file = fopen("/proc/partitions", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%u %u", &major_number, &minor_number) == 2 && major_number != 7 && major_number > 1) {
      disk = makedev(major_number, minor_number);
      break;
    }
  if (file) fclose(file);
  return disk;
}

/* `path` is where, or NULL for a scratch directory; `first` the type; `second` and `third` the numbers, or -1 */
static enum ending make_node(const struct probe *p) {
  char node[128];
  const char *directory = p->path ? p->path : scratch_directory();
  if (!directory) return untried("no directory to write to");
  snprintf(node, sizeof node, "%s/probe-node-%d", directory, getpid());
  dev_t device = p->second < 0 ? first_disk() : makedev((unsigned)p->second, (unsigned)p->third);
  if (mknod(node, (mode_t)p->first | 0600, device)) return is_closed("%s", strerror(errno));
  int fd = open(node, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int error = errno;
  unlink(node);
  /* whiteouts have no driver behind them; that one can be made is enough */
  if (fd < 0 && device != 0) return is_closed("made, but %s", strerror(error));
  return is_open("made%s", fd < 0 ? "" : " and opened");
}

/* Whether /dev holds anything but what programs expect everywhere. */
static enum ending unexpected_nodes(const struct probe *p) {
  (void)p;
  static const char *const EXPECTED[] = {".",  "..",  "null",   "zero", "full",  "random", "urandom", "tty",    "ptmx",
                                         "pts", "shm", "mqueue", "fd",   "stdin", "stdout", "stderr",  "console"};
  DIR *directory = opendir("/dev");
  if (!directory) return is_closed("%s", strerror(errno));
  for (struct dirent *entry; (entry = readdir(directory));) {
    int expected = 0;
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) expected |= !strcmp(entry->d_name, EXPECTED[i]);
    if (!expected) return is_open("there is /dev/%s", entry->d_name);
  }
  closedir(directory);
  return is_closed("only the usual ones");
}

static enum ending change_dev(const struct probe *p) {
  (void)p;
  int fd = open("/dev/probe-file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) unlink("/dev/probe-file");
  return ended(fd);
}

static char found[256];

static int find_device(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  (void)kind;
  if (place->level == 1 && (!strcmp(path, "/dev") || !strcmp(path, "/proc") || !strcmp(path, "/sys")))
    return FTW_SKIP_SUBTREE;
  if (!S_ISBLK(facts->st_mode) && !S_ISCHR(facts->st_mode)) return FTW_CONTINUE;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return FTW_CONTINUE;
  close(fd);
  snprintf(found, sizeof found, "%s", path);
  return FTW_STOP;
}

/* Nodes outside /dev, which an image may have brought. */
static enum ending stray_nodes(const struct probe *p) {
  (void)p;
  if (nftw("/", find_device, 64, FTW_PHYS | FTW_ACTIONRETVAL) == FTW_STOP) return is_open("%s opens", found);
  return is_closed("none opens outside /dev");
}

/* A terminal of our own as the controlling one, as a shell that sudo started would have it. */
static int own_terminal(void) {
  int master = open("/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY), lock = 0, number = 0;
  char path[32];
  if (master < 0 || ioctl(master, TIOCSPTLCK, &lock) || ioctl(master, TIOCGPTN, &number)) return -1;
  snprintf(path, sizeof path, "/dev/pts/%d", number);
  setsid();
  int terminal = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0)) return -1;
  return terminal;
}

/* With `second` the request's upper half is set, which the kernel ignores and a careless filter does not. */
static enum ending terminal_trick(const struct probe *p) {
  int terminal = own_terminal();
  if (terminal < 0) return untried("no terminal: %s", strerror(errno));
  char argument[16] = {0};
  return reached(ioctl(terminal, (unsigned long)p->first | (unsigned long)p->second, argument));
}

const struct probe DEVICE_PROBES[] = {
    {"make-disk", make_node, NULL, S_IFBLK, -1, 0},
    {"make-disk-in-shm", make_node, "/dev/shm", S_IFBLK, -1, 0},
    {"make-disk-in-root", make_node, "/", S_IFBLK, -1, 0},
    {"make-disk-in-dev", make_node, "/dev", S_IFBLK, -1, 0},
    {"make-loop", make_node, NULL, S_IFBLK, 7, 0},
    {"make-memory", make_node, NULL, S_IFCHR, 1, 1},
    {"make-kmsg", make_node, NULL, S_IFCHR, 1, 11},
    {"make-null", make_node, NULL, S_IFCHR, 1, 3},
    {"make-kvm", make_node, NULL, S_IFCHR, 10, 232},
    {"make-fuse", make_node, NULL, S_IFCHR, 10, 229},
    {"make-tun", make_node, NULL, S_IFCHR, 10, 200},
    {"make-loop-control", make_node, NULL, S_IFCHR, 10, 237},
    {"make-console", make_node, NULL, S_IFCHR, 5, 1},
    {"make-whiteout", make_node, "/", S_IFCHR, 0, 0},
    {"dev-mem", probe_opening, "/dev/mem", O_RDONLY, 0, 0},
    {"dev-kmem", probe_opening, "/dev/kmem", O_RDONLY, 0, 0},
    {"dev-port", probe_opening, "/dev/port", O_RDONLY, 0, 0},
    {"dev-kvm", probe_opening, "/dev/kvm", O_RDONLY, 0, 0},
    {"dev-kmsg", probe_opening, "/dev/kmsg", O_RDONLY, 0, 0},
    {"dev-vda", probe_opening, "/dev/vda", O_RDONLY, 0, 0},
    {"dev-sda", probe_opening, "/dev/sda", O_RDONLY, 0, 0},
    {"dev-nvme", probe_opening, "/dev/nvme0n1", O_RDONLY, 0, 0},
    {"dev-loop", probe_opening, "/dev/loop0", O_RDONLY, 0, 0},
    {"dev-loop-control", probe_opening, "/dev/loop-control", O_RDONLY, 0, 0},
    {"dev-device-mapper", probe_opening, "/dev/mapper/control", O_RDONLY, 0, 0},
    {"dev-btrfs-control", probe_opening, "/dev/btrfs-control", O_RDONLY, 0, 0},
    {"dev-fuse", probe_opening, "/dev/fuse", O_RDONLY, 0, 0},
    {"dev-tun", probe_opening, "/dev/net/tun", O_RDONLY, 0, 0},
    {"dev-vsock", probe_opening, "/dev/vsock", O_RDONLY, 0, 0},
    {"dev-vhost-vsock", probe_opening, "/dev/vhost-vsock", O_RDONLY, 0, 0},
    {"dev-userfaultfd", probe_opening, "/dev/userfaultfd", O_RDONLY, 0, 0},
    {"dev-console", probe_opening, "/dev/console", O_WRONLY, 0, 0},
    {"dev-tty0", probe_opening, "/dev/tty0", O_WRONLY, 0, 0},
    {"dev-serial", probe_opening, "/dev/ttyS0", O_WRONLY, 0, 0},
    {"dev-vcs", probe_opening, "/dev/vcs", O_RDONLY, 0, 0},
    {"dev-hwrng", probe_opening, "/dev/hwrng", O_RDONLY, 0, 0},
    {"dev-uinput", probe_opening, "/dev/uinput", O_WRONLY, 0, 0},
    {"dev-msr", probe_opening, "/dev/cpu/0/msr", O_RDONLY, 0, 0},
    {"dev-cpu-latency", probe_opening, "/dev/cpu_dma_latency", O_RDONLY, 0, 0},
    {"dev-graphics", probe_opening, "/dev/dri/card0", O_RDONLY, 0, 0},
    {"dev-zram", probe_opening, "/dev/zram0", O_RDONLY, 0, 0},
    {"dev-autofs", probe_opening, "/dev/autofs", O_RDONLY, 0, 0},
    {"dev-unexpected-nodes", unexpected_nodes, NULL, 0, 0, 0},
    {"dev-change", change_dev, NULL, 0, 0, 0},
    {"stray-device-nodes", stray_nodes, NULL, 0, 0, 0},
    {"terminal-type-into", terminal_trick, NULL, TIOCSTI, 0, 0},
    {"terminal-type-into-upper-bits", terminal_trick, NULL, TIOCSTI, 0x100000000, 0},
    {"terminal-console-selection", terminal_trick, NULL, TIOCLINUX, 0, 0},
    {"terminal-line-discipline", terminal_trick, NULL, TIOCSETD, 0, 0},
    {"terminal-take-console", terminal_trick, NULL, TIOCCONS, 0, 0},
    {0},
};
