#include "random_schedule.h"

#include <algorithm>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/scheduling/schedule/inline_stages.h"

namespace tessera::fuzz {
namespace {

using namespace schedule;  // NOLINT(google-build-using-namespace): every step by its name

constexpr std::int64_t kMaxCopies = 64;  // of a stage's body through unrolling
constexpr double kMaxStores =
    2e5;  // executed by the whole function; recomputing a stage often exceeds it

double count_stores(const ir::Stmt& s) {
  if (!s) return 0;
  if (const auto* loop = s.as<ir::For>()) {
    return static_cast<double>(ir::as_const_int(loop->extent).value_or(1)) *
           count_stores(loop->body);
  }
  if (const auto* branch = s.as<ir::If>())
    return count_stores(branch->then_body) + count_stores(branch->else_body);
  if (const auto* allocate = s.as<ir::Allocate>()) return count_stores(allocate->body);
  double sum = s.as<ir::Store>() ? 1 : 0;
  if (const auto* block = s.as<ir::Block>()) {
    for (const ir::Stmt& child : block->stmts) sum += count_stores(child);
  }
  return sum;
}

class ScheduleDrawer {
 public:
  ScheduleDrawer(const te::Dag& dag, Rng& rng) : dag_(dag), rng_(rng), state_(initial_state(dag)) {}

  Schedule run() {
    const std::int64_t n = rng_.below(4) == 0 ? rng_.between(0, 4) : rng_.between(4, 18);
    for (std::int64_t i = 0; i < n; ++i) {
      if (const std::optional<Step> step = draw()) try_step(*step);
    }
    return schedule_;
  }

 private:
  void try_step(const Step& step) {
    Schedule longer = schedule_;
    longer.steps.push_back(step);
    try {
      take_if_legal(std::move(longer));
    } catch (const std::exception& e) {
      throw InternalError(fmt::format("{}\n{}{}{}\n", e.what(), te::to_text(dag_),
                                      to_text(schedule_), to_text(step)));
    }
  }

  void take_if_legal(Schedule longer) {
    Result<State> state = schedule::apply(dag_, longer);
    if (!state.ok()) {
      TESSERA_CHECK(state.error().code == ErrorCode::kIllegalSchedule, "refused with {}: {}",
                    to_text(state.error().code), state.error().message);
      return;
    }
    if (copies(*state) > kMaxCopies) return;
    const Result<lower::LoopNest> nest = lower::build_loop_nest(schedule::inline_stages(*state));
    if (!nest.ok()) {
      TESSERA_CHECK(nest.error().code == ErrorCode::kIllegalSchedule, "refused with {}: {}",
                    to_text(nest.error().code), nest.error().message);
      return;
    }
    if (count_stores(nest->func.body) > kMaxStores) return;
    schedule_ = std::move(longer);
    state_ = std::move(state).value();
  }

  // Copies of the most unrolled stage.
  static std::int64_t copies(const State& state) {
    std::int64_t most = 1;
    for (const Stage& s : state.stages) {
      std::int64_t n = 1;
      for (const int id : s.leaves) {
        const Iter& it = s.iters[static_cast<std::size_t>(id)];
        if (it.annotation == Annotation::kUnroll || it.annotation == Annotation::kVectorize)
          n *= it.extent;
      }
      for (const auto& [id, steps] : s.auto_unroll) n *= std::max<std::int64_t>(1, steps);
      most = std::max(most, n);
    }
    return most;
  }

  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(choices.size())))];
  }
  const Stage& pick_stage() { return pick(state_.stages); }
  std::optional<std::string> pick_loop(const Stage& s) {
    if (s.leaves.empty()) return std::nullopt;
    return s.iters[static_cast<std::size_t>(pick(s.leaves))].name;
  }
  std::vector<std::string> loop_names(const Stage& s) {
    std::vector<std::string> names;
    for (const int id : s.leaves) names.push_back(s.iters[static_cast<std::size_t>(id)].name);
    return names;
  }
  Tail draw_tail() { return pick(std::vector<Tail>{Tail::kGuard, Tail::kPeel, Tail::kPad}); }

  std::optional<Step> draw() {
    constexpr struct {
      int weight;
      std::optional<Step> (ScheduleDrawer::*draw)();
    } kKinds[] = {
        {24, &ScheduleDrawer::split},
        {4, &ScheduleDrawer::follow_split},
        {2, &ScheduleDrawer::follow_fused_split},
        {8, &ScheduleDrawer::fuse},
        {10, &ScheduleDrawer::reorder},
        {18, &ScheduleDrawer::annotate},
        {3, &ScheduleDrawer::pragma},
        {16, &ScheduleDrawer::compute_at},
        {5, &ScheduleDrawer::compute_inline},
        {1, &ScheduleDrawer::compute_root},
        {6, &ScheduleDrawer::cache_read},
        {6, &ScheduleDrawer::cache_write},
        {5, &ScheduleDrawer::rfactor},
        {3, &ScheduleDrawer::storage_align},
        {6, &ScheduleDrawer::layout},
        {3, &ScheduleDrawer::prefetch},
    };
    int total = 0;
    for (const auto& k : kKinds) total += k.weight;
    std::int64_t at = rng_.below(total);
    for (const auto& k : kKinds) {
      if (at < k.weight) return (this->*k.draw)();
      at -= k.weight;
    }
    return std::nullopt;
  }

  std::optional<Step> split() {
    const Stage& s = pick_stage();
    const auto loop = pick_loop(s);
    if (!loop) return std::nullopt;
    const std::vector<std::int64_t> sizes = {1, 2, 2, 3, 4, 4, 5, 7, 8, 16};
    Split step{.stage = s.name(),
               .iter = *loop,
               .lengths = {pick(sizes)},
               .from_outer = rng_.chance(0.2),
               .tail = draw_tail()};
    if (rng_.chance(0.3)) step.lengths.push_back(pick(sizes));
    return step;
  }

  std::vector<int> split_steps() {
    std::vector<int> out;
    for (std::size_t i = 0; i < state_.splits.size(); ++i) {
      if (!state_.splits[i].lengths.empty()) out.push_back(static_cast<int>(i));
    }
    return out;
  }

  std::optional<Step> follow_split() {
    const std::vector<int> sources = split_steps();
    const Stage& s = pick_stage();
    const auto loop = pick_loop(s);
    if (!loop || sources.empty()) return std::nullopt;
    return FollowSplit{.stage = s.name(),
                       .iter = *loop,
                       .source = pick(sources),
                       .parts = static_cast<int>(rng_.between(1, 2)),
                       .tail = draw_tail()};
  }

  std::optional<Step> follow_fused_split() {
    const std::vector<int> sources = split_steps();
    const Stage& s = pick_stage();
    const auto loop = pick_loop(s);
    if (!loop || sources.empty()) return std::nullopt;
    FollowFusedSplit step{.stage = s.name(),
                          .iter = *loop,
                          .level = static_cast<int>(rng_.below(2)),
                          .sources = {pick(sources)},
                          .from_outer = rng_.chance(0.3)};
    if (rng_.chance(0.5)) step.sources.push_back(pick(sources));
    return step;
  }

  std::optional<Step> fuse() {
    const Stage& s = pick_stage();
    const std::vector<std::string> names = loop_names(s);
    if (names.size() < 2) return std::nullopt;
    const auto n = static_cast<std::ptrdiff_t>(names.size());
    const std::ptrdiff_t begin = rng_.below(n - 1);
    const std::ptrdiff_t end = std::min<std::ptrdiff_t>(n, begin + rng_.between(2, 3));
    return Fuse{.stage = s.name(), .iters = {names.begin() + begin, names.begin() + end}};
  }

  std::optional<Step> reorder() {
    const Stage& s = pick_stage();
    std::vector<std::string> names = loop_names(s);
    if (names.size() < 2) return std::nullopt;
    const std::int64_t n = static_cast<std::int64_t>(names.size());
    const std::int64_t swaps = rng_.chance(0.5) ? 1 : n;
    for (std::int64_t i = 0; i < swaps; ++i) {
      std::swap(names[static_cast<std::size_t>(rng_.below(n))],
                names[static_cast<std::size_t>(rng_.below(n))]);
    }
    return Reorder{.stage = s.name(), .iters = names};
  }

  std::optional<Step> annotate() {
    const Stage& s = pick_stage();
    const auto loop = rng_.chance(0.5) && !s.leaves.empty()
                          ? std::optional(s.iters[static_cast<std::size_t>(s.leaves.back())].name)
                          : pick_loop(s);
    if (!loop) return std::nullopt;
    const std::vector<Annotation> kinds = {Annotation::kUnroll,    Annotation::kUnroll,
                                           Annotation::kVectorize, Annotation::kVectorize,
                                           Annotation::kVectorize, Annotation::kParallel,
                                           Annotation::kParallel,  Annotation::kNone};
    return Annotate{.stage = s.name(), .iter = *loop, .annotation = pick(kinds)};
  }

  std::optional<Step> pragma() {
    const Stage& s = pick_stage();
    const auto loop = pick_loop(s);
    if (!loop) return std::nullopt;
    return Pragma{.stage = s.name(),
                  .iter = *loop,
                  .key = "auto_unroll_max_step",
                  .value = rng_.between(0, 24)};
  }

  std::optional<Step> compute_at() {
    const Stage& s = pick_stage();
    const int at = state_.index_of(s.name());
    if (at + 1 >= static_cast<int>(state_.stages.size())) return std::nullopt;
    const auto& target = state_.stages[static_cast<std::size_t>(rng_.between(
        at + 1, rng_.chance(0.6) ? at + 1 : static_cast<std::int64_t>(state_.stages.size()) - 1))];
    const auto loop = pick_loop(target);
    if (!loop) return std::nullopt;
    return ComputeAt{.stage = s.name(), .target = target.name(), .iter = *loop};
  }

  std::optional<Step> compute_inline() { return ComputeInline{.stage = pick_stage().name()}; }
  std::optional<Step> compute_root() { return ComputeRoot{.stage = pick_stage().name()}; }

  std::vector<std::string> read_buffers(const Stage& s) {
    std::vector<std::string> out;
    for (const ir::Expr& v : s.op.values) {
      ir::for_each_expr(v, [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) out.push_back(load->buffer->name);
      });
    }
    return out;
  }

  std::optional<Step> cache_read() {
    const Stage& s = pick_stage();
    const std::vector<std::string> buffers = read_buffers(s);
    if (buffers.empty()) return std::nullopt;
    CacheRead step{.buffer = pick(buffers), .scope = "local", .readers = {s.name()}};
    for (const Stage& other : state_.stages) {
      const std::vector<std::string> reads = read_buffers(other);
      const bool also = std::find(reads.begin(), reads.end(), step.buffer) != reads.end();
      if (also && other.name() != s.name() && rng_.chance(0.5))
        step.readers.push_back(other.name());
    }
    return step;
  }

  std::optional<Step> cache_write() {
    return CacheWrite{.stage = pick_stage().name(), .scope = "local"};
  }

  std::optional<Step> rfactor() {
    const Stage& s = pick_stage();
    std::vector<std::string> reduced;
    for (const int id : s.leaves) {
      if (s.iters[static_cast<std::size_t>(id)].reduce)
        reduced.push_back(s.iters[static_cast<std::size_t>(id)].name);
    }
    if (reduced.empty()) return std::nullopt;
    return RFactor{
        .stage = s.name(),
        .iter = pick(reduced),
        .axis = static_cast<int>(rng_.between(0, static_cast<std::int64_t>(s.op.axes.size())))};
  }

  std::optional<Step> storage_align() {
    const std::int64_t factor = rng_.between(1, 16);
    return StorageAlign{.stage = pick_stage().name(),
                        .dim = static_cast<int>(rng_.below(3)),
                        .factor = factor,
                        .offset = rng_.below(factor)};
  }

  std::optional<Step> layout() {
    std::vector<ir::Buffer> buffers;
    for (const te::Input& in : state_.dag.inputs) {
      if (in.constant) buffers.push_back(in.buffer);
    }
    for (const Stage& s : state_.stages) {
      for (const ir::Buffer& b : s.op.outputs) {
        if (!state_.dag.is_output(b)) buffers.push_back(b);
      }
    }
    if (buffers.empty()) return std::nullopt;
    const ir::Buffer& b = pick(buffers);
    SetLayout step{.buffer = b->name};
    for (std::size_t d = 0; d < b->shape.size(); ++d) {
      const int dim = static_cast<int>(d);
      if (rng_.chance(0.5)) {
        step.layout.push_back({.dim = dim});
        continue;
      }
      const std::int64_t block = rng_.between(1, 8);
      if (rng_.chance(0.2)) {
        const std::int64_t outer = rng_.between(1, 4);
        step.layout.push_back({.dim = dim, .divisor = block, .modulus = outer});
        step.layout.push_back({.dim = dim, .divisor = block * outer});
      } else {
        step.layout.push_back({.dim = dim, .divisor = block});
      }
      step.layout.push_back({.dim = dim, .divisor = 1, .modulus = block});
    }
    for (std::size_t i = step.layout.size(); i-- > 1;) {
      std::swap(
          step.layout[i],
          step.layout[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(i) + 1))]);
    }
    return step;
  }

  std::optional<Step> prefetch() {
    const Stage& s = pick_stage();
    const auto loop = pick_loop(s);
    const std::vector<std::string> buffers = read_buffers(s);
    if (!loop || buffers.empty()) return std::nullopt;
    return PrefetchStep{
        .stage = s.name(), .iter = *loop, .buffer = pick(buffers), .distance = rng_.between(1, 8)};
  }

  const te::Dag& dag_;
  Rng& rng_;
  Schedule schedule_;
  State state_;
};

}  // namespace

Schedule random_schedule(const te::Dag& dag, Rng& rng) { return ScheduleDrawer(dag, rng).run(); }

Schedule without_step(const Schedule& schedule, std::size_t index) {
  Schedule out = schedule;
  out.steps.erase(out.steps.begin() + static_cast<std::ptrdiff_t>(index));
  const int removed = static_cast<int>(index);
  for (Step& step : out.steps) {
    if (auto* follow = std::get_if<FollowSplit>(&step); follow && follow->source > removed)
      --follow->source;
    if (auto* fused = std::get_if<FollowFusedSplit>(&step)) {
      for (int& source : fused->sources) source -= source > removed ? 1 : 0;
    }
  }
  return out;
}

}  // namespace tessera::fuzz
