// Structural equality and hashing.
#include <bit>
#include <functional>
#include <unordered_map>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"

namespace tessera::ir {
namespace {

// Compares trees; bound variables and allocated buffers of `a` correspond to those of `b`.
class Equality {
 public:
  bool operator()(const Expr& a, const Expr& b) {
    if (a.same_as(b) && pairs_.empty()) return true;
    if (!a || !b) return !a && !b;
    if (a.kind() != b.kind() || a.type() != b.type()) return false;
    switch (a.kind()) {
#define TESSERA_V(name)   \
  case ExprKind::k##name: \
    return same(*a.as<name>(), *b.as<name>());
      TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
    }
    return false;
  }

  bool operator()(const Stmt& a, const Stmt& b) {
    if (!a || !b) return !a && !b;
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
#define TESSERA_V(name)   \
  case StmtKind::k##name: \
    return same(*a.as<name>(), *b.as<name>());
      TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
    }
    return false;
  }

  bool bind(const Buffer& a, const Buffer& b) {
    if (a->dtype != b->dtype || a->shape != b->shape || a->scope != b->scope) return false;
    bind_nodes(a.get(), b.get());
    return true;
  }

  bool bind(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!bind(a[i], b[i])) return false;
    }
    return true;
  }

  bool operator()(const Launch& a, const Launch& b) {
    if (a.name != b.name || a.num_outputs != b.num_outputs || a.grid != b.grid ||
        a.block != b.block || a.warp != b.warp || a.params.size() != b.params.size()) {
      return false;
    }
    for (std::size_t i = 0; i < a.params.size(); ++i) {
      if (!matched(a.params[i].get(), b.params[i].get())) return false;
    }
    for (std::size_t d = 0; d < 3; ++d) {
      bind_nodes(a.block_vars[d].get(), b.block_vars[d].get());
      bind_nodes(a.thread_vars[d].get(), b.thread_vars[d].get());
    }
    return bind(a.shared, b.shared) && (*this)(a.body, b.body);
  }

 private:
  void bind_nodes(const void* a, const void* b) {
    pairs_[a] = b;
    images_[b] = a;
  }

  bool matched(const void* a, const void* b) const {
    const auto pair = pairs_.find(a);
    const auto image = images_.find(b);
    if (pair == pairs_.end() && image == images_.end()) return a == b;
    return pair != pairs_.end() && image != images_.end() && pair->second == b &&
           image->second == a;
  }

  bool all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(*this)(a[i], b[i])) return false;
    }
    return true;
  }

  bool same(const IntImm& a, const IntImm& b) { return a.value == b.value; }
  bool same(const FloatImm& a, const FloatImm& b) {  // bits: -0 differs from 0, NaN equals itself
    return std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
  }
  bool same(const Var& a, const Var& b) { return matched(&a, &b); }
  bool same(const Binary& a, const Binary& b) {
    return a.op == b.op && (*this)(a.a, b.a) && (*this)(a.b, b.b);
  }
  bool same(const Select& a, const Select& b) {
    return (*this)(a.cond, b.cond) && (*this)(a.on_true, b.on_true) &&
           (*this)(a.on_false, b.on_false);
  }
  bool same(const Cast& a, const Cast& b) { return (*this)(a.value, b.value); }
  bool same(const Load& a, const Load& b) {
    return matched(a.buffer.get(), b.buffer.get()) && all(a.indices, b.indices);
  }
  bool same(const Ramp& a, const Ramp& b) {
    return a.stride == b.stride && (*this)(a.base, b.base);
  }
  bool same(const Broadcast& a, const Broadcast& b) { return (*this)(a.value, b.value); }
  bool same(const Shuffle& a, const Shuffle& b) {
    return a.picks == b.picks && (*this)(a.value, b.value);
  }
  bool same(const Call& a, const Call& b) { return a.fn == b.fn && all(a.args, b.args); }

  bool same(const For& a, const For& b) {
    if (a.loop_kind != b.loop_kind || a.var.type() != b.var.type() || !(*this)(a.extent, b.extent))
      return false;
    bind_nodes(a.var.get(), b.var.get());
    return (*this)(a.body, b.body);
  }
  bool same(const Store& a, const Store& b) {
    return matched(a.buffer.get(), b.buffer.get()) && all(a.indices, b.indices) &&
           (*this)(a.value, b.value);
  }
  bool same(const Block& a, const Block& b) {
    if (a.stmts.size() != b.stmts.size()) return false;
    for (std::size_t i = 0; i < a.stmts.size(); ++i) {
      if (!(*this)(a.stmts[i], b.stmts[i])) return false;
    }
    return true;
  }
  bool same(const If& a, const If& b) {
    return (*this)(a.cond, b.cond) && (*this)(a.then_body, b.then_body) &&
           (*this)(a.else_body, b.else_body);
  }
  bool same(const Allocate& a, const Allocate& b) {
    return bind(a.buffer, b.buffer) && (*this)(a.body, b.body);
  }
  bool same(const Evaluate& a, const Evaluate& b) { return (*this)(a.value, b.value); }
  bool same(const Barrier&, const Barrier&) { return true; }

  std::unordered_map<const void*, const void*> pairs_;
  std::unordered_map<const void*, const void*> images_;
};

std::size_t mix(std::size_t seed, std::size_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15u + (seed >> 29);
}

std::size_t mix_all(std::size_t seed, const std::vector<Expr>& list) {
  for (const Expr& e : list) seed = mix(seed, hash(e));
  return seed;
}

std::size_t pointer_bits(const void* p) { return std::hash<const void*>()(p); }

}  // namespace

bool equal(const Expr& a, const Expr& b) { return a.same_as(b) || Equality()(a, b); }
bool equal(const Stmt& a, const Stmt& b) { return a.same_as(b) || Equality()(a, b); }

bool equal(const Func& a, const Func& b) {
  Equality same;
  return a.name == b.name && a.num_outputs == b.num_outputs && same.bind(a.params, b.params) &&
         same(a.body, b.body);
}

bool equal(const DeviceProgram& a, const DeviceProgram& b) {
  Equality same;
  if (a.name != b.name || a.num_outputs != b.num_outputs || !same.bind(a.params, b.params) ||
      !same.bind(a.temporaries, b.temporaries) || a.launches.size() != b.launches.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.launches.size(); ++i) {
    if (!same(a.launches[i], b.launches[i])) return false;
  }
  return true;
}

std::size_t hash(const Expr& e) {
  if (!e) return 0;
  const std::size_t h =
      mix(static_cast<std::size_t>(e.kind()),
          static_cast<std::size_t>(e.dtype()) * 4096 + static_cast<std::size_t>(e.lanes()));
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return mix(h, static_cast<std::size_t>(e.as<IntImm>()->value));
    case ExprKind::kFloatImm:
      return mix(h, std::bit_cast<std::uint64_t>(e.as<FloatImm>()->value));
    case ExprKind::kVar:
      return mix(h, pointer_bits(e.get()));
    case ExprKind::kBinary: {
      const auto& n = *e.as<Binary>();
      return mix(mix(mix(h, static_cast<std::size_t>(n.op)), hash(n.a)), hash(n.b));
    }
    case ExprKind::kSelect: {
      const auto& n = *e.as<Select>();
      return mix(mix(mix(h, hash(n.cond)), hash(n.on_true)), hash(n.on_false));
    }
    case ExprKind::kCast:
      return mix(h, hash(e.as<Cast>()->value));
    case ExprKind::kLoad:
      return mix_all(mix(h, pointer_bits(e.as<Load>()->buffer.get())), e.as<Load>()->indices);
    case ExprKind::kRamp:
      return mix(mix(h, static_cast<std::size_t>(e.as<Ramp>()->stride)), hash(e.as<Ramp>()->base));
    case ExprKind::kBroadcast:
      return mix(h, hash(e.as<Broadcast>()->value));
    case ExprKind::kShuffle: {
      std::size_t seed = mix(h, hash(e.as<Shuffle>()->value));
      for (const int pick : e.as<Shuffle>()->picks)
        seed = mix(seed, static_cast<std::size_t>(pick));
      return seed;
    }
    case ExprKind::kCall:
      return mix_all(mix(h, static_cast<std::size_t>(e.as<Call>()->fn)), e.as<Call>()->args);
  }
  return h;
}

}  // namespace tessera::ir
