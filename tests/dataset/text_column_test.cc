#include "tessera/learn/dataset/text_column.h"

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::dataset {
namespace {

constexpr std::size_t kMost = 1 << 20;

TEST(TextColumn, ReadsBackWhateverWasWritten) {
  const std::vector<std::string> texts = {
      "",
      "\n",
      "reasoned: C.rows=8 C.vectors=3\nsplit C i 8\nsplit C j 12 tail=peel\n",
      "reasoned: C.rows=6 C.vectors=3\nsplit C i 6\nsplit C j 12 tail=peel\n",
      "rules: C.i=2x4x1 C.tail=bounds\nlayout W d0/12 d1 d0%12\n",
      "0 00 007 -1 1.5 1e-3 123456789012345678 1234567890123456789012 p1 conv_2.i0",
      "[\"ansor\", [[3, 1, [4, 8]]]]",
      "no newline at the end =x =",
      "reasoned: C.rows=8 C.vectors=3\nsplit C i 8\nsplit C j 12 tail=peel\n",
  };
  const std::string bytes = pack_texts(texts).value();
  const auto read = unpack_texts(bytes, kMost);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, texts);
  EXPECT_TRUE(unpack_texts(pack_texts({}).value(), 0)->empty());
}

TEST(TextColumn, ANumberThatStandsTwiceIsKeptOnce) {
  std::vector<std::string> once, twice;
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    const auto n = rng.below(100);
    once.push_back(fmt::format("a: rows={} \n", n));
    twice.push_back(fmt::format("a: rows={} \nsplit C i {}\nsplit D i {} 7\n", n, n, n));
  }
  const std::size_t less = pack_texts(once)->size(), more = pack_texts(twice)->size();
  EXPECT_LT(more, less + 60);  // the words, and two columns that are copies
}

TEST(TextColumn, ControlCharactersAreRefused) {
  EXPECT_EQ(pack_texts({"a\x01b"}).error().code, ErrorCode::kInvalidArgument);
}

TEST(TextColumn, DamagedBytesAreRefusedOrReadAsTexts) {
  const std::string bytes =
      pack_texts({"a: x=1 \nsplit C i 1\n", "a: x=2 \nsplit C i 2\n", "b"}).value();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(unpack_texts(std::string_view(bytes).substr(0, size), kMost).ok()) << size;
  }
  EXPECT_FALSE(unpack_texts(bytes + '\0', kMost).ok());
  EXPECT_FALSE(unpack_texts(bytes, 10).ok());  // more text than is allowed
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ change);
      const auto read = unpack_texts(bad, kMost);  // whatever it is, it ends
      EXPECT_TRUE(read.ok() || read.error().code == ErrorCode::kIo);
    }
  }
}

// Pieces with many numbers that a shape names many times: their numbers are counted once.
TEST(TextColumn, ManyNamesOfALongPieceAreQuicklyRefused) {
  const auto number = [](std::size_t n) {
    std::string out;
    for (; n >= 0x80; n >>= 7) out += static_cast<char>(0x80 | (n & 0x7f));
    return out + static_cast<char>(n);
  };
  constexpr std::size_t kMany = 1 << 20;  // squared: more steps than a test may take
  const std::string bytes = number(1) + number(kMany) + std::string(kMany, '\x01') + number(1) +
                            number(kMany) + std::string(kMany, '\0') + number(0);
  EXPECT_EQ(unpack_texts(bytes, 1 << 20).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera::dataset
