#include "tessera/scheduling/feature/rows.h"

#include <gtest/gtest.h>

namespace tessera::feature {
namespace {

TEST(Rows, TextsRoundTrip) {
  for (const Rows rows : {Rows::kStatement, Rows::kLoop, Rows::kStep}) {
    const auto back = rows_from_text(to_text(rows));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, rows);
  }
  EXPECT_FALSE(rows_from_text("line").ok());
}

}  // namespace
}  // namespace tessera::feature
