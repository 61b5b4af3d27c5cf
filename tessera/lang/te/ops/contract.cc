#include "tessera/lang/te/ops/contract.h"

#include <map>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {

Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc,
                     const OperandPart& lhs_part, const OperandPart& rhs_part) {
  std::map<char, std::int64_t> extents;
  const auto add_extents = [&](const ir::Buffer& buffer, std::string_view labels,
                               const OperandPart& part) {
    const Shape& shape = part.sizes.empty() ? buffer->shape : part.sizes;
    for (std::size_t d = 0; d < labels.size(); ++d) extents[labels[d]] = shape[d];
  };
  add_extents(lhs, lhs_labels, lhs_part);
  add_extents(rhs, rhs_labels, rhs_part);
  std::string sums;
  for (const std::string_view labels : {lhs_labels, rhs_labels}) {
    for (const char label : labels) {
      const bool known =
          out_labels.find(label) != std::string_view::npos || sums.find(label) != std::string::npos;
      if (!known) sums += label;
    }
  }
  const auto axes_of = [&](std::string_view labels) {
    NamedAxes axes;
    for (const char label : labels) axes.emplace_back(std::string(1, label), extents.at(label));
    return axes;
  };
  Stage stage;
  stage.axes = axes_of(out_labels);
  const auto value = [&](const Indices& i, const Indices& r) {
    const auto load = [&](const ir::Buffer& buffer, std::string_view labels,
                          const OperandPart& part) {
      Indices indices;
      for (std::size_t d = 0; d < labels.size(); ++d) {
        const std::size_t kept = out_labels.find(labels[d]);
        const ir::Expr& index = kept != std::string_view::npos ? i[kept] : r[sums.find(labels[d])];
        indices.push_back(part.starts.empty() ? index : shifted(index, part.starts[d]));
      }
      return to_type(acc, at(buffer, indices));
    };
    return load(lhs, lhs_labels, lhs_part) * load(rhs, rhs_labels, rhs_part);
  };
  stage.buffer = b.reduce(name, sums.empty() ? Reducer::kNone : Reducer::kSum, stage.axes,
                          axes_of(sums), value);
  return stage;
}

}  // namespace tessera::te
