#include "tessera/app/compile/float_products.h"

#include <algorithm>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/analysis.h"

namespace tessera::app {
namespace {

struct Multiplications {
  double narrow = 0, all = 0;
};

Multiplications count(const task::TaskGraph& tasks) {
  Multiplications out;
  for (const task::Task& task : tasks.tasks) {
    for (const te::Op& op : task.dag.ops) {
      space::Product product;
      if (!space::match_product(op, task.dag.inputs, &product) || !is_float(op.values[0].dtype()))
        continue;
      double number = task.weight;
      for (const std::vector<te::Axis>* axes : {&op.axes, &op.reduce_axes}) {
        for (const te::Axis& a : *axes) number *= static_cast<double>(a.extent);
      }
      const auto is_narrow = [](const ir::Load& operand) {
        return compute_type(operand.buffer->dtype) != operand.buffer->dtype;
      };
      out.all += number;
      if (is_narrow(*product.left.load) && is_narrow(*product.right.load)) out.narrow += number;
    }
  }
  return out;
}

}  // namespace

Result<DType> float_type(std::string_view name) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name == to_text(t)) return t;
  }
  return make_error(ErrorCode::kInvalidArgument, "dtype {}: write f32, f16 or bf16",
                    name.substr(0, 32));
}

bool multiplies(const target::Target& target, DType type) {
  return target.is_gpu() ||
         std::ranges::any_of(target::matrix_instructions(),
                             [&](const auto& row) { return offers(target, row, type, type); });
}

Result<void> check_floats(const target::Target& target, DType floats) {
  if (floats == DType::kF32 || multiplies(target, floats)) return {};
  return make_error(ErrorCode::kUnsupported,
                    "dtype {}: {} has no instructions that multiply it, so f32 is faster there",
                    to_text(floats), target.name);
}

std::string faster_floats(const target::Target& target, DType floats,
                          const task::TaskGraph& tasks) {
  const Multiplications products = count(tasks);
  const bool wide = products.all > 0 && products.narrow == 0;
  if (floats != DType::kF32 || !wide || target.is_gpu() || !multiplies(target, DType::kBF16))
    return "";
  return fmt::format("{} multiplies bf16: --dtype bf16 computes products in it, with sums in f32",
                     target.name);
}

double narrow_share(const task::TaskGraph& tasks) {
  const Multiplications products = count(tasks);
  return products.all > 0 ? products.narrow / products.all : 0;
}

}  // namespace tessera::app
