// What schedule steps are made of, for the wire: a new kind of step needs its line here.
#pragma once

#include <utility>

#include "tessera/scheduling/schedule/step.h"
#include "tessera/trials/measure/wire.h"

namespace tessera::measure {

#define TESSERA_FIELDS(type, ...)        \
  template <class A>                     \
  void fields(A& a, schedule::type& s) { \
    a(__VA_ARGS__);                      \
  }
TESSERA_FIELDS(LayoutDim, s.dim, s.divisor, s.modulus)
TESSERA_FIELDS(Split, s.stage, s.iter, s.lengths, s.from_outer, s.tail)
TESSERA_FIELDS(FollowSplit, s.stage, s.iter, s.source, s.parts, s.tail)
TESSERA_FIELDS(FollowFusedSplit, s.stage, s.iter, s.level, s.sources, s.from_outer)
TESSERA_FIELDS(Fuse, s.stage, s.iters)
TESSERA_FIELDS(Reorder, s.stage, s.iters)
TESSERA_FIELDS(Annotate, s.stage, s.iter, s.annotation)
TESSERA_FIELDS(Tensorize, s.stage, s.iter, s.intrinsic)
TESSERA_FIELDS(Pragma, s.stage, s.iter, s.key, s.value)
TESSERA_FIELDS(ComputeAt, s.stage, s.target, s.iter)
TESSERA_FIELDS(ComputeInline, s.stage)
TESSERA_FIELDS(ComputeRoot, s.stage)
TESSERA_FIELDS(CacheRead, s.buffer, s.scope, s.readers)
TESSERA_FIELDS(CacheWrite, s.stage, s.scope)
TESSERA_FIELDS(RFactor, s.stage, s.iter, s.axis)
TESSERA_FIELDS(StorageAlign, s.stage, s.dim, s.factor, s.offset)
TESSERA_FIELDS(SetLayout, s.buffer, s.layout)
TESSERA_FIELDS(PrefetchStep, s.stage, s.iter, s.buffer, s.distance)
#undef TESSERA_FIELDS

// The step of the index-th kind with nothing in it; of an index that is none the first.
template <std::size_t... I>
schedule::Step empty_step(std::size_t index, std::index_sequence<I...>) {
  schedule::Step out;
  ((I == index ? (void)out.emplace<I>() : void()), ...);
  return out;
}

template <class A>
void fields(A& a, schedule::Step& step) {
  auto kind = static_cast<std::uint64_t>(step.index());
  a(kind);
  if (kind != step.index()) {
    constexpr std::size_t kKinds = std::variant_size_v<schedule::Step>;
    step = empty_step(static_cast<std::size_t>(kind), std::make_index_sequence<kKinds>());
  }
  std::visit([&](auto& s) { fields(a, s); }, step);
}

template <class A>
void fields(A& a, schedule::Schedule& schedule) {
  a(schedule.steps);
}

}  // namespace tessera::measure
