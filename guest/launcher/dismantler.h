/*
 * dismantler.h: the process that takes the mounts of ended sandboxes apart. That takes as long as they have files in memory,
 * and is done by the last process that holds their mount namespace. It must be neither the dying sandbox, whose end a
 * caller waits for, nor the launcher.
 */
#ifndef SANDKEEP_DISMANTLER_H
#define SANDKEEP_DISMANTLER_H

/* starts it before the launcher has much that it would share; without it, the first namespace starts it */
void dismantler_start(void);
/* takes over the descriptor of a mount namespace; what lives in it goes on */
void dismantle(int mounts);

#endif
