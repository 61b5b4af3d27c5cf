// Which steps keep their order, and that memory is never shared by steps that need not.
#include "tessera/backend/exec/running_order.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tessera/backend/exec/memory_plan.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/support/rng.h"

namespace tessera::exec {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;
using After = std::vector<std::vector<std::size_t>>;

Touch reads(std::size_t memory, std::int64_t begin = 0, std::int64_t end = 8) {
  return {memory, begin, end, false};
}
Touch writes(std::size_t memory, std::int64_t begin = 0, std::int64_t end = 8) {
  return {memory, begin, end, true};
}

TEST(RunningOrder, BranchesForkAndJoin) {
  const RunningOrder order({{writes(0)},
                            {reads(0), writes(1)},
                            {reads(1), writes(2)},
                            {reads(0), writes(3)},
                            {reads(2), reads(3), reads(0), writes(4)}});
  EXPECT_EQ(order.after(), (After{{}, {0}, {1}, {0}, {2, 3}}));
  EXPECT_TRUE(order.before(0, 4));
  EXPECT_TRUE(order.before(1, 2));
  EXPECT_FALSE(order.before(2, 3));
  EXPECT_FALSE(order.before(3, 2));
  EXPECT_FALSE(order.before(4, 0));
}

TEST(RunningOrder, MemoryThatIsWrittenAgainWaitsForWhoReadIt) {
  const RunningOrder order({{writes(0, 0, 8)},
                            {reads(0, 0, 8), writes(1)},
                            {reads(0, 4, 8), writes(2)},
                            {writes(0, 0, 4)},     // only the first of them read this
                            {writes(0, 4, 6)},     // both did
                            {writes(0, 8, 16)}});  // nobody
  EXPECT_EQ(order.after(), (After{{}, {0}, {0}, {1}, {1, 2}, {}}));
}

TEST(RunningOrder, OneStepMayReadWhatItWrites) {
  const RunningOrder order({{reads(0), writes(0)}, {reads(0), writes(0)}});
  EXPECT_EQ(order.after(), (After{{}, {0}}));
}

// More steps than bits of a word.
TEST(RunningOrder, ChainsAreTotal) {
  std::vector<std::vector<Touch>> steps;
  for (std::size_t i = 0; i < 200; ++i) steps.push_back({reads(i), writes(i + 1)});
  const RunningOrder order(steps);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(order.after()[i].size(), i == 0 ? 0u : 1u);
    for (std::size_t j = 0; j < 200; ++j) EXPECT_EQ(order.before(i, j), i < j);
  }
}

// Of values, with branches; some operators only run on the host.
Graph random_graph(Rng& rng) {
  GraphBuilder b("random");
  std::vector<ValueId> pool = {b.input("x", {DType::kF32, {64}})};
  const auto pick = [&] {
    const auto n = static_cast<std::int64_t>(pool.size());
    return pool[static_cast<std::size_t>(std::max<std::int64_t>(0, n - 1 - rng.below(6)))];
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t kind = rng.below(8);
    const ValueId x = pick();
    Result<ValueId> made = ValueId{0};
    if (kind == 0 && elements(b.shape(x)) < 1024) {
      made = b.add("concat", {x, x}, {{"axis", std::int64_t{0}}});
    } else if (kind == 1) {
      made = b.add("reshape", {x}, {{"shape", std::vector<std::int64_t>{elements(b.shape(x))}}});
    } else if (kind == 2) {
      const ValueId y = pick();
      made = b.shape(x) == b.shape(y) ? b.add("add", {x, y}) : b.add("tanh", {y});
    } else {
      made = b.add("tanh", {x});
    }
    pool.push_back(made.value());
  }
  return b.finish({pool.back(), pool[pool.size() / 2]}, {"y", "z"});
}

struct Case {
  Graph graph;
  std::vector<task::Group> groups;
  MemoryOptions options;
};

Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  Case out{random_graph(rng), {}, {}};
  out.groups = task::partition(out.graph, {.fuse = false, .decider = {}}).value();
  for (task::Group& g : out.groups) {
    const bool kernel = g.kind == task::GroupKind::kKernel;
    if (kernel && seed % 3 == 0 && rng.below(10) == 0) g.kind = task::GroupKind::kHost;
    out.options.temporaries.emplace_back();
    if (kernel && rng.below(4) == 0) out.options.temporaries.back() = {100, 1 + rng.below(500)};
  }
  out.options.side_by_side = 100;
  return out;
}

// What the groups touch where the plan put it.
std::vector<std::vector<Touch>> touches_of(const Case& c, const MemoryPlan& plan) {
  std::vector<std::vector<Touch>> out;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    std::vector<Touch>& touches = out.emplace_back();
    if (c.groups[g].kind == task::GroupKind::kAlias) continue;
    touches.push_back({0, 0, 1, c.groups[g].kind == task::GroupKind::kHost});
    const auto add = [&](const Storage& s, bool written) {
      if (s.place == Place::kArena) touches.push_back({1, s.offset, s.offset + s.bytes, written});
      if (s.place == Place::kInput) touches.push_back({2 + 2 * s.index, 0, 1, written});
      if (s.place == Place::kOutput) touches.push_back({3 + 2 * s.index, 0, 1, written});
    };
    for (const ValueId id : c.groups[g].inputs)
      add(plan.of_value[static_cast<std::size_t>(id)], false);
    for (const ValueId id : c.groups[g].outputs)
      add(plan.of_value[static_cast<std::size_t>(id)], true);
    for (const Storage& s : plan.temporaries[g]) add(s, true);
  }
  return out;
}

// Sharing memory makes no step wait for another that it does not wait for anyway.
TEST(RunningOrder, PlannedMemoryAddsNoOrder) {
  int free_pairs = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Case c = random_case(seed);
    const MemoryPlan plan = plan_memory(c.graph, c.groups, c.options);
    const RunningOrder by_values = order_of(c.graph, c.groups);
    const RunningOrder by_memory(touches_of(c, plan));
    for (std::size_t i = 0; i < c.groups.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_EQ(by_memory.before(j, i), by_values.before(j, i)) << "seed " << seed;
        free_pairs += by_values.before(j, i) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(free_pairs, 1000);
}

// Steps in any order that it allows leave in memory what they leave one after the other, whatever
// the plan shares.
TEST(RunningOrder, AnyAllowedOrderReadsTheSame) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Case c = random_case(seed);
    c.options.side_by_side = seed % 2 == 0 ? 100 : 0;
    const MemoryPlan plan = plan_memory(c.graph, c.groups, c.options);
    const auto touches = touches_of(c, plan);
    const RunningOrder order(touches);
    // Who wrote each byte that a step reads, by step.
    const auto run = [&](const std::vector<std::size_t>& steps) {
      std::map<std::pair<std::size_t, std::int64_t>, std::size_t> writer;
      std::vector<std::vector<std::size_t>> read(touches.size());
      for (const std::size_t step : steps) {
        for (const Touch& t : touches[step]) {
          for (std::int64_t at = t.begin; at < t.end; at += 16)
            if (!t.writes) read[step].push_back(writer[{t.memory, at}]);
        }
        for (const Touch& t : touches[step]) {
          for (std::int64_t at = t.begin; at < t.end; at += 16)
            if (t.writes) writer[{t.memory, at}] = step + 1;
        }
      }
      return read;
    };
    std::vector<std::size_t> linear(touches.size());
    for (std::size_t i = 0; i < linear.size(); ++i) linear[i] = i;
    const auto expected = run(linear);
    Rng rng(seed);
    for (int round = 0; round < 5; ++round) {
      std::vector<std::size_t> steps;
      std::set<std::size_t> left(linear.begin(), linear.end());
      while (!left.empty()) {
        std::vector<std::size_t> ready;
        for (const std::size_t s : left) {
          const auto& after = order.after()[s];
          if (std::none_of(after.begin(), after.end(),
                           [&](std::size_t earlier) { return left.contains(earlier); }))
            ready.push_back(s);
        }
        steps.push_back(
            ready[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(ready.size())))]);
        left.erase(steps.back());
      }
      EXPECT_EQ(run(steps), expected) << "seed " << seed;
    }
  }
}

// Without branches nothing changes.
TEST(RunningOrder, AChainIsPlannedAsBefore) {
  GraphBuilder b("chain");
  ValueId x = b.input("x", {DType::kF32, {100}});
  for (int i = 0; i < 9; ++i) x = b.add("tanh", {x}).value();
  const Graph g = b.finish({x}, {"y"});
  const auto groups = task::partition(g, {.fuse = false, .decider = {}}).value();
  const MemoryPlan linear = plan_memory(g, groups);
  const MemoryPlan beside = plan_memory(g, groups, {.temporaries = {}, .side_by_side = 1});
  EXPECT_EQ(beside.arena_bytes, linear.arena_bytes);
  for (std::size_t v = 0; v < linear.of_value.size(); ++v)
    EXPECT_EQ(beside.of_value[v].offset, linear.of_value[v].offset);
}

}  // namespace
}  // namespace tessera::exec
