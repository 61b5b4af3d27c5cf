#include "tessera/machine/target/fast_math.h"

#include <algorithm>
#include <array>

#include "tessera/machine/target/features.h"

namespace tessera::target {
namespace {

// Stands among the features of the target, though LLVM has no such.
struct Way {
  std::string_view name;
  DType type;  // of tensor cores
};
constexpr Way kTf32{"tf32", DType::kF32}, kParts{"bf16x6", DType::kBF16};
constexpr std::array kWays = {kTf32, kParts};

std::string mark(const Way& way) { return fmt::format(",+{}", way.name); }

bool allows(const Target& target, const Way& way) {
  return target.is_gpu() && has_feature(target.features, way.name);
}

}  // namespace

Result<Target> allow_fast_math(Target target, std::string_view what) {
  if (what.empty()) return target;
  const auto* const way =
      std::find_if(kWays.begin(), kWays.end(), [&](const Way& w) { return w.name == what; });
  if (way == kWays.end()) {
    return make_error(ErrorCode::kInvalidArgument, "fast math '{}' is not known; there is: {}, {}",
                      what, kTf32.name, kParts.name);
  }
  const std::vector<TensorShape> shapes = tensor_shapes(target);
  const bool has = std::any_of(shapes.begin(), shapes.end(),
                               [&](const TensorShape& s) { return s.dtype == way->type; });
  if (!has) {
    return make_error(ErrorCode::kUnsupported, "fast math {}: {} has no tensor cores for {}", what,
                      target.name, to_text(way->type));
  }
  target = without_fast_math(std::move(target));
  target.features += mark(*way);
  return target;
}

Target without_fast_math(Target target) {
  for (const Way& way : kWays) {
    const std::size_t at = target.features.find(mark(way));
    if (at != std::string::npos) target.features.erase(at, mark(way).size());
  }
  return target;
}

Products products_of(const Target& target) {
  return allows(target, kTf32) ? Products::kTf32 : Products::kExact;
}

bool splits_products(const Target& target) { return allows(target, kParts); }

}  // namespace tessera::target
