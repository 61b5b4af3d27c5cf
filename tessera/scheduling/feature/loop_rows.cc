// AutoTVM's features: a context vector for every loop, and the relations between them.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using schedule::Annotation;

constexpr std::size_t kLoopBuffers = 5;
constexpr std::size_t kRelationBuffers = 4;
constexpr std::size_t kThresholds = 20;  // beta_t = 2^t
// Loops beyond this have no row: rows are numbered in 16 bits.
constexpr std::size_t kMostRow = 32766;

// A loop as one of the statements inside sees it.
struct LoopView {
  const Statement* statement = nullptr;
  std::size_t loop = 0;
  double top_down = 1, bottom_up = 1;
  double add = 0, mul = 0, div = 0;  // float operations right inside, not in a further loop

  Annotation annotation() const { return statement->loops[loop].annotation; }
};

// A tensor as a loop sees it.
struct Touched {
  const Access* access = nullptr;
  double stride = 0;
  double count = 1,
         reuse = 1;  // product of the extents inward that do, and do not, select elements
  double thread_count = 0, thread_reuse = 0;
};

struct LoopRow {
  const char* name;
  float (*read)(const LoopView& v);
};

struct TouchRow {
  const char* name;
  float (*read)(const Touched& t);
};

template <Annotation kKind>
float is_kind(const LoopView& v) {
  return v.annotation() == kKind ? 1 : 0;
}

// Tensorized loops are unrolled ones to whoever reads their context.
float is_unrolled(const LoopView& v) {
  return is_kind<Annotation::kUnroll>(v) + is_kind<Annotation::kTensorize>(v);
}

constexpr LoopRow kLoopRows[] = {
    {"length", [](const LoopView& v) { return slog(v.statement->loops[v.loop].extent); }},
    {"nest_level", [](const LoopView& v) { return static_cast<float>(v.loop); }},
    {"topdown", [](const LoopView& v) { return slog(v.top_down); }},
    {"bottomup", [](const LoopView& v) { return slog(v.bottom_up); }},
    {"is_blockIdx_x", is_kind<Annotation::kBlockX>},
    {"is_blockIdx_y", is_kind<Annotation::kBlockY>},
    {"is_blockIdx_z", is_kind<Annotation::kBlockZ>},
    {"is_threadIdx_x", is_kind<Annotation::kThreadX>},
    {"is_threadIdx_y", is_kind<Annotation::kThreadY>},
    {"is_threadIdx_z", is_kind<Annotation::kThreadZ>},
    {"is_unrolled", is_unrolled},
    {"is_vectorized", is_kind<Annotation::kVectorize>},
    {"is_parallel", is_kind<Annotation::kParallel>},
    {"is_serial", is_kind<Annotation::kNone>},
    {"is_vthread", is_kind<Annotation::kVThread>},
    {"add", [](const LoopView& v) { return slog(v.add); }},
    {"mul", [](const LoopView& v) { return slog(v.mul); }},
    {"div", [](const LoopView& v) { return slog(v.div); }},
};

// AutoTVM's sixth, a modulus, is never anything but infinite: left out.
constexpr TouchRow kTouchRows[] = {
    {"stride", [](const Touched& t) { return slog(t.stride); }},
    {"count", [](const Touched& t) { return slog(t.count); }},
    {"reuse", [](const Touched& t) { return slog(t.reuse); }},
    {"thread_count", [](const Touched& t) { return slog(t.thread_count); }},
    {"thread_reuse", [](const Touched& t) { return slog(t.thread_reuse); }},
};

Touched touch(const Statement& s, const Access& a, std::size_t loop) {
  Touched t{.access = &a, .stride = a.stride[loop]};
  for (std::size_t l = loop; l < s.loops.size(); ++l)
    (a.uses(l) ? t.count : t.reuse) *= s.loops[l].extent;
  if (s.loops[loop].annotation == Annotation::kParallel) {
    t.thread_count = a.uses(loop) ? s.loops[loop].extent : 1;
    t.thread_reuse = a.uses(loop) ? 1 : s.loops[loop].extent;
  }
  return t;
}

void add_direct_work(const Statement& s, std::size_t loop, LoopView* view) {
  if (loop + 1 != s.loops.size()) return;
  view->add += s.float_ops.add + s.float_ops.mad;
  view->mul += s.float_ops.mul + s.float_ops.mad;
  view->div += s.float_ops.div;
}

}  // namespace

const std::vector<std::string>& loop_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const LoopRow& r : kLoopRows) out.push_back(r.name);
    for (std::size_t b = 0; b < kLoopBuffers; ++b) {
      for (const TouchRow& r : kTouchRows) out.push_back(fmt::format("B{}.{}", b, r.name));
    }
    return out;
  }();
  return names;
}

void append_loop_rows(const Program& program, std::pmr::memory_resource* memory,
                      std::vector<float>* out, std::vector<std::int16_t>* parents) {
  const std::size_t columns = loop_names().size();
  // Per loop: its row, or -1 before it has one.
  std::pmr::vector<std::int16_t> row(static_cast<std::size_t>(program.loops), -1, memory);
  std::pmr::vector<Touched> touched(memory);
  const std::size_t before = out->size();
  for (const Statement& first : program.statements) {
    for (std::size_t l = 0; l < first.loops.size(); ++l) {
      const int id = first.loops[l].id;
      const std::size_t rows = (out->size() - before) / columns;
      std::int16_t& own = row[static_cast<std::size_t>(id)];
      if (own >= 0 || rows > kMostRow) continue;
      own = static_cast<std::int16_t>(rows);
      if (parents != nullptr) {
        const int outer = l == 0 ? -1 : first.loops[l - 1].id;
        parents->push_back(outer < 0 ? std::int16_t{-1} : row[static_cast<std::size_t>(outer)]);
      }
      LoopView view{.statement = &first, .loop = l};
      for (std::size_t k = 0; k <= l; ++k) view.top_down *= first.loops[k].extent;
      touched.clear();
      for (const Statement& s : program.statements) {
        if (s.loops.size() <= l || s.loops[l].id != id) continue;
        double inside = 1;
        for (std::size_t k = l; k < s.loops.size(); ++k) inside *= s.loops[k].extent;
        view.bottom_up = std::max(view.bottom_up, inside);
        add_direct_work(s, l, &view);
        for (const Access& a : s.accesses) touched.push_back(touch(s, a, l));
      }
      std::stable_sort(touched.begin(), touched.end(), [](const Touched& a, const Touched& b) {
        return a.access->stored * a.access->element_bytes >
               b.access->stored * b.access->element_bytes;
      });
      const std::size_t at = out->size();
      out->resize(at + columns);
      float* to = out->data() + at;
      for (const LoopRow& r : kLoopRows) *to++ = r.read(view);
      for (std::size_t b = 0; b < std::min(kLoopBuffers, touched.size()); ++b) {
        for (const TouchRow& r : kTouchRows) *to++ = r.read(touched[b]);
      }
    }
  }
  if (out->size() > before) return;
  out->resize(before + columns);
  if (parents != nullptr) parents->push_back(-1);
}

namespace {

// One relation: the best `y` over the loops whose `x` is at most a threshold.
struct Relation {
  const char* name;
  double (*x)(const Touched& t, double top_down);
  double (*y)(const Touched& t, double top_down);
};

double count_of(const Touched& t, double) { return std::log2(t.count); }
double reuse_of(const Touched& t, double) { return std::log2(t.reuse); }
double top_down_of(const Touched&, double top_down) { return std::log2(top_down); }

constexpr Relation kRelations[] = {
    {"count_reuse", count_of, reuse_of},
    {"reuse_count", reuse_of, count_of},
    {"count_topdown", count_of, top_down_of},
    {"topdown_count", top_down_of, count_of},
};

struct Use {
  const Statement* statement = nullptr;
  const Access* access = nullptr;
};

// The most often touched tensors, each where it is touched most.
void find_uses(const Program& program, std::pmr::vector<Use>* uses) {
  for (const Statement& s : program.statements) {
    for (const Access& a : s.accesses) {
      Use* same = nullptr;
      for (Use& u : *uses) same = u.access->buffer == a.buffer ? &u : same;
      if (!same) {
        uses->push_back({&s, &a});
      } else if (s.points > same->statement->points) {
        *same = {&s, &a};
      }
    }
  }
  std::stable_sort(uses->begin(), uses->end(), [](const Use& a, const Use& b) {
    if (a.statement->points != b.statement->points)
      return a.statement->points > b.statement->points;
    return a.access->stored > b.access->stored;
  });
}

void write_relation(const Relation& r, const Use& use, float* to) {
  const Statement& s = *use.statement;
  std::array<double, kThresholds> best{}, nearest{};
  double top_down = 1;
  for (std::size_t l = 0; l < s.loops.size(); ++l) {
    top_down *= s.loops[l].extent;
    const Touched t = touch(s, *use.access, l);
    const double x = r.x(t, top_down);
    const double y = r.y(t, top_down);
    for (std::size_t n = 0; n < kThresholds; ++n) {
      if (x > static_cast<double>(n)) continue;
      best[n] = std::max(best[n], y);
      nearest[n] = std::max(nearest[n], x);
    }
  }
  for (std::size_t n = 0; n < kThresholds; ++n) {
    to[2 * n] = static_cast<float>(best[n]);
    to[2 * n + 1] = static_cast<float>(static_cast<double>(n) - nearest[n]);
  }
}

}  // namespace

const std::vector<std::string>& curve_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (std::size_t b = 0; b < kRelationBuffers; ++b) {
      for (const Relation& r : kRelations) {
        for (std::size_t n = 0; n < kThresholds; ++n) {
          out.push_back(fmt::format("B{}.{}_{}", b, r.name, n));
          out.push_back(fmt::format("B{}.{}_{}_slack", b, r.name, n));
        }
      }
    }
    return out;
  }();
  return names;
}

void append_curve_row(const Program& program, std::pmr::memory_resource* memory,
                      std::vector<float>* out) {
  std::pmr::vector<Use> uses(memory);
  find_uses(program, &uses);
  const std::size_t at = out->size();
  out->resize(at + curve_names().size());
  float* to = out->data() + at;
  for (std::size_t b = 0; b < std::min(kRelationBuffers, uses.size()); ++b) {
    for (const Relation& r : kRelations) {
      write_relation(r, uses[b], to);
      to += 2 * kThresholds;
    }
  }
}

}  // namespace tessera::feature
