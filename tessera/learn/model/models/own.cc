#include "tessera/learn/model/models/own.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/learn/model/row_schema.h"

namespace tessera::model {

namespace {

// "decisions" differ from task to task, "launch" is for models fitted to trials.
constexpr std::array<const char*, 4> kOwnRows = {"statement", "loop", "step", "curve"};

}  // namespace

Error OwnModel::unsupported() {
  return make_error(ErrorCode::kUnsupported,
                    "a cost model of one's own is neither fitted nor saved");
}

std::vector<float> OwnModel::predict(const feature::FeatureSet& features) const {
  const std::size_t n = features.candidates();
  const std::lock_guard lock(mutex_);
  if (error_.empty() && n > 0) {
    Result<std::vector<float>> scores = score(features);
    if (scores.ok()) return std::move(scores).value();
    error_ = scores.error().message;
  }
  return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN());
}

std::string OwnModel::last_error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Result<void> check_own_rows(const std::string& name, const std::string& rows) {
  if (std::find(kOwnRows.begin(), kOwnRows.end(), rows) != kOwnRows.end()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: it wants to read \"{}\"; there are statement, loop, step and curve", name,
                    rows);
}

Result<void> check_own_scores(const std::string& name, const std::vector<float>& scores,
                              std::size_t candidates) {
  if (scores.size() != candidates) {
    return make_error(ErrorCode::kRunFailed, "{}: {} scores for {} candidates", name, scores.size(),
                      candidates);
  }
  const auto bad =
      std::find_if(scores.begin(), scores.end(), [](float s) { return !std::isfinite(s); });
  if (bad == scores.end()) return {};
  return make_error(ErrorCode::kRunFailed, "{}: the score of candidate {} of {} is {}", name,
                    bad - scores.begin() + 1, candidates, *bad);
}

}  // namespace tessera::model
