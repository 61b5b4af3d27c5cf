// A hash that is the same on every machine and in every version: task keys and digests use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// FNV-1a of the bytes, mixed so that every bit depends on all of them.
inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t h = 0xcbf29ce484222325u ^ seed;
  for (const char c : bytes) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3u;
  }
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 33;
  return h;
}

inline std::string to_hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = 0; i < 16; ++i) out[15 - i] = kDigits[(value >> (4 * i)) & 15];
  return out;
}

}  // namespace tessera
