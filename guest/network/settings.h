/*
 * settings.h: what a sandbox's network needs to be set below /proc/sys/net. These files belong to a network namespace, so
 * they change nothing outside of it.
 */
#ifndef SANDKEEP_SETTINGS_H
#define SANDKEEP_SETTINGS_H

/* Called by a thread that is inside the sandbox's network namespace. Returns 0 or an errno, and says on standard error which
 * setting failed. */
int net_settings_write(void);

#endif
