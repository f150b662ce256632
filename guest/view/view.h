/*
 * view.h: the files of /proc that would show the whole host, as this sandbox's own: its memory, its processors, its load.
 *
 *   launcher        view_learn()   reads what every sandbox shows the same of: the model of the processors
 *   first process   view_mount()   mounts a file system of its own (fuse.h) and puts its files over the kernel's
 *   agent           view_begin()   answers reads, in its loop
 *
 * Each sandbox's own agent serves its files, so a sandbox that floods them delays only itself, and nothing has to be
 * started again or taken over. The kernel lets only processes of the sandbox's user namespace ask; to others, the host's
 * root included, it answers EACCES by itself. The agent must never read these files, nor follow a path of a program's
 * choosing or touch a program's memory in its loop: it would wait for itself.
 */
#ifndef SANDKEEP_VIEW_H
#define SANDKEEP_VIEW_H

#include <stdint.h>
#include <sys/sysinfo.h>

#include "view/view_source.h"

/* to be called once, by the launcher; the processes that it makes inherit it */
void view_learn(void);

/*
 * In the root that is being built, with /proc mounted: covers the files. `fd` is /dev/fuse, opened in the sandbox's user
 * namespace, or -1 on a host that has none: then the files say what holds now, and go on saying it. `at` is an empty
 * directory that nothing uses yet. 0, or an errno with the step that failed.
 */
int view_mount(int fd, const char *at, const char **step);

/* what the texts are about; before view_mount(). `cpus`: processors that programs see. 0 or errno */
int view_describe(uint32_t cpus, const struct view_source *source);

/* serves in the agent's loop and takes the descriptor over; 0 or errno */
int view_begin(int fd);

/* what the call of this name is to say inside */
void view_sysinfo(struct sysinfo *out);

#endif
