#include "tessera/support/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace tessera {
namespace {

Result<int> half(int v) {
  if (v % 2 != 0) return make_error(ErrorCode::kInvalidArgument, "{} is odd", v);
  return v / 2;
}

Result<int> quarter(int v) {
  TESSERA_TRY(const int once, half(v));
  TESSERA_TRY(const int twice, half(once));
  return twice;
}

Result<void> require_even(int v) {
  TESSERA_DO(half(v));
  return {};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*half(4), 2);
  ASSERT_FALSE(half(3).ok());
  EXPECT_EQ(half(3).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(half(3).error().message, "3 is odd");
}

TEST(Result, TryAndDoReturnTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(require_even(2).ok());
  EXPECT_EQ(require_even(5).error().message, "5 is odd");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> r(std::make_unique<int>(3));
  const std::unique_ptr<int> p = std::move(r).value();
  EXPECT_EQ(*p, 3);
}

TEST(Result, ValueOfAFailureIsABug) { EXPECT_THROW(half(3).value(), InternalError); }

TEST(Error, ContextComesFirst) {
  const Error e = half(3).error().with_context("step 4");
  EXPECT_EQ(e.message, "step 4: 3 is odd");
  EXPECT_EQ(e.code, ErrorCode::kInvalidArgument);
}

TEST(Error, CodesHaveStableNames) {
  EXPECT_STREQ(to_text(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_STREQ(to_text(ErrorCode::kIllegalSchedule), "illegal_schedule");
  EXPECT_STREQ(to_text(ErrorCode::kUnavailable), "unavailable");
}

TEST(Check, ThrowsWithConditionAndMessage) {
  TESSERA_CHECK(true, "not evaluated");
  try {
    TESSERA_CHECK(1 == 2, "one is {}", 1);
    FAIL() << "did not throw";
  } catch (const InternalError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("one is 1 (violated: 1 == 2)"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace tessera
