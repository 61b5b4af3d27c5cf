#include "tessera/support/nearest_name.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(NearestName, FewestChangesOfLetters) {
  const std::vector<std::string> names = {"matmul", "softmax", "conv2d"};
  EXPECT_EQ(nearest_name("matmull", names), "matmul");
  EXPECT_EQ(nearest_name("sfotmax", names), "softmax");
  EXPECT_EQ(nearest_name("lits", {"explain", "list"}), "list");
  EXPECT_EQ(nearest_name("CONV2", names), "conv2d");
}

TEST(NearestName, BeginningsWin) {
  EXPECT_EQ(nearest_name("skylake", {"skyline", "skylake-avx512"}), "skylake-avx512");
  EXPECT_EQ(nearest_name("mlp", {"mlq", "MLP"}), "MLP");
}

TEST(NearestName, EmptyAndLongNames) {
  EXPECT_EQ(nearest_name("", {"abc", "ab"}), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'a'), {"b", "a"}), "");
}

TEST(NearestName, NothingWhenEveryNameIsFar) {
  EXPECT_EQ(nearest_name("frobnicate", {"compile", "bench"}), "");
  EXPECT_EQ(nearest_name("Z", {"M", "N"}), "");
  EXPECT_EQ(nearest_name("foo", {"host"}), "");
}

TEST(SuggestName, EndsAMessage) {
  EXPECT_EQ(suggest_name("lnet", {"lenet"}, "."), "; did you mean 'lenet'?");
  EXPECT_EQ(suggest_name("vgg", {"lenet"}, "."), ".");
}

}  // namespace
}  // namespace tessera
