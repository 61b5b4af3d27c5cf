/* A digest against truncated, mixed-up or damaged weights; no protection against forgery. */
#include <stdint.h>
#include <string.h>

static uint64_t tsr_mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return lane << 29 | lane >> 35;
}

/* Four independent lanes over blocks of 32 bytes: as fast as memory. */
static uint64_t tsr_digest(const unsigned char* bytes, uint64_t count) {
  uint64_t lanes[4] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344),
                       UINT64_C(0xa4093822299f31d0), UINT64_C(0x082efa98ec4e6c89)};
  uint64_t words[4], h = count, at;
  int i;
  for (at = 0; at < count; at += 32) {
    const uint64_t left = count - at;
    if (left < 32) memset(words, 0, sizeof words);
    memcpy(words, bytes + at, left < 32 ? (size_t)left : 32);
    for (i = 0; i < 4; ++i) lanes[i] = tsr_mix(lanes[i], words[i]);
  }
  for (i = 0; i < 4; ++i) h = tsr_mix(h, lanes[i]);
  h ^= h >> 33;
  h *= UINT64_C(0xff51afd7ed558ccd);
  return h ^ h >> 33;
}
