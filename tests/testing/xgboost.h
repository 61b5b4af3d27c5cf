// Whether tests of boosted trees may be skipped.
#pragma once

#include <gtest/gtest.h>

#include "tessera/support/result.h"

namespace tessera::testing {

#if __has_include(<xgboost/c_api.h>)
inline constexpr bool kXgboostIsInstalled = true;
#else
inline constexpr bool kXgboostIsInstalled = false;
#endif

// Whether a model of trees could be made. Where XGBoost is installed that must not fail; elsewhere
// it fails for that reason only.
template <class Model>
bool has_trees(const Result<Model>& made) {
  if (made.ok()) return true;
  EXPECT_FALSE(kXgboostIsInstalled) << made.error().message;
  EXPECT_EQ(made.error().code, ErrorCode::kUnavailable) << made.error().message;
  return false;
}

}  // namespace tessera::testing
