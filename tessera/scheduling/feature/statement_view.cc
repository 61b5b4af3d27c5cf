#include "tessera/scheduling/feature/statement_view.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tessera::feature {
namespace {

using schedule::Annotation;

// Accumulator tiles beyond this stay in memory: see lowering.
constexpr double kMaxAccumulators = 1024;

double bytes_at(const Access& a, std::size_t level) { return a.elements[level] * a.element_bytes; }

// Where loop l stands among the loops of its kind: 1 inner, 2 middle, 3 outer spatial; 4..6 reduce.
std::size_t position_of(const Statement& s, std::size_t l) {
  bool inside = false, outside = false;
  for (std::size_t k = 0; k < s.loops.size(); ++k) {
    if (k == l || s.loops[k].reduce != s.loops[l].reduce) continue;
    (k < l ? outside : inside) = true;
  }
  const std::size_t place = !inside ? 0 : outside ? 1 : 2;
  return 1 + place + (s.loops[l].reduce ? 3 : 0);
}

Annotated annotated(const Statement& s, Annotation annotation) {
  Annotated out;
  for (std::size_t l = 0; l < s.loops.size(); ++l) {
    if (s.loops[l].annotation != annotation) continue;
    const std::size_t position = position_of(s, l);
    out.position = out.count == 0 || out.position == position ? position : kPositions - 1;
    out.count += 1;
    out.product = (out.count == 1 ? 1 : out.product) * s.loops[l].extent;
    out.innermost = s.loops[l].extent;
  }
  return out;
}

// Scans from the innermost loop outward for the first that meets the same elements again.
void find_reuse(const Statement& s, const LoopTotals& totals, Slot* slot) {
  const Access& a = *slot->access;
  double iterations = 1, bytes = 0;
  for (const Access& other : s.accesses) bytes += other.element_bytes;
  slot->count = 1;
  for (std::size_t l = s.loops.size(); l-- > 0;) {
    const LoopTotals::Total& total = totals.of(s.loops[l].id);
    const bool used = a.uses(l);
    if (slot->reuse == Reuse::kLoop) {
      if (used) return;
      slot->count *= s.loops[l].extent;
      continue;
    }
    if (!used) {
      slot->reuse = Reuse::kLoop;
      slot->distance_iterations = iterations;
      slot->distance_bytes = bytes;
      slot->count = s.loops[l].extent;
      continue;
    }
    iterations *= s.loops[l].extent;
    bytes = total.bytes;
    for (const LoopTotals::Touch& t : total.touches) {
      if (t.buffer != a.buffer || t.statements < 2) continue;
      slot->reuse = Reuse::kSerial;
      slot->distance_iterations = t.min_elements / s.loops[l].extent;
      slot->distance_bytes = total.bytes / s.loops[l].extent;
      slot->count = t.statements - 1;
      return;
    }
  }
  if (slot->reuse == Reuse::kNone) slot->count = 0;
}

// Lines that all iterations together fetch when nothing but the innermost moving loop stays.
double lines_of(const Statement& s, const Access& a, double line_bytes) {
  double repeats = 1;
  for (std::size_t l = s.loops.size(); l-- > 0;) {
    const double step = std::abs(a.stride[l]) * a.element_bytes;
    if (step != 0) return std::max(1.0, s.points / repeats * std::min(1.0, step / line_bytes));
    repeats *= s.loops[l].extent;
  }
  return 1;
}

Slot make_slot(const Statement& s, const Access& a, const LoopTotals& totals, double line_bytes) {
  Slot slot{.access = &a};
  slot.bytes = s.points * a.element_bytes;
  slot.unique_bytes = bytes_at(a, 0);
  slot.lines = lines_of(s, a, line_bytes);
  slot.unique_lines = a.lines[0];
  slot.stride = s.loops.empty() ? 0 : std::abs(a.stride.back());
  find_reuse(s, totals, &slot);
  return slot;
}

void fill_slots(const Statement& s, const LoopTotals& totals, double line_bytes,
                std::pmr::memory_resource* memory, StatementView* view) {
  std::pmr::vector<Slot> all(memory);
  all.reserve(s.accesses.size());
  for (const Access& a : s.accesses) all.push_back(make_slot(s, a, totals, line_bytes));
  std::stable_sort(all.begin(), all.end(), [](const Slot& a, const Slot& b) {
    return std::tuple(a.lines, a.bytes, a.unique_bytes) >
           std::tuple(b.lines, b.bytes, b.unique_bytes);
  });
  for (std::size_t i = 0; i < std::min(kSlots, all.size()); ++i) view->slots[i] = all[i];
}

// Operations per byte at ten even steps of log2(operations) between none and all.
void fill_curve(const Statement& s, const LoopTotals& totals, StatementView* view) {
  const std::size_t depth = s.loops.size();
  if (s.work <= 0 || depth == 0) return;
  const auto x = [&](std::size_t l) { return std::log2(totals.of(s.loops[l].id).work); };
  const auto y = [&](std::size_t l) {
    const LoopTotals::Total& t = totals.of(s.loops[l].id);
    return t.work / std::max(1.0, t.bytes);
  };
  const double last = x(0);
  std::size_t l = depth - 1;
  double x_here = x(l), y_here = y(l), x_inner = x_here, y_inner = y_here;
  for (std::size_t n = 0; n < kCurveSamples; ++n) {
    const double at = last * static_cast<double>(n + 1) / kCurveSamples;
    while (l > 0 && x_here < at - 1e-4) {
      x_inner = x_here;
      y_inner = y_here;
      --l;
      x_here = x(l);
      y_here = y(l);
    }
    const double span = x_here - x_inner;
    const double part = l + 1 == depth || span <= 0 ? 1 : (at - x_inner) / span;
    view->curve[n] = y_inner + (y_here - y_inner) * std::clamp(part, 0.0, 1.0);
  }
}

// Bytes that come from beyond a cache: at the outermost level whose data fits, each tensor is
// fetched again for every iteration outside that selects other elements, and for all around those.
void fill_traffic(const Statement& s, const LoopTotals& totals, double capacity, double* traffic,
                  double* work) {
  std::size_t level = s.loops.size();
  while (level > 0 && totals.of(s.loops[level - 1].id).bytes <= capacity) --level;
  *work = level < s.loops.size() ? totals.of(s.loops[level].id).work : s.work;
  *traffic = 0;
  for (const Access& a : s.accesses) {
    double bytes = bytes_at(a, level);
    bool moved = false;
    for (std::size_t l = level; l-- > 0;) {
      moved = moved || a.uses(l);
      if (moved) bytes *= s.loops[l].extent;
    }
    *traffic += bytes;
  }
}

bool straight(Annotation a) {
  return a == Annotation::kUnroll || a == Annotation::kVectorize || a == Annotation::kTensorize;
}

// Mirrors how lowering keeps a tile of the result in registers across reduce loops.
double accumulator_tile(const Statement& s) {
  std::size_t first_reduce = s.loops.size();
  for (std::size_t l = s.loops.size(); l-- > s.own;) {
    if (s.loops[l].reduce) first_reduce = l;
  }
  double elements = 1;
  bool reduces = false;
  for (std::size_t l = s.loops.size(); l-- > first_reduce;) {
    const Loop& loop = s.loops[l];
    if (!loop.reduce && !straight(loop.annotation)) break;
    if (!loop.reduce) elements *= loop.extent;
    reduces = reduces || loop.reduce;
  }
  return reduces && elements <= kMaxAccumulators ? elements : 0;
}

Body find_body(const Statement& s, const target::Target& target) {
  Body body;
  double result_bytes = 1;
  for (const Access& a : s.accesses) {
    if (a.write) result_bytes = a.element_bytes;
  }
  body.lanes = std::max(1.0, target.vector_bytes / result_bytes);
  std::size_t vector_loop = s.loops.size();
  body.level = s.loops.size();
  while (body.level > s.own) {
    const Loop& loop = s.loops[body.level - 1];
    const double points = body.points * loop.extent;
    if (!straight(loop.annotation) &&
        (loop.annotation != Annotation::kNone || points > s.max_unroll)) {
      break;
    }
    --body.level;
    body.points = points;
    if (loop.annotation == Annotation::kVectorize && vector_loop == s.loops.size())
      vector_loop = body.level;
  }
  const bool vectorized = vector_loop < s.loops.size();
  const double length = vectorized ? s.loops[vector_loop].extent : 1;
  body.vectors = body.points / length * std::ceil(length / body.lanes);
  for (const Access& a : s.accesses) {
    const double stride = vectorized ? std::abs(a.stride[vector_loop]) : 0;
    if (a.write) body.unit_stride_store = vectorized && stride == 1 ? 1 : 0;
    if (!a.read || a.write) continue;
    const double elements = a.elements[body.level];
    if (vectorized && stride == 1) {
      body.vector_loads += std::ceil(elements / body.lanes);
    } else if (stride == 0) {
      body.broadcasts += elements;
    } else {
      body.gathers += elements;
    }
  }
  body.accumulators = accumulator_tile(s);
  body.accumulator_vectors =
      vectorized ? body.accumulators / length * std::ceil(length / body.lanes) : body.accumulators;
  return body;
}

Ahead find_ahead(const Statement& s) {
  Ahead out;
  for (const schedule::Prefetch& p : s.stage->prefetches) {
    double visits = 1;
    for (std::size_t l = 0; l < s.loops.size(); ++l) {
      visits *= s.loops[l].extent;
      if (s.loops[l].stage != s.stage_index || s.loops[l].iter != p.iter) continue;
      for (const Access& a : s.accesses) {
        if (!a.read || a.buffer->name != p.buffer) continue;
        const auto distance = static_cast<double>(p.distance);
        const double elements = std::abs(a.stride[l]) * distance;
        out.count += visits * a.reads;
        out.iterations = std::max(out.iterations, distance);
        out.bytes = std::max(out.bytes, elements * a.element_bytes);
        out.past = std::max(out.past, elements / std::max(1.0, a.stored));
      }
    }
  }
  return out;
}

}  // namespace

LoopTotals::LoopTotals(const Program& program, std::pmr::memory_resource* memory)
    : totals_(memory) {
  totals_.reserve(static_cast<std::size_t>(program.loops));
  for (int i = 0; i < program.loops; ++i) totals_.emplace_back(memory);
  for (const Statement& s : program.statements) {
    double points = 1;
    for (std::size_t l = s.loops.size(); l-- > 0;) {
      points *= s.loops[l].extent;
      Total& total = totals_[static_cast<std::size_t>(s.loops[l].id)];
      total.work += s.work * points;
      for (const Access& a : s.accesses) {
        Touch* touch = nullptr;
        for (Touch& t : total.touches) touch = t.buffer == a.buffer ? &t : touch;
        if (!touch) {
          touch =
              &total.touches.emplace_back(Touch{.buffer = a.buffer, .min_elements = a.elements[l]});
        }
        total.bytes += std::max(0.0, bytes_at(a, l) - touch->bytes);
        touch->bytes = std::max(touch->bytes, bytes_at(a, l));
        touch->min_elements = std::min(touch->min_elements, a.elements[l]);
        touch->statements += 1;
      }
    }
    program_work_ += s.work * points;
  }
}

StatementView view_statement(const Statement& s, const LoopTotals& totals,
                             const target::Target& target, std::pmr::memory_resource* memory) {
  StatementView view{.statement = &s, .target = &target, .program_work = totals.program_work()};
  view.vector = annotated(s, Annotation::kVectorize);
  view.unroll = annotated(s, Annotation::kUnroll);
  view.parallel = annotated(s, Annotation::kParallel);
  view.vthreads = std::max(1.0, annotated(s, Annotation::kVThread).product);
  fill_slots(s, totals, std::max(1, target.line_bytes), memory, &view);
  fill_curve(s, totals, &view);
  view.body = find_body(s, target);
  view.ahead = find_ahead(s);
  const std::array<std::int64_t, kCaches> caches = {target.l1_bytes, target.l2_bytes,
                                                    target.l3_bytes};
  for (std::size_t c = 0; c < kCaches; ++c) {
    fill_traffic(s, totals, static_cast<double>(caches[c]), &view.traffic[c],
                 &view.fitting_work[c]);
  }
  for (std::size_t l = 0; l < s.loops.size(); ++l) {
    if (l < s.own) view.outer_points *= s.loops[l].extent;
    if (!s.loops[l].reduce) continue;
    view.inner_reduce_bytes = totals.of(s.loops[l].id).bytes;
    if (view.reduce_bytes == 0) view.reduce_bytes = view.inner_reduce_bytes;
  }
  return view;
}

}  // namespace tessera::feature
