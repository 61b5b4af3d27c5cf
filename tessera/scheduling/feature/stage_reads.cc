#include "tessera/scheduling/feature/stage_reads.h"

#include <algorithm>
#include <utility>

namespace tessera::feature {
namespace {

constexpr std::size_t kMostKept = 256;
constexpr std::size_t kMostOps = 64;  // bits of a mask

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

bool same_axes(const std::vector<te::Axis>& a, const std::vector<te::Axis>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const te::Axis& x, const te::Axis& y) { return x.var.get() == y.var.get(); });
}

// The very same expressions, not equal ones: what a step rewrites is made anew.
bool same_op(const te::Op& a, const te::Op& b) {
  const auto same = [](const ir::Expr& x, const ir::Expr& y) { return x.get() == y.get(); };
  return a.reducer == b.reducer && a.outputs == b.outputs &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same) &&
         same_axes(a.axes, b.axes) && same_axes(a.reduce_axes, b.reduce_axes);
}

// Groups the reads by tensor; what is written comes last.
void collect_tensors(const te::Op& op, std::pmr::memory_resource* memory, StageReads* out) {
  for (Read& r : out->expr.reads) {
    while (r.group < out->tensors.size() && out->tensors[r.group].buffer != r.buffer) ++r.group;
    if (r.group == out->tensors.size())
      out->tensors.emplace_back(r.buffer, r.buffer->shape.size(), memory).read = true;
    TensorReads& t = out->tensors[r.group];
    t.reads += 1;
    t.conditional = t.conditional || r.conditional;
    t.first_indices.push_back(r.first_index);
  }
  const bool updates = op.reducer != te::Reducer::kNone;
  for (const ir::Buffer& b : op.outputs) {
    TensorReads& t = out->tensors.emplace_back(b.get(), op.axes.size(), memory);
    t.reads = updates ? 1 : 0;
    t.read = updates;
    t.write = true;
    t.first_indices.push_back(static_cast<int>(out->expr.indices.size()));
    for (std::size_t a = 0; a < op.axes.size(); ++a)
      out->expr.indices.push_back(static_cast<int>(a));
  }
  std::pmr::vector<int> seen(out->expr.nodes.size(), -1, memory);  // where a node was added last
  int at = 0;                                                      // tensors and dimensions so far
  for (TensorReads& t : out->tensors) {
    for (std::size_t d = 0; d < t.rank; ++d, ++at) {
      for (const int first_index : t.first_indices) {
        const int node = out->expr.indices[idx(first_index) + d];
        if (std::exchange(seen[idx(node)], at) != at) t.indices.push_back(node);
      }
      t.ends.push_back(t.indices.size());
    }
  }
}

}  // namespace

bool find_reads(const schedule::State& state, const schedule::Stage& stage, StageReads* out) {
  if (!analyse(state, stage, &out->expr)) return false;
  collect_tensors(stage.op, out->expr.nodes.get_allocator().resource(), out);
  return true;
}

void ReadsCache::remember(const te::Dag& dag) {
  if (std::equal(ops_.begin(), ops_.end(), dag.ops.begin(), dag.ops.end(), same_op)) return;
  kept_.clear();
  ops_ = dag.ops;
}

int ReadsCache::number_of(const te::Op& op) const {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (same_op(ops_[i], op)) return static_cast<int>(i);
  }
  return -1;
}

void ReadsCache::look_at(const schedule::State& state) {
  if (kept_.size() > kMostKept) kept_.clear();
  inlined_ = 0;
  known_ = !ops_.empty() && ops_.size() <= kMostOps;
  for (const schedule::Stage& s : state.stages) {
    if (!known_ || s.attach.kind != schedule::Attach::Kind::kInline) continue;
    const int number = number_of(s.op);
    known_ = number >= 0;
    if (known_) inlined_ |= std::uint64_t{1} << number;
  }
}

const StageReads* ReadsCache::find(const schedule::State& state, const schedule::Stage& stage) {
  const int number = known_ ? number_of(stage.op) : -1;
  if (number < 0) return nullptr;
  const std::pair key(number, inlined_);
  if (const auto found = kept_.find(key); found != kept_.end()) return found->second.get();
  auto made = std::make_unique<StageReads>(std::pmr::get_default_resource());
  if (!find_reads(state, stage, made.get())) return nullptr;
  return (kept_[key] = std::move(made)).get();
}

}  // namespace tessera::feature
