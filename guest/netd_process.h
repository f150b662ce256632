/* netd_process.h: what the process of netd, and Node after it, may use and no longer do. */
#ifndef SANDKEEP_NETD_PROCESS_H
#define SANDKEEP_NETD_PROCESS_H

/* Many descriptors and no core dumps. */
void netd_limit(void);

/* Many descriptors, no core dumps, and no capability: the sockets were made by the launcher, and using them takes none. */
void netd_confine(void);

#endif
