#include "tessera/scheduling/space/gpu/gpu_split_k.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kSumThreads = 128;
constexpr std::int64_t kSumLanes = 4;

}  // namespace

GpuSum cut_gpu_sum(Context& x, const Contraction& c, const Nest& nest, std::size_t cut,
                   std::int64_t parts) {
  Writer& w = x.writer;
  const Stage& s = x.stage(c.stage);
  const std::string& name = s.op.name;
  GpuSum sum{.cut = s.axis_name(cut)};
  if (parts > 1) {
    const Loops loops = w.split(name, sum.cut, {s.extent(cut) / parts}, schedule::Tail::kGuard);
    sum.part = loops[0];
    sum.cut = loops[1];
    sum.launch = w.rfactor(name, sum.part, 0);
    sum.inner = w.cache_write(sum.launch, "local");
    return sum;
  }
  sum.launch = x.stage(nest.stage).op.name;
  sum.inner = nest.stage == c.stage ? w.cache_write(name, "local") : name;
  return sum;
}

GpuSum stage_gpu_sum(Context& x, const Contraction& c, const Nest& nest, std::size_t cut) {
  Writer& w = x.writer;
  const Stage& s = x.stage(c.stage);
  GpuSum sum{.cut = s.axis_name(cut)};
  sum.launch = w.cache_write(s.op.name, "shared");
  if (nest.stage != c.stage) w.compute_inline(s.op.name);
  sum.inner = w.cache_write(sum.launch, "local");
  return sum;
}

Loops gpu_untiled_loops(const Context& x, const Contraction& c) {
  const Stage& s = x.stage(c.stage);
  Loops out;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (i != c.vector && static_cast<int>(i) != c.row) out.push_back(s.axis_name(i));
  }
  return out;
}

Loops gpu_spread_loops(const Context& x, const Nest& nest, const std::string& part) {
  Loops out;
  if (!part.empty()) return out;
  for (const std::size_t i : nest.spread) out.push_back(x.stage(nest.stage).axis_name(i));
  return out;
}

Loops gpu_block_loops(const Context& x, const Contraction& c, const Nest& nest,
                      const std::string& part) {
  const Stage &s = x.stage(c.stage), &h = x.stage(nest.stage);
  Loops blocks;
  if (!part.empty()) {
    blocks.push_back(part);
  } else {
    std::vector<bool> mapped(h.rank(), false);
    for (const auto* axes : {&nest.axis, &nest.spread}) {
      for (const std::size_t a : *axes) mapped[a] = true;
    }
    for (std::size_t i = 0; i < h.rank(); ++i) {
      if (!mapped[i]) blocks.push_back(h.axis_name(i));
    }
  }
  for (const auto* axes : {&c.units, &c.batch, &c.rows, &c.columns}) {
    for (const std::size_t i : *axes)
      blocks.push_back(part.empty() ? h.axis_name(nest.axis[i]) : s.axis_name(i));
  }
  return blocks;
}

void add_split_k(Context& x, const Contraction& c, const Nest& nest, const std::string& part) {
  const bool self = nest.stage == c.stage;
  const auto vectors = static_cast<std::int64_t>(x.stage(nest.stage).elements()) / kSumLanes;
  const std::int64_t threads = spread_gpu_threads(x, vectors, kSumThreads);
  const GpuElements loops =
      bind_gpu_elements(x, nest.stage, threads, kSumLanes, self ? Loops{part} : Loops{},
                        gpu_spread_loops(x, nest, ""));
  if (self) {
    x.writer.unroll(x.stage(c.stage).op.name, part);
  } else {
    add_split_k_at(x, c, nest, part, loops.thread, loops.lanes > 1);
  }
}

void add_split_k_at(Context& x, const Contraction& c, const Nest& nest, const std::string& part,
                    const std::string& thread, bool vectors) {
  Writer& w = x.writer;
  const Stage& s = x.stage(c.stage);
  const std::string& name = s.op.name;
  w.compute_at(name, x.stage(nest.stage).op.name, thread);
  Loops order = {part};
  for (std::size_t i = 0; i < s.rank(); ++i) order.push_back(s.axis_name(i));
  w.reorder(name, order);
  w.unroll(name, part);
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (i == c.vector && vectors) {
      w.vectorize(name, s.axis_name(i));
    } else {
      w.unroll(name, s.axis_name(i));
    }
  }
}

}  // namespace tessera::space
