#include "tessera/target/fast_math.h"

#include <algorithm>

#include "tessera/target/features.h"

namespace tessera::target {
namespace {

// Stands among the features of the target, though LLVM has no such.
constexpr std::string_view kTf32 = "tf32";
constexpr std::string_view kMark = ",+tf32";

}  // namespace

Result<Target> allow_fast_math(Target target, std::string_view what) {
  if (what.empty()) return target;
  if (what != kTf32) {
    return make_error(ErrorCode::kInvalidArgument, "fast math '{}' is not known; there is: {}",
                      what, kTf32);
  }
  const std::vector<TensorShape> shapes = tensor_shapes(target);
  const bool has = std::any_of(shapes.begin(), shapes.end(),
                               [](const TensorShape& s) { return s.dtype == DType::kF32; });
  if (!has) {
    return make_error(ErrorCode::kUnsupported, "fast math {}: {} has no tensor cores for f32", what,
                      target.name);
  }
  if (products_of(target) == Products::kExact) target.features += kMark;
  return target;
}

Target without_fast_math(Target target) {
  const std::size_t at = target.features.find(kMark);
  if (at != std::string::npos) target.features.erase(at, kMark.size());
  return target;
}

Products products_of(const Target& target) {
  return target.is_gpu() && has_feature(target.features, kTf32) ? Products::kTf32
                                                                : Products::kExact;
}

}  // namespace tessera::target
