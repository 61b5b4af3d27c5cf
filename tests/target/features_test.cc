#include "tessera/machine/target/features.h"

#include <array>

#include <gtest/gtest.h>

namespace tessera::target {
namespace {

TEST(Features, TheLastMentionCounts) {
  EXPECT_TRUE(has_feature("+neon,-sve", "neon"));
  EXPECT_FALSE(has_feature("+neon,-sve", "sve"));
  EXPECT_FALSE(has_feature("+neon,-sve", "sve2"));
  EXPECT_FALSE(has_feature("+sve2,+sve,-sve", "sve"));
  EXPECT_TRUE(has_feature("-sve,+sve", "sve"));
  EXPECT_FALSE(has_feature("", "sve"));
  EXPECT_FALSE(has_feature(",,+,", ""));
}

TEST(Features, PresentOnes) {
  const std::vector<std::string_view> expected = {"neon", "i8mm"};
  EXPECT_EQ(present_features("+neon,-sve,+i8mm,+bf16,-bf16"), expected);
  EXPECT_TRUE(present_features("").empty());
}

TEST(Features, StringNamesThemAllAndReadsBack) {
  const std::array<std::string_view, 2> present = {"avx2", "not-a-known-one"};
  const std::string text = feature_string(Arch::kX86_64, present);
  EXPECT_EQ(present_features(text), std::vector<std::string_view>{"avx2"});
  EXPECT_NE(text.find("-avx512f"), std::string::npos);
  EXPECT_EQ(text.find("not-a-known-one"), std::string::npos);
}

TEST(Features, Avx512NeedsAllFourParts) {
  Target t;
  t.arch = Arch::kX86_64;
  t.features = "+fma,+avx2,+avx512f,+avx512cd";
  derive_from_features(t);
  EXPECT_EQ(t.vector_bytes, 32);
  EXPECT_EQ(t.vector_registers, 16);
  t.features += ",+avx512bw,+avx512dq,+avx512vl";
  derive_from_features(t);
  EXPECT_EQ(t.vector_bytes, 64);
  EXPECT_EQ(t.vector_registers, 32);
  t.features = "+sse4.2";
  derive_from_features(t);
  EXPECT_EQ(t.vector_bytes, 16);
  EXPECT_FALSE(t.has_fma);
}

}  // namespace
}  // namespace tessera::target
