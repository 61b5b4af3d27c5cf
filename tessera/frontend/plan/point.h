// One decision about a model, and how a set of them is written down.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::plan {

enum class PointKind : std::uint8_t {
  kLayout,     // of a convolution, a pool or a concatenation: channels last or first
  kSplit,      // a convolution of a concatenation, or the sum of those of its parts
  kAlgorithm,  // of a dense or transposed convolution
  kPointwise,  // a 1x1 convolution as a product of matrices, or as it is
  kMerge,      // contractions of one input in one kernel
  kFusion,     // a value inside the kernel that computes it, or stored between two
  kFront,      // what only a contraction or a window reads: stored, or computed in its kernel
};
inline constexpr std::size_t kPointKinds = 7;

// What all points of a kind have in common.
struct KindInfo {
  const char* family;               // as a key: decides every point of the kind that has no own key
  std::vector<std::string> values;  // any point of the kind has some of these
};
const KindInfo& info(PointKind kind);

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

// Values by key: of single points, or of a family. One line "key = value" each as text.
using Decisions = std::map<std::string, std::string>;
std::string to_text(const Decisions& decisions);

struct Point {
  PointKind kind = PointKind::kAlgorithm;
  // The same for every import of a model, on every machine. Nodes of equal key share a decision.
  std::string key;
  std::vector<std::string> values;  // legal after what was decided before; at least one
  std::size_t preferred = 0;        // what the rules take
};

// A point with all values of its kind.
Point make_point(PointKind kind, std::string key, const std::string& preferred);

}  // namespace tessera::plan
