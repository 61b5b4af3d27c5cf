#include "tessera/scheduling/feature/expression.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/support/dtype.h"

namespace tessera::feature {
namespace {

using Kind = IndexNode::Kind;

constexpr std::size_t kMaxVisits = 1 << 18;
constexpr std::size_t kFirstSlots = 64;  // a power of two
// Beyond every extent, far from overflow.
constexpr double kFar = 1e15;

class Analyser {
 public:
  Analyser(const schedule::State& state, Expression* out)
      : state_(state), out_(*out), known_(kFirstSlots, -1, out->nodes.get_allocator()) {}

  bool run(const schedule::Stage& stage) {
    const te::Op& op = stage.op;
    for (const te::Axis& a : op.axes) push_axis(a);
    for (const te::Axis& a : op.reduce_axes) push_axis(a);
    for (const ir::Expr& v : op.values) {
      if (op.reducer == te::Reducer::kNone) {
        value(v, false);
      } else {
        reduction(op, v);
      }
    }
    return visits_ < kMaxVisits;
  }

 private:
  struct Binding {
    const ir::ExprNode* var;
    int node;
  };

  void push_axis(const te::Axis& a) {
    const int id = add({.kind = Kind::kAxis, .a = static_cast<int>(out_.nodes.size())});
    bindings_.push_back({a.var.get(), id});
  }

  // Reads of neighbouring elements, as of the tiles of a transform, share most of their indices.
  int add(const IndexNode& node) {
    if (2 * out_.nodes.size() >= known_.size()) grow();
    int& slot = known_[slot_of(node)];
    if (slot < 0) {
      slot = static_cast<int>(out_.nodes.size());
      out_.nodes.push_back(node);
    }
    return slot;
  }

  // Where the node is known, or would be.
  std::size_t slot_of(const IndexNode& n) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &n.value, sizeof(bits));
    std::uint64_t hash = bits ^ (static_cast<std::uint64_t>(n.kind) << 56);
    hash ^= (static_cast<std::uint64_t>(n.a) << 24) + static_cast<std::uint64_t>(n.b);
    hash *= 0x9e3779b97f4a7c15;
    std::size_t slot = (hash >> 32) & (known_.size() - 1);
    while (known_[slot] >= 0 && !(out_.nodes[static_cast<std::size_t>(known_[slot])] == n))
      slot = (slot + 1) & (known_.size() - 1);
    return slot;
  }

  void grow() {
    known_.assign(2 * known_.size(), -1);
    for (std::size_t i = 0; i < out_.nodes.size(); ++i)
      known_[slot_of(out_.nodes[i])] = static_cast<int>(i);
  }

  // The update acc = acc op value.
  void reduction(const te::Op& op, const ir::Expr& v) {
    OpCounts& counts = is_float(v.dtype()) ? out_.float_ops : out_.int_ops;
    if (op.reducer == te::Reducer::kSum) {
      if (take_product(v, false)) {
        counts.mad += 1;
        return;
      }
      counts.add += 1;
    } else if (op.reducer == te::Reducer::kProd) {
      counts.mul += 1;
    } else {
      counts.compare += 1;
    }
    value(v, false);
  }

  // Visits the factors of a product that a sum can take in.
  bool take_product(const ir::Expr& e, bool conditional) {
    const auto* product = e.as<ir::Binary>();
    if (!product || product->op != ir::BinaryOp::kMul) return false;
    value(product->a, conditional);
    value(product->b, conditional);
    return true;
  }

  // Counts the operations of e and notes what it reads.
  void value(const ir::Expr& e, bool conditional) {
    if (++visits_ >= kMaxVisits) return;
    switch (e.kind()) {
      case ir::ExprKind::kBinary:
        return binary(*e.as<ir::Binary>(), conditional);
      case ir::ExprKind::kSelect: {
        const auto& node = *e.as<ir::Select>();
        out_.select_ops += 1;
        value(node.cond, conditional);
        value(node.on_true, true);
        return value(node.on_false, true);
      }
      case ir::ExprKind::kCast:
        return value(e.as<ir::Cast>()->value, conditional);
      case ir::ExprKind::kLoad:
        return load(*e.as<ir::Load>(), conditional);
      case ir::ExprKind::kCall:
        return call(*e.as<ir::Call>(), conditional);
      case ir::ExprKind::kRamp:
        return value(e.as<ir::Ramp>()->base, conditional);
      case ir::ExprKind::kBroadcast:
        return value(e.as<ir::Broadcast>()->value, conditional);
      case ir::ExprKind::kShuffle:
        return value(e.as<ir::Shuffle>()->value, conditional);
      case ir::ExprKind::kIntImm:
      case ir::ExprKind::kFloatImm:
      case ir::ExprKind::kVar:
        return;
    }
  }

  void binary(const ir::Binary& node, bool conditional) {
    if (node.a.dtype() == DType::kBool) {
      out_.bool_ops += 1;
      value(node.a, conditional);
      return value(node.b, conditional);
    }
    OpCounts& counts = is_float(node.a.dtype()) ? out_.float_ops : out_.int_ops;
    switch (node.op) {
      case ir::BinaryOp::kAdd:
      case ir::BinaryOp::kSub:
        if (take_product(node.b, conditional)) {
          counts.mad += 1;
          return value(node.a, conditional);
        }
        if (take_product(node.a, conditional)) {
          counts.mad += 1;
          return value(node.b, conditional);
        }
        counts.add += 1;
        break;
      case ir::BinaryOp::kMul:
        counts.mul += 1;
        break;
      case ir::BinaryOp::kDiv:
      case ir::BinaryOp::kMod:
      case ir::BinaryOp::kFloorDiv:
      case ir::BinaryOp::kFloorMod:
        counts.div += 1;
        break;
      case ir::BinaryOp::kMin:
      case ir::BinaryOp::kMax:
      case ir::BinaryOp::kEq:
      case ir::BinaryOp::kNe:
      case ir::BinaryOp::kLt:
      case ir::BinaryOp::kLe:
        counts.compare += 1;
        break;
      case ir::BinaryOp::kAnd:
      case ir::BinaryOp::kOr:
      case ir::BinaryOp::kXor:
      case ir::BinaryOp::kShl:
      case ir::BinaryOp::kShr:
        counts.other += 1;
        break;
    }
    value(node.a, conditional);
    value(node.b, conditional);
  }

  void call(const ir::Call& node, bool conditional) {
    const bool floating = !node.args.empty() && is_float(node.args[0].dtype());
    OpCounts& counts = floating ? out_.float_ops : out_.int_ops;
    switch (node.fn) {
      case ir::Intrinsic::kFma:
        counts.mad += 1;
        break;
      case ir::Intrinsic::kNot:
        out_.bool_ops += 1;
        break;
      case ir::Intrinsic::kAbs:
      case ir::Intrinsic::kFloor:
      case ir::Intrinsic::kCeil:
      case ir::Intrinsic::kRound:
      case ir::Intrinsic::kTrunc:
      case ir::Intrinsic::kIsNan:
      case ir::Intrinsic::kIsInf:
      case ir::Intrinsic::kBitcast:
        counts.other += 1;
        break;
      default:
        counts.math += 1;
    }
    for (const ir::Expr& a : node.args) value(a, conditional);
  }

  void load(const ir::Load& node, bool conditional) {
    const std::size_t rank = node.indices.size();
    // Indices of a read may hold reads themselves: only the finished list is appended.
    int local[16];
    std::vector<int> more;
    int* index_of = local;
    if (rank > std::size(local)) {
      more.resize(rank);
      index_of = more.data();
    }
    for (std::size_t d = 0; d < rank; ++d) index_of[d] = index(node.indices[d], conditional);
    if (const schedule::Stage* inlined = inlined_producer(node.buffer)) {
      const te::Op& op = inlined->op;
      const auto o = static_cast<std::size_t>(
          std::find(op.outputs.begin(), op.outputs.end(), node.buffer) - op.outputs.begin());
      const std::size_t frame = bindings_.size();
      for (std::size_t d = 0; d < rank; ++d)
        bindings_.push_back({op.axes[d].var.get(), index_of[d]});
      value(op.values[o], conditional);
      bindings_.resize(frame);
      return;
    }
    out_.reads.push_back({.buffer = node.buffer.get(),
                          .first_index = static_cast<int>(out_.indices.size()),
                          .conditional = conditional});
    out_.indices.insert(out_.indices.end(), index_of, index_of + rank);
  }

  const schedule::Stage* inlined_producer(const ir::Buffer& buffer) const {
    for (const schedule::Stage& s : state_.stages) {
      if (s.attach.kind != schedule::Attach::Kind::kInline) continue;
      for (const ir::Buffer& b : s.op.outputs) {
        if (b == buffer) return &s;
      }
    }
    return nullptr;
  }

  // The node that computes index expression e; its operations count as integer ones.
  int index(const ir::Expr& e, bool conditional) {
    if (++visits_ >= kMaxVisits) return add({.kind = Kind::kUnknown});
    if (const auto* imm = e.as<ir::IntImm>()) {
      return add({.kind = Kind::kConst, .value = static_cast<double>(imm->value)});
    }
    if (e.as<ir::Var>()) {
      for (std::size_t i = bindings_.size(); i-- > 0;) {
        if (bindings_[i].var == e.get()) return bindings_[i].node;
      }
      return add({.kind = Kind::kUnknown});
    }
    if (const auto* node = e.as<ir::Select>()) {
      value(node->cond, conditional);
      out_.select_ops += 1;
      const int a = index(node->on_true, true);
      const int b = index(node->on_false, true);
      return add({.kind = Kind::kEither, .a = a, .b = b});
    }
    if (const auto* node = e.as<ir::Cast>(); node && !is_float(node->value.dtype())) {
      return index(node->value, conditional);
    }
    if (const auto* node = e.as<ir::Binary>()) return index_binary(e, *node, conditional);
    value(e, conditional);
    return add({.kind = Kind::kUnknown});
  }

  int index_binary(const ir::Expr& e, const ir::Binary& node, bool conditional) {
    Kind kind = Kind::kUnknown;
    switch (node.op) {
      case ir::BinaryOp::kAdd:
        kind = Kind::kAdd;
        out_.int_ops.add += 1;
        break;
      case ir::BinaryOp::kSub:
        kind = Kind::kSub;
        out_.int_ops.add += 1;
        break;
      case ir::BinaryOp::kMul:
        kind = Kind::kMul;
        out_.int_ops.mul += 1;
        break;
      case ir::BinaryOp::kDiv:
      case ir::BinaryOp::kFloorDiv:
        kind = Kind::kFloorDiv;
        out_.int_ops.div += 1;
        break;
      case ir::BinaryOp::kMod:
      case ir::BinaryOp::kFloorMod:
        kind = Kind::kFloorMod;
        out_.int_ops.div += 1;
        break;
      case ir::BinaryOp::kMin:
        kind = Kind::kMin;
        out_.int_ops.compare += 1;
        break;
      case ir::BinaryOp::kMax:
        kind = Kind::kMax;
        out_.int_ops.compare += 1;
        break;
      default:
        value(e, conditional);
        return add({.kind = Kind::kUnknown});
    }
    out_.index_ops += 1;
    const int a = index(node.a, conditional);
    const int b = index(node.b, conditional);
    return add({.kind = kind, .a = a, .b = b});
  }

  const schedule::State& state_;
  Expression& out_;
  std::vector<Binding> bindings_;
  std::pmr::vector<int> known_;  // slots of a table of the nodes; -1: free
  std::size_t visits_ = 0;
};

double clamp(double x) { return std::clamp(x, -kFar, kFar); }

Interval divide(const Interval& x, const Interval& by) {
  if (by.lo != by.hi || by.lo < 1) return {-kFar, kFar};
  return {std::floor(x.lo / by.lo), std::floor(x.hi / by.lo)};
}

Interval modulo(const Interval& x, const Interval& by) {
  if (by.lo != by.hi || by.lo < 1) return {-kFar, kFar};
  const double m = by.lo;
  if (std::floor(x.lo / m) != std::floor(x.hi / m)) return {0, m - 1};
  return {x.lo - m * std::floor(x.lo / m), x.hi - m * std::floor(x.hi / m)};
}

Interval product(const Interval& x, const Interval& y) {
  const double p[] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
  return {clamp(*std::min_element(p, p + 4)), clamp(*std::max_element(p, p + 4))};
}

}  // namespace

bool analyse(const schedule::State& state, const schedule::Stage& stage, Expression* out) {
  return Analyser(state, out).run(stage);
}

void evaluate(const std::pmr::vector<IndexNode>& nodes, const double* axes, double* values) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const IndexNode& n = nodes[i];
    const double a = values[n.a];
    const double b = values[n.b];
    double& v = values[i];
    switch (n.kind) {
      case Kind::kAxis:
        v = axes[n.a];
        break;
      case Kind::kConst:
        v = clamp(n.value);
        break;
      case Kind::kAdd:
        v = clamp(a + b);
        break;
      case Kind::kSub:
        v = clamp(a - b);
        break;
      case Kind::kMul:
        v = clamp(a * b);
        break;
      case Kind::kFloorDiv:
        v = b < 1 ? 0 : std::floor(a / b);
        break;
      case Kind::kFloorMod:
        v = b < 1 ? 0 : a - b * std::floor(a / b);
        break;
      case Kind::kMin:
        v = std::min(a, b);
        break;
      case Kind::kMax:
        v = std::max(a, b);
        break;
      case Kind::kEither:
        v = a;
        break;
      case Kind::kUnknown:
        v = 0;
        break;
    }
  }
}

void bound(const std::pmr::vector<IndexNode>& nodes, const Interval* axes, Interval* bounds) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const IndexNode& n = nodes[i];
    const Interval& a = bounds[n.a];
    const Interval& b = bounds[n.b];
    Interval& v = bounds[i];
    switch (n.kind) {
      case Kind::kAxis:
        v = axes[n.a];
        break;
      case Kind::kConst:
        v = {clamp(n.value), clamp(n.value)};
        break;
      case Kind::kAdd:
        v = {clamp(a.lo + b.lo), clamp(a.hi + b.hi)};
        break;
      case Kind::kSub:
        v = {clamp(a.lo - b.hi), clamp(a.hi - b.lo)};
        break;
      case Kind::kMul:
        v = product(a, b);
        break;
      case Kind::kFloorDiv:
        v = divide(a, b);
        break;
      case Kind::kFloorMod:
        v = modulo(a, b);
        break;
      case Kind::kMin:
        v = {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        break;
      case Kind::kMax:
        v = {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        break;
      case Kind::kEither:
        v = {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
        break;
      case Kind::kUnknown:
        v = {-kFar, kFar};
        break;
    }
  }
}

}  // namespace tessera::feature
