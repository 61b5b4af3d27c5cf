#include "tessera/app/report/summary.h"

#include <gtest/gtest.h>

namespace tessera::report {
namespace {

TEST(Summary, IsReadBack) {
  const Summary s{.models = {{"zoo:lenet", 3e-5, 2e-5, false}},
                  .kernels = {{"00aa", "winograd4", 1, 2, 1e-5, 5e-6, true, "reasoned: C.rows=4"}},
                  .stopped_by = "budget",
                  .disturbed = 7,
                  .busy = true};
  const Result<Summary> back = summary_from_json(to_json(s));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->models.at(0).name, "zoo:lenet");
  EXPECT_FALSE(back->models[0].trusted);
  EXPECT_EQ(back->kernels.at(0).candidate, "reasoned: C.rows=4");
  EXPECT_EQ(back->kernels[0].uses_after, 2);
  EXPECT_TRUE(back->kernels[0].cold);
  EXPECT_EQ(back->disturbed, 7);
  EXPECT_EQ(to_json(*back), to_json(s));
}

TEST(Summary, WhatIsMissingIsNotKnownAndWhatIsWrongRefused) {
  EXPECT_TRUE(summary_from_json("{}").ok());
  for (const char* wrong : {"", "[1]", "{\"busy\": 3}", "{\"kernels\": [{\"key\": 1}]}"}) {
    const Result<Summary> refused = summary_from_json(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tessera::report
