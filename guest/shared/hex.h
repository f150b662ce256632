/* hex.h: bytes as text, for lines that may hold nothing but plain characters. */
#ifndef SANDKEEP_HEX_H
#define SANDKEEP_HEX_H

#include <stddef.h>
#include <stdint.h>

/* writes hex digits and a zero, of which there must be room for 2 * length + 1 */
void hex_text(const uint8_t *data, size_t length, char *out);

#endif
