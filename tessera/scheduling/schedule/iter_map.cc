#include "tessera/scheduling/schedule/iter_map.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"

namespace tessera::schedule {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::size_t idx(int id) { return static_cast<std::size_t>(id); }

}  // namespace

std::vector<std::int64_t> iter_extents(const Stage& stage,
                                       const std::vector<std::int64_t>& root_extents) {
  std::vector<std::int64_t> extents(stage.iters.size(), 0);
  std::copy(root_extents.begin(), root_extents.end(), extents.begin());
  for (const Relation& r : stage.relations) {
    if (r.kind == Relation::Kind::kFuse) {
      std::int64_t product = 1;
      for (const int id : r.from) product *= extents[idx(id)];
      extents[idx(r.to[0])] = product;
      continue;
    }
    std::int64_t rest = extents[idx(r.from[0])];
    if (r.from_outer) {
      for (std::size_t i = 0; i < r.lengths.size(); ++i) {
        extents[idx(r.to[i])] = r.lengths[i];
        rest = ceil_div(rest, r.lengths[i]);
      }
      extents[idx(r.to.back())] = rest;
    } else {
      for (std::size_t i = r.lengths.size(); i-- > 0;) {
        const std::int64_t part = std::max<std::int64_t>(1, std::min(r.lengths[i], rest));
        extents[idx(r.to[i + 1])] = part;
        rest = ceil_div(rest, part);
      }
      extents[idx(r.to[0])] = rest;
    }
  }
  return extents;
}

std::int64_t covered(const Relation& split, const std::vector<std::int64_t>& extents) {
  std::int64_t product = 1;
  for (const int id : split.to) product *= extents[idx(id)];
  return product;
}

IterMap map_iters(const Stage& stage, const std::vector<std::int64_t>& extents,
                  const std::vector<ir::Expr>& leaf_vars) {
  IterMap map;
  map.values = leaf_vars;
  for (std::size_t k = stage.relations.size(); k-- > 0;) {
    const Relation& r = stage.relations[k];
    if (r.kind == Relation::Kind::kSplit) {
      ir::Expr value = map.values[idx(r.to[0])];
      for (std::size_t i = 1; i < r.to.size(); ++i) {
        value =
            ir::add(ir::mul(value, ir::int_imm(extents[idx(r.to[i])])), map.values[idx(r.to[i])]);
      }
      const std::int64_t extent = extents[idx(r.from[0])];
      map.values[idx(r.from[0])] = value;
      if (covered(r, extents) > extent) {
        map.guards.push_back({value, extent, stage.iters[idx(r.from[0])].reduce, r.tail});
      }
      continue;
    }
    ir::Expr rest = map.values[idx(r.to[0])];
    for (std::size_t i = r.from.size(); i-- > 1;) {
      const ir::Expr extent = ir::int_imm(std::max<std::int64_t>(1, extents[idx(r.from[i])]));
      map.values[idx(r.from[i])] = ir::floor_mod(rest, extent);
      rest = ir::floor_div(rest, extent);
    }
    map.values[idx(r.from[0])] = rest;
  }
  return map;
}

}  // namespace tessera::schedule
