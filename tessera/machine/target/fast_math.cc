#include "tessera/machine/target/fast_math.h"

#include <algorithm>
#include <array>

#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::target {
namespace {

struct Way {
  FastMath what;
  const char* name;
  DType type;  // of tensor cores
};
constexpr std::array kWays = {Way{FastMath::kTf32, "tf32", DType::kF32},
                              Way{FastMath::kBf16x6, "bf16x6", DType::kBF16}};

Result<const Way*> find_way(std::string_view name) {
  for (const Way& way : kWays) {
    if (way.name == name) return &way;
  }
  return make_error(ErrorCode::kInvalidArgument, "fast math '{}' is not known; there is: {}, {}",
                    name.substr(0, 32), kWays[0].name, kWays[1].name);
}

}  // namespace

const char* to_text(FastMath what) {
  const auto* const way =
      std::find_if(kWays.begin(), kWays.end(), [&](const Way& w) { return w.what == what; });
  return way == kWays.end() ? "" : way->name;
}

Result<FastMath> fast_math_from_text(std::string_view text) {
  TESSERA_TRY(const Way* way, find_way(text));
  return way->what;
}

Result<Target> allow_fast_math(Target target, std::string_view what) {
  if (what.empty()) return target;
  TESSERA_TRY(const Way* way, find_way(what));
  if (!find_matrix(target, Operands::kFragments, way->type, way->type)) {
    return make_error(ErrorCode::kUnsupported, "fast math {}: {} has no tensor cores for {}", what,
                      target.name, to_text(way->type));
  }
  target.fast_math = way->what;
  return target;
}

void read_fast_math_feature(Target& target) {
  if (!target.is_gpu()) return;
  for (const Way& way : kWays) {
    const std::string mark = fmt::format(",+{}", way.name);
    if (!target.features.ends_with(mark)) continue;
    target.features.erase(target.features.size() - mark.size());
    target.fast_math = way.what;
  }
}

Target without_fast_math(Target target) {
  target.fast_math = FastMath::kNone;
  return target;
}

Products products_of(const Target& target) {
  return target.fast_math == FastMath::kTf32 ? Products::kTf32 : Products::kExact;
}

bool splits_products(const Target& target) { return target.fast_math == FastMath::kBf16x6; }

}  // namespace tessera::target
