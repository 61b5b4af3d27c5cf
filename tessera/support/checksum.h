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
  // Of all of `bytes`, by several threads where they are many.
  static Checksum of(std::string_view bytes);

  void add(std::string_view bytes);
  std::uint64_t value() const;
  std::string digest() const;  // 32 hexadecimal digits

 private:
  // Bytes that are summed up in their order.
  class Piece {
   public:
    void add(std::string_view bytes);
    std::uint64_t bytes() const { return bytes_; }
    std::array<std::uint64_t, 2> finish() const;

   private:
    static constexpr std::size_t kBlock = 64;
    using Lanes = std::array<std::uint64_t, 4>;

    static Lanes add_blocks(Lanes lanes, const char* bytes, std::size_t blocks);

    // No words that files begin with: a lane that is equal to one forgets the next.
    Lanes lanes_{0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u,
                 0x082efa98ec4e6c89u};
    std::array<char, kBlock> rest_{};  // less than a block
    std::uint64_t bytes_ = 0;
  };
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

  static void add_sum(const std::array<std::uint64_t, 2>& sum, Piece* to);
  std::array<std::uint64_t, 2> finish() const;

  Piece sums_;  // of the pieces that are whole
  Piece last_;
};

}  // namespace tessera
