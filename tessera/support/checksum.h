// A fast sum over bytes in memory: gigabytes of weights are compared by it, not by themselves.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The same for the same bytes, however they are cut into calls of add. Finds damage and
// accidental changes; whoever wants two equal sums can make them.
class Checksum {
 public:
  void add(std::string_view bytes);
  std::uint64_t value() const;
  std::string digest() const;  // 32 hexadecimal digits

 private:
  static constexpr std::size_t kBlock = 64;

  using Lanes = std::array<std::uint64_t, 4>;

  static Lanes add_blocks(Lanes lanes, const char* bytes, std::size_t blocks);
  std::array<std::uint64_t, 2> finish() const;

  // No words that files begin with: a lane that is equal to one forgets the next.
  Lanes lanes_{0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u};
  std::array<char, kBlock> rest_{};  // less than a block
  std::uint64_t bytes_ = 0;
};

}  // namespace tessera
