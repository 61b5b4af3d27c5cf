#include "tessera/scheduling/lower/private_copies.h"

#include <algorithm>
#include <utility>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

// Barriers that a block has beside its own.
constexpr std::int64_t kMostGroups = 15;

class Accesses {
 public:
  explicit Accesses(const std::map<ir::Buffer, ir::Buffer>& places) : places_(places) {}

  void add(const ir::Stmt& s) {
    ir::for_each_stmt(s, [&](const ir::Stmt& x) {
      if (const auto* loop = x.as<ir::For>()) {
        if (const auto extent = ir::as_const_int(loop->extent))
          ranges_[loop->var.get()] = arith::Interval::of_extent(*extent);
      } else if (const auto* store = x.as<ir::Store>()) {
        add(store->buffer, store->indices);
      }
    });
    ir::for_each_expr(s, [&](const ir::Expr& e) {
      if (const auto* load = e.as<ir::Load>()) add(load->buffer, load->indices);
    });
  }

  // Whether no element belongs to two groups of so many threads.
  bool apart(const BlockThreads& threads, std::int64_t group) {
    if (!known_) return false;
    for (const auto& [buffer, indices] : indices_) {
      std::vector<std::pair<std::int64_t, std::int64_t>> regions;
      for (std::int64_t first = 0; first < threads.count; first += group) {
        ranges_[threads.var.get()] = {first, first + group - 1};
        std::pair<std::int64_t, std::int64_t> region{INT64_MAX, INT64_MIN};
        for (const ir::Expr& index : indices) {
          const arith::Interval bounds = arith::const_bounds(index, ranges_);
          if (!bounds.lo || !bounds.hi) return false;
          region.first = std::min(region.first, *bounds.lo);
          region.second = std::max(region.second, *bounds.hi);
        }
        regions.push_back(region);
      }
      std::sort(regions.begin(), regions.end());
      for (std::size_t i = 1; i < regions.size(); ++i) {
        if (regions[i].first <= regions[i - 1].second) return false;
      }
    }
    return true;
  }

 private:
  void add(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) {
    if (!places_.contains(buffer)) {
      known_ = known_ && buffer->scope != ir::Scope::kShared;
      return;
    }
    known_ = known_ && indices.size() == 1 && indices[0].lanes() == 1;
    indices_[buffer].push_back(indices[0]);
  }

  const std::map<ir::Buffer, ir::Buffer>& places_;
  std::map<ir::Buffer, std::vector<ir::Expr>> indices_;
  arith::Ranges ranges_;
  bool known_ = true;
};

}  // namespace

std::int64_t private_group(const std::vector<ir::Stmt>& copies, const std::vector<ir::Stmt>& uses,
                           const std::map<ir::Buffer, ir::Buffer>& places,
                           const BlockThreads& threads) {
  Accesses accesses(places);
  for (const ir::Stmt& s : copies) accesses.add(s);
  for (const ir::Stmt& s : uses) accesses.add(s);
  for (std::int64_t group = threads.warp; group < threads.count; group += threads.warp) {
    if (threads.count % group != 0) continue;
    if (group > threads.warp && threads.count / group > kMostGroups) continue;
    if (accesses.apart(threads, group)) return group;
  }
  return 0;
}

}  // namespace tessera::lower
