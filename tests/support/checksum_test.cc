#include "tessera/support/checksum.h"

#include <set>

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string digest(std::string_view bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.digest();
}

TEST(Checksum, DoesNotDependOnHowTheBytesAreCut) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes.push_back(static_cast<char>(i * 37));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Checksum sum;
    sum.add(std::string_view(bytes).substr(0, cut));
    sum.add(std::string_view(bytes).substr(cut));
    EXPECT_EQ(sum.digest(), digest(bytes)) << cut;
  }
  Checksum by_byte;
  for (const char c : bytes) by_byte.add({&c, 1});
  EXPECT_EQ(by_byte.digest(), digest(bytes));
}

TEST(Checksum, ThreadsGetTheSame) {
  std::string large((std::size_t{13} << 20) + 5, 'w');
  for (std::size_t i = 0; i < large.size(); i += 97) large[i] = static_cast<char>(i / 97);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{4} << 20,
                                 (std::size_t{8} << 20) + 1, large.size()}) {
    const std::string_view bytes = std::string_view(large).substr(0, size);
    EXPECT_EQ(Checksum::of(bytes).digest(), digest(bytes)) << size;
    EXPECT_EQ(Checksum::of(bytes).value(), Checksum::of(bytes).value());
  }
  const std::string before = digest(large);
  std::swap(large[0], large[std::size_t{4} << 20]);
  EXPECT_NE(digest(large), before);
}

TEST(Checksum, ChangesWithEveryBitAndLength) {
  const std::string zeros(130, '\0');
  std::set<std::string> seen;
  std::size_t asked = 0;
  for (std::size_t n = 0; n <= zeros.size(); ++n, ++asked)
    seen.insert(digest(std::string_view(zeros).substr(0, n)));
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit, ++asked) {
      std::string flipped = zeros;
      flipped[i] = static_cast<char>(1 << bit);
      seen.insert(digest(flipped));
    }
  }
  EXPECT_EQ(seen.size(), asked);
}

}  // namespace
}  // namespace tessera
