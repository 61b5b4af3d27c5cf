#include "accuracy.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel_runner.h"
#include "tessera/backend/codegen/llvm/vector_math.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

constexpr std::int64_t kBatch = 4096;

double exact_exp(double x) { return std::exp(x); }
double exact_log(double x) { return std::log(x); }
double exact_tanh(double x) { return std::tanh(x); }
double exact_erf(double x) { return std::erf(x); }

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::array kCases = {
    FunctionCase{ir::Intrinsic::kExp, exact_exp, kExpUlps, kExpZero},
    FunctionCase{ir::Intrinsic::kLog, exact_log, kLogUlps, kNever},
    FunctionCase{ir::Intrinsic::kTanh, exact_tanh, kTanhUlps, kNever},
    FunctionCase{ir::Intrinsic::kErf, exact_erf, kErfUlps, kNever},
};

// Spacing of f32 numbers around v, denormals included.
double ulp(double v) { return std::ldexp(1.0, std::max(std::ilogb(v) - 23, -149)); }

// Checks what has no last place; true when `got` is a number to be compared.
bool check_special(const FunctionCase& function, float x, float got, double want,
                   std::string* failure) {
  const auto rounded = static_cast<float>(want);
  bool right = true;
  if (std::isnan(want)) {
    right = std::isnan(got);
  } else if (static_cast<double>(x) < function.zero_from) {
    right = got == 0;
  } else if (std::isinf(rounded) || rounded == 0) {
    right = got == rounded && std::signbit(got) == std::signbit(rounded);
  } else if (std::isfinite(got)) {
    return true;
  } else {
    right = false;
  }
  if (!right && failure->empty()) *failure = fmt::format("f({:a}) = {:a}, not {:a}", x, got, want);
  return false;
}

ir::Func batch_function(ir::Intrinsic fn) {
  const ir::Buffer in = ir::Buffer::make("in", DType::kF32, {kBatch});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {kBatch});
  const ir::Expr i = ir::Var::make("i");
  return elementwise({in}, {{out, ir::Call::make(fn, {load_vec(in, i * 4, 4)})}}, i, 4);
}

}  // namespace

const FunctionCase* function_case(ir::Intrinsic fn) {
  for (const FunctionCase& one : kCases) {
    if (one.fn == fn) return &one;
  }
  return nullptr;
}

Accuracy measure_accuracy(const FunctionCase& function, std::uint32_t first, std::uint32_t stride) {
  Accuracy result;
  const auto kernel = compile(batch_function(function.fn));
  if (!kernel) return result;
  std::vector<float> in(kBatch), out(kBatch);
  for (std::uint64_t next = first; next >> 32 == 0;) {
    std::size_t used = 0;
    for (; used < in.size() && next >> 32 == 0; ++used, next += stride)
      in[used] = std::bit_cast<float>(static_cast<std::uint32_t>(next));
    run(*kernel, {in.data(), out.data()});
    for (std::size_t i = 0; i < used; ++i) {
      const double want = function.exact(static_cast<double>(in[i]));
      if (!check_special(function, in[i], out[i], want, &result.failure)) continue;
      const double ulps = std::abs(static_cast<double>(out[i]) - want) / ulp(want);
      if (ulps > result.max_ulps) {
        result.max_ulps = ulps;
        result.worst = in[i];
      }
    }
    result.tested += static_cast<std::int64_t>(used);
  }
  return result;
}

}  // namespace tessera::codegen
