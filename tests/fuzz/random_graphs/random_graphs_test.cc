// The generator draws what it promises, and the minimiser leaves only what fails.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "check_graph.h"
#include "generate.h"
#include "minimise.h"
#include "required_ways.h"
#include "tests/onnx/model_builder.h"

namespace tessera::fuzz {
namespace {

constexpr std::uint64_t kGraphs = 400;

Case graph_of(std::uint64_t seed) {
  return random_graph(
      seed, {.nodes = static_cast<std::int64_t>(1 + seed % 20), .max_elements = 600, .only = {}});
}

std::vector<Case> some_graphs() {
  std::vector<Case> cases;
  for (std::uint64_t seed = 1; seed <= kGraphs; ++seed) cases.push_back(graph_of(seed));
  return cases;
}

bool has_node(const Case& c, const std::string& op) {
  const auto& nodes = c.model.graph.nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n.op_type == op; });
}

TEST(RandomGraphs, AreTheSameForOneSeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto a = onnx::serialize_model(graph_of(seed).model);
    const auto b = onnx::serialize_model(graph_of(seed).model);
    ASSERT_TRUE(a.ok()) << a.error().message;
    EXPECT_EQ(*a, *b) << seed;
  }
}

TEST(RequiredWays, ThoseThatRanTooSeldomAreNamed) {
  RequiredWays required;
  ASSERT_TRUE(read_required("artifacts=1,plans=20,parts=2", &required));
  EXPECT_EQ(missing_ways(required, {.plans = 20, .artifacts = 1, .parts = 2}), "");
  EXPECT_EQ(missing_ways(required, {.plans = 19, .parts = 3}),
            "artifacts: 0 of 1 required, plans: 19 of 20 required");
}

TEST(RequiredWays, OthersAreNotRead) {
  for (const char* text : {"", "artifacts", "artefacts=1", "plans=", "plans=0", "plans=-1",
                           "plans=1x", "=1", "plans=1,,parts=1"}) {
    RequiredWays required;
    EXPECT_FALSE(read_required(text, &required)) << text;
  }
}

TEST(RandomGraphs, OnlyResultsThatDifferAreAComparison) {
  EXPECT_TRUE(is_comparison("plan compiled: output y [0] is 1, not 2"));
  EXPECT_TRUE(is_comparison("threads: output 0 differs in its bits"));
  for (const char* text : {"", "code", "code: no register is left", "exception: outputs are gone",
                           "split: 2 outputs", "artifact: no linker"})
    EXPECT_FALSE(is_comparison(text)) << text;
}

TEST(RandomGraphs, ReachOperatorsAndTypes) {
  Reached reached;
  for (const Case& c : some_graphs()) add_reached(c, &reached);
  EXPECT_GE(reached.size(), 190u) << table_of(reached);
  std::set<std::string> types;
  std::size_t pairs = 0;
  for (const auto& [op, of_op] : reached) {
    types.insert(of_op.begin(), of_op.end());
    pairs += of_op.size();
  }
  EXPECT_EQ(types.size(), 13u);
  EXPECT_GE(pairs, 700u) << table_of(reached);
}

// What models from files seldom have.
TEST(RandomGraphs, HaveOddSizesRanksSymbolsAndSharedConstants) {
  std::size_t empty = 0, scalar = 0, rank5 = 0, odd = 0, symbolic = 0, outputs = 0, shared = 0;
  for (const Case& c : some_graphs()) {
    const Result<Trace> trace = trace_case(c);
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    symbolic += c.symbols.empty() ? 0 : 1;
    outputs += c.model.graph.outputs.size() > 1 ? 1 : 0;
    std::map<std::string, int> readers;
    for (const onnx::Node& node : c.model.graph.nodes) {
      for (const std::string& name : node.inputs) ++readers[name];
    }
    for (const onnx::Initializer& v : c.model.graph.initializers) shared += readers[v.name] > 1;
    for (const auto& [name, count] : readers) {
      if (!trace->has(name)) continue;
      const Shape& s = trace->at(name).value.shape();
      empty += elements(s) == 0 ? 1 : 0;
      scalar += s.empty() ? 1 : 0;
      rank5 += s.size() == 5 ? 1 : 0;
      odd += !s.empty() && s.back() > 1 && s.back() % 2 == 1 ? 1 : 0;
    }
  }
  for (const std::size_t count : {empty, scalar, rank5, odd, symbolic, outputs, shared}) {
    EXPECT_GE(count, 10u);
  }
}

TEST(Minimise, LeavesTheNodeThatFails) {
  const Fails fails = [](const Case& c) { return trace_case(c).ok() && has_node(c, "Transpose"); };
  int found = 0;
  for (const Case& c : some_graphs()) {
    if (!fails(c) || found == 3) continue;
    ++found;
    const Case small = minimise(c, fails);
    EXPECT_EQ(small.model.graph.nodes.size(), 1u);
    EXPECT_EQ(small.model.graph.outputs.size(), 1u);
    EXPECT_EQ(small.model.graph.inputs.size() + small.model.graph.initializers.size(), 1u);
    EXPECT_TRUE(small.symbols.empty());
    for (const auto& [name, value] : small.inputs) {
      EXPECT_LE(elements(value.shape()), 1) << tessera::to_text(value.shape());
    }
  }
  EXPECT_EQ(found, 3);
}

TEST(Minimise, MakesNoSequenceAnOutput) {
  using namespace onnx::testing;
  Case c;
  onnx::Node split = make_node("SplitToSequence", {"x"}, {"parts"});
  onnx::Node pick = make_node("SequenceAt", {"parts", "first"}, {"y"});
  HostTensor first(DType::kI64, {});
  c.model = make_model(
      make_graph({value_info("x", DType::kF32, {3})}, {split, pick}, {"y"}, {{"first", first}}));
  c.inputs["x"] = HostTensor(DType::kF32, {3});
  ASSERT_EQ(check_graph(c, {.compile = false}), "");
  const Case small = minimise(c, [](const Case& next) { return trace_case(next).ok(); });
  ASSERT_EQ(small.model.graph.outputs.size(), 1u);
  EXPECT_EQ(small.model.graph.outputs[0].name, "y");
}

TEST(CheckGraph, InfinitiesAndNansThatPassThroughAreTheSame) {
  using namespace onnx::testing;
  Case c;
  c.model = make_model(make_graph({value_info("x", DType::kF32, {4})},
                                  {make_node("IsNaN", {"x"}, {"y"})}, {"y", "x"}));
  HostTensor x(DType::kF32, {4});
  x.set_float(0, std::numeric_limits<double>::infinity());
  x.set_float(1, -std::numeric_limits<double>::infinity());
  x.set_float(2, std::numeric_limits<double>::quiet_NaN());
  x.set_float(3, 1);
  c.inputs["x"] = x;
  EXPECT_EQ(check_graph(c, {}), "");
}

TEST(CheckGraph, SaysWhichWayFailed) {
  Case c;
  c.model = onnx::testing::make_model(
      onnx::testing::make_graph({onnx::testing::value_info("x", DType::kF32, {3})},
                                {onnx::testing::make_node("Relu", {"x"}, {"y"})}, {"y"}));
  c.inputs["x"] = HostTensor(DType::kF32, {3});
  EXPECT_EQ(check_graph(c, {.compile = false}), "");
  c.inputs["x"] = HostTensor(DType::kF32, {2});  // not what the model declares
  EXPECT_EQ(way_of(check_graph(c, {.compile = false})), "import");
  c.model.graph.nodes[0].op_type = "Reloo";
  EXPECT_EQ(way_of(check_graph(c, {.compile = false})), "oracle");
}

}  // namespace
}  // namespace tessera::fuzz
