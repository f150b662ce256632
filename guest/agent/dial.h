/* dial.h: carries bytes between a connection and a TCP port that something inside the sandbox listens on. */
#ifndef SANDKEEP_DIAL_H
#define SANDKEEP_DIAL_H

#include <stdint.h>

/* owns fd (blocking); answers the request, then relays until both sides have ended; for a process of its own */
void serve_dial(int fd, uint32_t id, uint16_t port);

#endif
