#include "tessera/support/checksum.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "tessera/support/hash.h"
#include "tessera/support/parallel.h"

namespace tessera {
namespace {

// More of them wait for memory.
constexpr unsigned kThreads = 8;

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;

// Both halves of the product: every bit of the words changes many of the lane.
std::uint64_t mix(std::uint64_t lane, std::uint64_t word, std::uint64_t other = 0) {
  const auto product = static_cast<unsigned __int128>(lane ^ word) * (kOdd ^ other);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t word_at(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

Checksum::Piece::Lanes Checksum::Piece::add_blocks(Lanes lanes, const char* bytes,
                                                   std::size_t blocks) {
  // In registers, all of them at once: each lane is a chain of products.
  auto [a, b, c, d] = lanes;
  for (const char* end = bytes + blocks * kBlock; bytes != end; bytes += kBlock) {
    a = mix(a, word_at(bytes), word_at(bytes + 8));
    b = mix(b, word_at(bytes + 16), word_at(bytes + 24));
    c = mix(c, word_at(bytes + 32), word_at(bytes + 40));
    d = mix(d, word_at(bytes + 48), word_at(bytes + 56));
  }
  return {a, b, c, d};
}

void Checksum::Piece::add(std::string_view bytes) {
  const std::size_t held = bytes_ % kBlock;
  bytes_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(bytes.size(), kBlock - held);
    std::memcpy(rest_.data() + held, bytes.data(), taken);
    bytes.remove_prefix(taken);
    if (held + taken < kBlock) return;
    lanes_ = add_blocks(lanes_, rest_.data(), 1);
  }
  const std::size_t blocks = bytes.size() / kBlock;
  lanes_ = add_blocks(lanes_, bytes.data(), blocks);
  bytes.remove_prefix(blocks * kBlock);
  if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
}

std::array<std::uint64_t, 2> Checksum::Piece::finish() const {
  std::array<char, kBlock> last{};
  std::copy_n(rest_.begin(), bytes_ % kBlock, last.begin());
  std::array<std::uint64_t, 2> out{bytes_, ~bytes_};
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t lane : add_blocks(lanes_, last.data(), 1)) {
      out[0] = mix(out[0], lane);
      out[1] = mix(out[1] + out[0], lane);
    }
  }
  return out;
}

void Checksum::add_sum(const std::array<std::uint64_t, 2>& sum, Piece* to) {
  to->add({reinterpret_cast<const char*>(sum.data()), sizeof(sum)});
}

Checksum Checksum::of(std::string_view bytes) {
  const std::size_t pieces = bytes.size() / kPieceBytes;
  std::vector<std::array<std::uint64_t, 2>> sums(pieces);
  const int threads = static_cast<int>(std::min(kThreads, std::thread::hardware_concurrency()));
  parallel_for(pieces, threads, [&](std::size_t i) {
    Piece piece;
    piece.add(bytes.substr(i * kPieceBytes, kPieceBytes));
    sums[i] = piece.finish();
  });
  Checksum out;
  for (const auto& sum : sums) add_sum(sum, &out.sums_);
  out.last_.add(bytes.substr(pieces * kPieceBytes));
  return out;
}

void Checksum::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = std::min<std::size_t>(bytes.size(), kPieceBytes - last_.bytes());
    last_.add(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (last_.bytes() < kPieceBytes) return;
    add_sum(last_.finish(), &sums_);
    last_ = Piece();
  }
}

std::array<std::uint64_t, 2> Checksum::finish() const {
  Piece all = sums_;
  add_sum(last_.finish(), &all);
  return all.finish();
}

std::uint64_t Checksum::value() const {
  const auto [a, b] = finish();
  return a ^ b;
}

std::string Checksum::digest() const {
  const auto [a, b] = finish();
  return to_hex(a) + to_hex(b);
}

}  // namespace tessera
