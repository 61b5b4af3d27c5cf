#include "tessera/scheduling/lower/reuse_shared.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/shared_places.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

// Numbers of statements that no loop or branch surrounds, and of the barriers among them.
struct Use {
  std::size_t first = 0, last = 0;
  std::int64_t first_barrier = 0, last_barrier = 0;
};

// Puts a barrier before the statements of these numbers.
class AddBarriers {
 public:
  explicit AddBarriers(const std::set<std::size_t>& before) : before_(before) {}

  ir::Stmt operator()(const ir::Stmt& s) {
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<ir::Stmt> out;
      for (const ir::Stmt& child : block->stmts) out.push_back((*this)(child));
      return ir::Block::make(std::move(out));
    }
    if (const auto* alloc = s.as<ir::Allocate>())
      return ir::Allocate::make(alloc->buffer, (*this)(alloc->body));
    return before_.count(next_++) ? ir::Block::make({ir::Barrier::make(), s}) : s;
  }

 private:
  const std::set<std::size_t>& before_;
  std::size_t next_ = 0;
};

ir::Stmt reuse_in_body(const ir::Stmt& body) {
  std::map<ir::Buffer, Use> uses;
  std::size_t number = 0;
  std::int64_t barriers = 0;
  ir::for_each_outer_stmt(body, [&](const ir::Stmt& s) {
    ir::for_each_shared(s, [&](const ir::Buffer& b) {
      const Use now{number, number, barriers, barriers};
      Use& use = uses.try_emplace(b, now).first->second;
      use.last = now.last;
      use.last_barrier = now.last_barrier;
    });
    if (s.as<ir::Barrier>()) ++barriers;
    ++number;
  });
  std::set<std::size_t> before;
  for (const auto& [late, use] : uses) {
    std::int64_t free = 0;  // bytes that this barrier gives back
    for (const auto& [early, other] : uses) {
      if (other.last < use.first && other.last_barrier == use.first_barrier)
        free += ir::buffer_bytes(early);
    }
    if (std::min(free, ir::buffer_bytes(late)) >= ir::kReusedShared) before.insert(use.first);
  }
  return before.empty() ? body : AddBarriers(before)(body);
}

class ReuseShared final : public ir::Mutator {
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    if (loop.loop_kind != ir::LoopKind::kThreadX) return Mutator::rewrite(s, loop);
    const ir::Stmt body = reuse_in_body(loop.body);
    return body.same_as(loop.body) ? s : ir::For::make(loop.var, loop.extent, loop.loop_kind, body);
  }
};

}  // namespace

ir::Stmt reuse_shared(const ir::Stmt& s) { return ReuseShared()(s); }

}  // namespace tessera::lower
