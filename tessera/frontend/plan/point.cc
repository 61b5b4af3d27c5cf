#include "tessera/frontend/plan/point.h"

#include <algorithm>
#include <iterator>

#include "tessera/frontend/plan/convolution.h"
#include "tessera/frontend/plan/pointwise.h"
#include "tessera/support/check.h"

namespace tessera::plan {

const KindInfo& info(PointKind kind) {
  static const std::map<PointKind, KindInfo> table = {
      {PointKind::kLayout, {"layouts", {kLast, kFirst}}},
      {PointKind::kSplit, {"concatenations", {kJoined, kSplitUp}}},
      {PointKind::kAlgorithm, {"convolutions", convolution_algorithms()}},
      {PointKind::kPointwise, {"pointwise", {kProduct, kDirect, kChained}}},
      {PointKind::kMerge, {"contractions", {kSeparate, kMerged}}},
      {PointKind::kFusion, {"fusion", {kFused, kStored}}},
      {PointKind::kFront, {"fronts", {kStored, kFused}}},
      {PointKind::kPrecision, {"products", {kWhole, kParts}}},
      {PointKind::kInteger, {"integers", {kFloats, kBytes}}},
      {PointKind::kLaunch,
       {"launches", {kTimed, kInOrder, kFetching, kBranching, kFetchingBranches}}},
      {PointKind::kStorage, {"storage", {kWide, kNarrow}}},
  };
  const auto it = table.find(kind);
  TESSERA_CHECK(it != table.end(), "{} is not decided about models", decide::to_text(kind));
  return it->second;
}

std::string to_text(const Decisions& decisions) {
  std::string out;
  for (const auto& [key, value] : decisions) {
    out += key;
    out += " = ";
    out += value;
    out += '\n';
  }
  return out;
}

namespace {

Point words(PointKind kind, std::string key, std::vector<std::string> labels,
            const std::string& preferred) {
  const auto it = std::find(labels.begin(), labels.end(), preferred);
  TESSERA_CHECK(it != labels.end(), "{}: no value {}", key, preferred);
  Point point{.name = std::move(key), .kind = kind, .values = {}, .labels = {}};
  point.preferred = static_cast<std::int32_t>(it - labels.begin());
  for (std::int64_t v = 0; v < std::ssize(labels); ++v) point.values.push_back({v});
  point.labels = std::move(labels);
  return point;
}

}  // namespace

Point make_point(PointKind kind, std::string key, const std::string& preferred) {
  return words(kind, std::move(key), info(kind).values, preferred);
}

Point with_values(const Point& point, const std::function<bool(const std::string&)>& keep) {
  std::vector<std::string> labels;
  std::copy_if(point.labels.begin(), point.labels.end(), std::back_inserter(labels), keep);
  return words(point.kind, point.name, std::move(labels), point.label(point.preferred));
}

}  // namespace tessera::plan
