#include "tessera/lang/ir/shared_places.h"

#include <algorithm>
#include <map>

#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::ir {
namespace {

// Barriers before the first and before the last use.
struct Lifetime {
  std::int64_t first = -1, last = -1;
  bool meets(const Lifetime& o) const { return first <= o.last && o.first <= last; }
};

std::map<Buffer, Lifetime> lifetimes(const Launch& launch) {
  std::map<Buffer, Lifetime> out;
  std::int64_t barriers = 0;
  for_each_outer_stmt(launch.body, [&](const Stmt& s) {
    if (s.as<Barrier>()) {
      ++barriers;
      return;
    }
    for_each_shared(s, [&](const Buffer& b) {
      Lifetime& life = out[b];
      if (life.first < 0) life.first = barriers;
      life.last = barriers;
    });
  });
  return out;
}

}  // namespace

void for_each_outer_stmt(const Stmt& body, const std::function<void(const Stmt&)>& use) {
  if (!body) return;
  if (const auto* block = body.as<Block>()) {
    for (const Stmt& child : block->stmts) for_each_outer_stmt(child, use);
  } else if (const auto* alloc = body.as<Allocate>()) {
    for_each_outer_stmt(alloc->body, use);
  } else {
    use(body);
  }
}

void for_each_shared(const Stmt& s, const std::function<void(const Buffer&)>& use) {
  for_each_stmt(s, [&](const Stmt& x) {
    const auto* store = x.as<Store>();
    if (store && store->buffer->scope == Scope::kShared) use(store->buffer);
  });
  for_each_expr(s, [&](const Expr& e) {
    const auto* load = e.as<Load>();
    if (load && load->buffer->scope == Scope::kShared) use(load->buffer);
  });
}

SharedPlaces place_shared(const Launch& launch) {
  SharedPlaces out;
  if (launch.shared.empty()) return out;
  for_each_expr(launch.body, [&](const Expr& e) {
    if (is_group_product(e)) out.align = kTileAlign;
  });
  std::map<Buffer, Lifetime> life;
  if (launch.shared.size() > 1) life = lifetimes(launch);
  const auto up = [&](std::int64_t n) { return (n + out.align - 1) / out.align * out.align; };
  std::int64_t all = 0;
  for (std::size_t i = 0; i < launch.shared.size(); ++i) {
    const std::int64_t bytes = up(buffer_bytes(launch.shared[i]));
    // The lowest place that none of the others is in at the same time.
    std::int64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t j = 0; j < i; ++j) {
        const std::int64_t end = out.offsets[j] + up(buffer_bytes(launch.shared[j]));
        if (at < end && out.offsets[j] < at + bytes &&
            life[launch.shared[i]].meets(life[launch.shared[j]])) {
          at = end;
          moved = true;
        }
      }
    }
    out.offsets.push_back(at);
    out.bytes = std::max(out.bytes, at + bytes);
    all += bytes;
  }
  out.overlap = out.bytes < all;
  return out;
}

}  // namespace tessera::ir
