#include "tessera/te/ops/contract.h"

#include <map>

#include "tessera/te/ops/element_types.h"

namespace tessera::te {

Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc) {
  std::map<char, std::int64_t> extents;
  for (std::size_t d = 0; d < lhs_labels.size(); ++d) extents[lhs_labels[d]] = lhs->shape[d];
  for (std::size_t d = 0; d < rhs_labels.size(); ++d) extents[rhs_labels[d]] = rhs->shape[d];
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
    const auto load = [&](const ir::Buffer& buffer, std::string_view labels) {
      Indices indices;
      for (const char label : labels) {
        const std::size_t kept = out_labels.find(label);
        indices.push_back(kept != std::string_view::npos ? i[kept] : r[sums.find(label)]);
      }
      return to_type(acc, at(buffer, indices));
    };
    return load(lhs, lhs_labels) * load(rhs, rhs_labels);
  };
  stage.buffer = b.reduce(name, sums.empty() ? Reducer::kNone : Reducer::kSum, stage.axes,
                          axes_of(sums), value);
  return stage;
}

}  // namespace tessera::te
