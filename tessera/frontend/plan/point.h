// One decision about a model, and how a set of them is written down.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/scheduling/decide/point.h"

namespace tessera::plan {

using decide::Point;
using decide::PointKind;

// Those that a plan decides.
inline constexpr std::array kPlanKinds = {
    PointKind::kLayout,  PointKind::kSplit,  PointKind::kAlgorithm, PointKind::kPointwise,
    PointKind::kMerge,   PointKind::kFusion, PointKind::kFront,     PointKind::kPrecision,
    PointKind::kInteger, PointKind::kLaunch, PointKind::kStorage};

// What all points of a kind have in common.
struct KindInfo {
  const char* family;               // as a key: decides every point of the kind that has no own key
  std::vector<std::string> values;  // any point of the kind has some of these
};
const KindInfo& info(PointKind kind);  // one of those

inline constexpr const char* kLast = "last";
inline constexpr const char* kFirst = "first";
inline constexpr const char* kDirect = "direct";
inline constexpr const char* kProduct = "product";
inline constexpr const char* kJoined = "joined";
inline constexpr const char* kSplitUp = "split";
inline constexpr const char* kSeparate = "separate";
inline constexpr const char* kMerged = "merged";
inline constexpr const char* kFused = "fused";
inline constexpr const char* kStored = "stored";
inline constexpr const char* kWhole = "whole";
inline constexpr const char* kParts = "parts";
inline constexpr const char* kBytes = "bytes";
inline constexpr const char* kFloats = "floats";
inline constexpr const char* kWide = "wide";
inline constexpr const char* kNarrow = "narrow";
inline constexpr const char* kTimed = "timed";  // all ways, when the model is loaded
inline constexpr const char* kInOrder = "in_order";
inline constexpr const char* kFetching = "fetching";    // each brings weights of later ones near
inline constexpr const char* kBranching = "branching";  // branches of the model side by side
inline constexpr const char* kFetchingBranches = "fetching_branches";

// Values by key: of single points, or of a family. One line "key = value" each as text.
using Decisions = std::map<std::string, std::string>;
std::string to_text(const Decisions& decisions);

// A point with all values of its kind, as words. Its name is a key of Decisions: the same for every
// import of a model, on every machine. Nodes of equal key share a decision.
Point make_point(PointKind kind, std::string key, const std::string& preferred);

// The same with some of its values: those for which `keep` is true, the preferred one among them.
Point with_values(const Point& point, const std::function<bool(const std::string&)>& keep);

}  // namespace tessera::plan
