/*
 * egress.h: the Node process that decides and connects (src/egress/main.ts), which keeper.h starts for netd, and the channel to it.
 *
 * The channel is the one that Node makes for its own children: a unix stream socket whose number is in NODE_CHANNEL_FD,
 * one JSON value a line. It is internal to Node and pinned by src/egress/channel.test.ts.
 * src/protocols/netd-channel.ts is the other side; its test fills in the formats of guest/netd and reads them.
 *
 * netd to Node, an object each; `machine` is the sandbox's name, `id` the number under which netd knows it:
 *
 *   {"cmd":"NODE_HANDLE","type":"net.Socket","msg":{"kind":"tcp","id":1,"machine":"a","custom":true,"address":"1.2.3.4","port":80,"holder":5}}
 *                                      with the accepted connection beside it (SCM_RIGHTS)
 *   {"kind":"udp","id":1,"machine":"a","custom":false,"flow":2,"address":"1.2.3.4","port":123,"holder":5}
 *                                                                                  may this be opened?
 *   {"kind":"dns","id":1,"machine":"a","custom":true,"flow":3,"packet":"<hex>","holder":5}   please resolve
 *   {"kind":"end","id":1}                                                          close all that belongs to it
 *   {"kind":"flow","id":1,"machine":"a","custom":true,"address":"1.2.3.4","port":123,"sent":9,"received":9}
 *                                                                                  a UDP flow has ended
 *   {"kind":"holder","id":5,"program":"<hex>","ancestry":[[12,10,1763194000123],[10,10,1763194000003]]}
 *                                                                                  who it is: pid, session and start of
 *                                                                                  the process, of its parent …
 *   {"kind":"rechecked","id":7}                                                    the answer to "recheck a 7"
 *   {"kind":"refused","id":1,"machine":"a","protocol":17,"address":"198.18.0.1","port":53,"packet":"<hex>"}
 *                                      the kernel has refused a packet by itself: TCP and UDP as nothing may leave, other
 *                                      protocols as they never may; `packet` is the beginning of a question
 *   {"kind":"unseen","id":1,"machine":"a","count":9}                               so many more, of which nothing is known
 *   {"kind":"told","id":7}                                                         the answer to "tell a 7"
 *
 * `custom` says that the machine has a policy of its own; without having been given it Node lets nothing through.
 * `holder` is the number of a question who holds the program's socket, asked inside (holder_client.h), or 0.
 *
 * Node to netd, a string each, so that no JSON parser is needed here:
 *
 *   "allow <flow>"  "deny <flow>"  "answer <flow> <hex>"  "unanswered <flow>"
 *   "taken <id> <count>"               it has begun with that many connections: it may be given as many others
 *   "closed <id> <count>"              that many connections have ended
 *   "recheck <machine> <token>"        its policy has changed: flows that are open are to be asked for again; "*" for all
 *   "tell <machine> <token>"           what the kernel has refused until now is to be told before the answer
 *   {"cmd":"NODE_HANDLE_ACK"}          Node's own, ignored
 *
 * Nothing here blocks: what does not fit into the socket's buffer is refused, and the caller decides what that means.
 */
#ifndef SANDKEEP_EGRESS_H
#define SANDKEEP_EGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct egress_events {
  /* one line from Node, without its quotes */
  void (*said)(const char *line);
  /* the process is gone: whatever it was asked or given is gone with it */
  void (*gone)(void);
  /* there is room again for what egress_has_room() refused */
  void (*room)(void);
};

/* starts the process by the keeper at the other end of `keeper`; from then on it is started again whenever it ends.
 * Returns 0 or an errno. */
int egress_open(int keeper, const struct egress_events *events);
/* does what is due; returns in how many ms it wants to be called again, -1 for never */
int egress_tick(void);

/* whether there is a process and room for at least one more message; when not, room() is called once there is */
bool egress_has_room(void);
/* sends one object, printf-like, with a descriptor beside it unless fd is -1; false when it was not taken */
bool egress_say(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
