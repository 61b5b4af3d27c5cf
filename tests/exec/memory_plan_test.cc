#include "tessera/backend/exec/memory_plan.h"

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/support/rng.h"

namespace tessera::exec {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

ValueId add(GraphBuilder& b, std::string_view op, const std::vector<ValueId>& in,
            const graph::Attrs& attrs = {}) {
  const auto id = b.add(op, in, attrs);
  EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
  return id.ok() ? *id : 0;
}

struct Life {
  std::int64_t offset, bytes;
  int first, last;
};

// Every two arena values that live at the same time have disjoint places.
void expect_disjoint(const Graph& graph, const std::vector<task::Group>& groups,
                     const MemoryPlan& plan) {
  std::vector<Life> all;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (plan.of_value[v].place != Place::kArena) continue;
    Life life{plan.of_value[v].offset,
              elements(graph.values[v].type.shape) * size_bytes(graph.values[v].type.dtype), -1,
              -1};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const auto* ids : {&groups[g].inputs, &groups[g].outputs}) {
        for (const ValueId id : *ids) {
          if (static_cast<std::size_t>(id) != v) continue;
          if (life.first < 0) life.first = static_cast<int>(g);
          life.last = static_cast<int>(g);
        }
      }
    }
    EXPECT_EQ(life.offset % kArenaAlignment, 0);
    EXPECT_LE(life.offset + life.bytes, plan.arena_bytes);
    for (const Life& other : all) {
      const bool together = life.first <= other.last && other.first <= life.last;
      const bool overlap =
          life.offset < other.offset + other.bytes && other.offset < life.offset + life.bytes;
      EXPECT_FALSE(together && overlap) << "value " << graph.values[v].name;
    }
    all.push_back(life);
  }
}

// Memory that kernels need while they run lies beside what lives then, and is used again.
TEST(MemoryPlan, TemporariesOfAGroupShareTheArena) {
  GraphBuilder b("chain");
  ValueId x = b.input("x", {DType::kF32, {100}});
  for (int i = 0; i < 3; ++i) x = add(b, "tanh", {x});
  const Graph g = b.finish({x}, {"y"});
  const auto groups = task::partition(g, {.fuse = false, .decider = {}}).value();
  ASSERT_EQ(groups.size(), 3u);
  const MemoryPlan plan =
      plan_memory(g, groups, {.alignment = 512, .temporaries = {{}, {1000, 8}, {1024}}});
  ASSERT_EQ(plan.temporaries.size(), 3u);
  EXPECT_TRUE(plan.temporaries[0].empty());
  std::vector<Storage> second = plan.temporaries[1];
  EXPECT_EQ(second[0].bytes, 1024);
  EXPECT_EQ(second[1].bytes, 512);
  for (const ValueId id : {groups[1].inputs[0], groups[1].outputs[0]})
    second.push_back(plan.of_value[static_cast<std::size_t>(id)]);
  for (std::size_t i = 0; i < second.size(); ++i) {
    EXPECT_EQ(second[i].place, Place::kArena);
    EXPECT_EQ(second[i].offset % 512, 0);
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(second[i].offset + second[i].bytes <= second[j].offset ||
                  second[j].offset + second[j].bytes <= second[i].offset);
    }
  }
  EXPECT_EQ(plan.live_bytes, 1024 + 512 + 512 + 512);
  EXPECT_EQ(plan.arena_bytes, plan.live_bytes);
}

// Four branches of three steps each: one after the other they take turns with less memory than side
// by side, which is refused where it is too much.
TEST(MemoryPlan, BranchesHaveMemoryOfTheirOwnWithinALimit) {
  GraphBuilder b("branches");
  const ValueId x = b.input("x", {DType::kF32, {100}});
  std::vector<ValueId> ends;
  for (int branch = 0; branch < 4; ++branch) {
    ValueId y = x;
    for (int i = 0; i < 3; ++i) y = add(b, "tanh", {y});
    ends.push_back(y);
  }
  ValueId sum = ends[0];
  for (std::size_t i = 1; i < ends.size(); ++i) sum = add(b, "add", {sum, ends[i]});
  const Graph g = b.finish({sum}, {"y"});
  const auto groups = task::partition(g, {.fuse = false, .decider = {}}).value();
  const std::int64_t least = plan_memory(g, groups).arena_bytes;
  EXPECT_EQ(least, 5 * 448);
  EXPECT_EQ(plan_memory(g, groups, {.temporaries = {}, .side_by_side = 2}).arena_bytes, 8 * 448);
  EXPECT_EQ(plan_memory(g, groups, {.temporaries = {}, .side_by_side = 1.2}).arena_bytes, least);
}

TEST(MemoryPlan, AChainReusesTwoPlaces) {
  GraphBuilder b("chain");
  ValueId x = b.input("x", {DType::kF32, {100}});
  for (int i = 0; i < 6; ++i) x = add(b, "tanh", {x});
  const Graph g = b.finish({x}, {"y"});
  const auto groups = task::partition(g, {.fuse = false, .decider = {}}).value();
  const MemoryPlan plan = plan_memory(g, groups);
  EXPECT_EQ(plan.arena_bytes, 2 * 448);  // 400 bytes each, rounded up to 64
  EXPECT_EQ(plan.live_bytes, 2 * 448);
  EXPECT_EQ(plan.of_value[static_cast<std::size_t>(g.inputs[0])].place, Place::kInput);
  EXPECT_EQ(plan.of_value[static_cast<std::size_t>(g.outputs[0])].place, Place::kOutput);
  expect_disjoint(g, groups, plan);
}

TEST(MemoryPlan, AReshapeSharesMemoryEvenWithAnOutput) {
  GraphBuilder b("alias");
  const ValueId x = add(b, "tanh", {b.input("x", {DType::kF32, {4, 8}})});
  const ValueId r = add(b, "reshape", {x}, {{"shape", std::vector<std::int64_t>{32}}});
  const Graph g = b.finish({r}, {"y"});
  const MemoryPlan plan = plan_memory(g, task::partition(g).value());
  for (const Storage& s : plan.of_value) {
    if (s.place == Place::kInput) continue;
    EXPECT_EQ(s.place, Place::kOutput);
  }
  EXPECT_TRUE(plan.copies.empty());
}

TEST(MemoryPlan, OutputsThatAreInputsConstantsOrTwiceTheSameAreCopied) {
  GraphBuilder b("copies");
  const ValueId x = b.input("x", {DType::kF32, {4}});
  const ValueId c = b.constant(HostTensor(DType::kF32, {4}));
  const ValueId y = add(b, "tanh", {x});
  const Graph g = b.finish({x, c, y, y}, {"a", "b", "c", "d"});
  const MemoryPlan plan = plan_memory(g, task::partition(g).value());
  ASSERT_EQ(plan.copies.size(), 3u);
  EXPECT_EQ(plan.copies[0].output, 0u);
  EXPECT_EQ(plan.copies[1].output, 1u);
  EXPECT_EQ(plan.copies[2].output, 3u);
}

TEST(MemoryPlan, RandomGraphsNeverOverlapAndStayNearTheBound) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    GraphBuilder b("random");
    std::vector<ValueId> pool = {b.input("x", {DType::kF32, {32}})};
    for (int i = 0; i < 40; ++i) {
      const auto pick = [&] {
        return pool[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(pool.size())))];
      };
      const ValueId a = pick();
      const std::int64_t n = elements(b.shape(a));
      if (rng.below(3) == 0) {
        pool.push_back(add(b, "concat", {a, a}, {{"axis", std::int64_t{0}}}));
        if (n > 4096) pool.pop_back();
      } else {
        pool.push_back(add(b, "tanh", {a}));
      }
    }
    const Graph g = b.finish({pool.back(), pool[pool.size() / 2]}, {"y", "z"});
    const auto groups = task::partition(g, {.fuse = false, .decider = {}}).value();
    const MemoryPlan plan = plan_memory(g, groups);
    expect_disjoint(g, groups, plan);
    EXPECT_GE(plan.arena_bytes, plan.live_bytes);
    EXPECT_LE(plan.arena_bytes, plan.live_bytes * 3 / 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::exec
