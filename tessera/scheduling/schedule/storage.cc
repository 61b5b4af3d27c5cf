#include "tessera/scheduling/schedule/storage.h"

#include <algorithm>

#include "tessera/scheduling/schedule/iter_map.h"

namespace tessera::schedule {
namespace {

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// Dimensions as they are stored, outermost first; those of a layout that cuts some as they are.
std::vector<std::size_t> storage_order(const Layout* layout, std::size_t rank) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < rank; ++d) out.push_back(d);
  if (!layout || layout->size() != rank) return out;
  for (std::size_t d = 0; d < rank; ++d) out[d] = idx((*layout)[d].dim);
  return out;
}

// The dimension stored after `dim` grows until the stride of `dim` is `offset` modulo `factor`.
void align_stride(std::vector<std::int64_t>* shape, const std::vector<std::size_t>& order, int dim,
                  std::int64_t factor, std::int64_t offset) {
  auto next = std::find(order.begin(), order.end(), idx(dim));
  if (next == order.end() || ++next == order.end()) return;
  std::int64_t inner = 1;
  for (auto d = next + 1; d != order.end(); ++d) inner *= (*shape)[*d];
  for (std::int64_t grow = 0; grow < factor; ++grow) {
    if (((*shape)[*next] + grow) * inner % factor == offset) {
      (*shape)[*next] += grow;
      return;
    }
  }
}

}  // namespace

std::vector<std::int64_t> stored_extents(const Stage& stage,
                                         const std::vector<std::int64_t>& iter_extents) {
  const std::size_t rank = stage.op.axes.size();
  std::vector<std::int64_t> out(iter_extents.begin(),
                                iter_extents.begin() + static_cast<std::ptrdiff_t>(rank));
  for (const Relation& r : stage.relations) {
    const bool pads =
        r.kind == Relation::Kind::kSplit && r.tail == Tail::kPad && idx(r.from[0]) < rank;
    if (pads) out[idx(r.from[0])] = std::max(out[idx(r.from[0])], covered(r, iter_extents));
  }
  return out;
}

void align_strides(const Stage& stage, const Layout* layout, std::vector<std::int64_t>* shape) {
  const std::vector<std::size_t> order = storage_order(layout, shape->size());
  for (const auto& [dim, rule] : stage.align)
    align_stride(shape, order, dim, rule.first, rule.second);
}

}  // namespace tessera::schedule
