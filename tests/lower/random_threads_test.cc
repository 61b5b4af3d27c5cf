// Random tensor expressions under random GPU schedules.
#include <algorithm>
#include <map>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tests/fuzz/random_dag.h"
#include "thread_case.h"

namespace tessera::lower {
namespace {

class RandomThreads {
 public:
  RandomThreads(const te::Dag& dag, Rng& rng) : dag_(dag), rng_(rng) {}

  // Stages are decided from the last to the first: consumers before producers.
  std::string run() {
    for (std::size_t i = dag_.ops.size(); i-- > 0;) {
      const te::Op& op = dag_.ops[i];
      const te::Op* reader = only_reader(op);
      const bool attach = reader && bound_.count(reader->name) && !op.axes.empty();
      switch (attach ? rng_.below(4) : 3) {
        case 0:
          if (op.reducer == te::Reducer::kNone) {
            out_ += fmt::format("compute_inline {}\n", op.name);
            break;
          }
          [[fallthrough]];
        case 1:
          out_ += fmt::format("compute_at {} {} {}\n", op.name, reader->name, loop_of(*reader));
          break;
        case 2:
          share(op, *reader);
          break;
        default:
          bind(op);
      }
    }
    return out_;
  }

 private:
  int pick(std::vector<int> of) {
    return of[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(of.size())))];
  }

  static std::vector<std::string> names(const std::vector<te::Axis>& axes) {
    std::vector<std::string> out;
    for (const te::Axis& a : axes) out.push_back(a.var.as<ir::Var>()->name);
    return out;
  }

  // One loop over all axes; its name.
  std::string fuse(const std::string& stage, const std::vector<te::Axis>& axes) {
    const std::vector<std::string> all = names(axes);
    if (all.size() > 1) out_ += fmt::format("fuse {} {}\n", stage, fmt::join(all, " "));
    return fmt::format("{}", fmt::join(all, "@"));
  }

  const te::Op* only_reader(const te::Op& op) const {
    const te::Op* found = nullptr;
    for (const ir::Buffer& b : op.outputs) {
      if (dag_.is_output(b)) return nullptr;
      for (const te::Op& other : dag_.ops) {
        const bool reads = std::any_of(other.values.begin(), other.values.end(),
                                       [&](const ir::Expr& v) { return ir::reads_buffer(v, b); });
        if (!reads) continue;
        if (found && found != &other) return nullptr;
        found = &other;
      }
    }
    return found;
  }

  std::string loop_of(const te::Op& reader) {
    const std::vector<std::string>& loops = bound_.at(reader.name);
    return loops[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(loops.size())))];
  }

  // Blocks of threads with one or two elements each, or blocks whose threads share the reduction.
  void bind(const te::Op& op) {
    if (op.axes.empty() && op.reduce_axes.empty()) return;
    std::vector<std::string> loops;
    const bool across = !op.reduce_axes.empty() && rng_.below(3) == 0;
    if (!op.axes.empty()) {
      const std::string loop = fuse(op.name, op.axes);
      if (across) {
        out_ += fmt::format("annotate {} {} blockIdx.x\n", op.name, loop);
        loops = {loop};
      } else {
        out_ += fmt::format("split {0} {1} {2} {3}\nannotate {0} {1}.0 blockIdx.x\n", op.name, loop,
                            pick({3, 8, 32}), pick({1, 2}));
        const int order = pick({0, 1});
        out_ += fmt::format("annotate {} {}.{} threadIdx.x\n", op.name, loop, 1 + order);
        loops = {loop + ".0", loop + ".1", loop + ".2"};
      }
    }
    if (across) {
      const std::string k = names(op.reduce_axes)[0];
      out_ += fmt::format("split {0} {1} {2}\nannotate {0} {1}.1 threadIdx.{3}\n", op.name, k,
                          pick({2, 4, 5, 32}), pick({0, 1}) == 0 ? "x" : "y");
      if (loops.empty()) loops = {k + ".1"};
    }
    if (!loops.empty()) bound_[op.name] = loops;
  }

  void share(const te::Op& op, const te::Op& reader) {
    const std::string stage = op.name + ".shared";
    out_ += fmt::format("cache_write {0} shared\ncompute_inline {0}\ncompute_at {1} {2} {3}\n",
                        op.name, stage, reader.name, loop_of(reader));
    const std::string loop = fuse(stage, op.axes);
    out_ += fmt::format("split {0} {1} {2}\nannotate {0} {1}.1 threadIdx.{3}\n", stage, loop,
                        pick({2, 8, 32}), pick({0, 0, 1}) == 0 ? "x" : "y");
    bound_[stage] = {loop + ".0"};
  }

  const te::Dag& dag_;
  Rng& rng_;
  std::string out_;
  std::map<std::string, std::vector<std::string>> bound_;  // loops that others can be computed at
};

TEST(RandomThreads, AgreeWithTheDag) {
  int lowered = 0, shared = 0, barriers = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag random = fuzz::random_dag(rng);
    const std::string schedule = RandomThreads(random.dag, rng).run();
    const auto steps = schedule::schedule_from_text(schedule);
    ASSERT_TRUE(steps.ok()) << steps.error().message;
    const auto device = lower_device(random.dag, *steps);
    if (!device.ok()) {
      ASSERT_EQ(device.error().code, ErrorCode::kIllegalSchedule) << device.error().message;
      continue;
    }
    ++lowered;
    for (const ir::Launch& l : device->program.launches) shared += l.shared.empty() ? 0 : 1;
    barriers += count_barriers(device->program);
    ASSERT_EQ(run_threads(random.dag, device->program, random.inputs, random.tolerance), "")
        << "seed " << seed << "\n"
        << te::to_text(random.dag) << schedule << ir::to_text(device->program);
  }
  EXPECT_GT(lowered, 130);
  EXPECT_GT(shared, 20);
  EXPECT_GT(barriers, 20);
}

}  // namespace
}  // namespace tessera::lower
