/* hex.c: the digits of hex.h. */
#include "shared/hex.h"

void hex_text(const uint8_t *data, size_t length, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < length; i++) {
    *out++ = digits[data[i] >> 4];
    *out++ = digits[data[i] & 15];
  }
  *out = 0;
}
