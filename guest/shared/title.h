/* title.h: what `ps` shows as this process's command line. */
#ifndef SANDKEEP_TITLE_H
#define SANDKEEP_TITLE_H

/* to be called first in main() */
void title_remember(int argc, char **argv);
/*
 * Overwrites the command line, which everybody may read. A sandbox's first process is forked from the launcher, and
 * must not show the launcher's arguments inside.
 */
void title_set(const char *title);

#endif
