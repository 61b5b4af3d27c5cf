#include "tessera/support/split_commas.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Words = std::vector<std::string>;

TEST(SplitCommas, LeavesOutWhatIsEmpty) {
  EXPECT_EQ(split_commas(""), Words());
  EXPECT_EQ(split_commas("a"), Words{"a"});
  EXPECT_EQ(split_commas("a,b=1,c d"), (Words{"a", "b=1", "c d"}));
  EXPECT_EQ(split_commas(",a,,b,"), (Words{"a", "b"}));
  EXPECT_EQ(split_commas(","), Words());
}

}  // namespace
}  // namespace tessera
