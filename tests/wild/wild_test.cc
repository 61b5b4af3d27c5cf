// Every model in every way that it can run.
#include "tests/wild/wild.h"

#include <set>

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/staged_model.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/rng.h"
#include "tests/testing/testing.h"

namespace tessera::wild {
namespace {

void expect_outputs(const WildModel& m, const Result<std::vector<HostTensor>>& got,
                    const std::string& how) {
  ASSERT_TRUE(got.ok()) << how << ": " << got.error().message;
  ASSERT_EQ(got->size(), m.want.size()) << how;
  for (std::size_t i = 0; i < m.want.size(); ++i) {
    EXPECT_EQ(tessera::testing::mismatch((*got)[i], m.want[i], m.tolerance), "")
        << how << ", output " << i;
  }
}

class Wild : public ::testing::TestWithParam<WildModel> {};

TEST_P(Wild, NodeByNode) {
  const WildModel& m = GetParam();
  runtime::CpuDevice device({.threads = 1});
  for (const double compile_from : {app::kWorthCompiling, 0.0}) {
    app::NodeEvaluator evaluator(target::host(), device, compile_from);
    expect_outputs(m, app::run_eager(m.model, m.inputs, evaluator),
                   compile_from > 0 ? "interpreted nodes" : "compiled nodes");
  }
}

// Imports with `known` inputs, compiles and runs on the others.
void expect_compiled(const WildModel& m, const std::map<std::string, HostTensor>& known,
                     bool optimize) {
  app::CompileOptions options;
  options.optimize = optimize;
  options.import.values = known;
  const auto graph = app::load_graph(m.model, options);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : graph->inputs) {
    inputs.push_back(m.inputs.at(graph->value(id).name));
  }
  expect_outputs(m, graph::evaluate(*graph, inputs), "interpreter");
  const auto compiled = exec::compile_model(*graph, target::host());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  runtime::CpuDevice device({.threads = 2});
  expect_outputs(m, exec::run_model(*compiled, device, inputs), optimize ? "passes" : "no passes");
}

// As one program. Models that follow from data say so, and compile where the input that decides is
// known.
TEST_P(Wild, Compiled) {
  const WildModel& m = GetParam();
  std::map<std::string, HostTensor> known;
  if (!m.follows_from.empty()) {
    const auto graph = app::load_graph(m.model, {});
    ASSERT_FALSE(graph.ok());
    EXPECT_EQ(graph.error().code, ErrorCode::kDataDependent) << graph.error().message;
    EXPECT_NE(graph.error().message.find(m.follows_from), std::string::npos)
        << graph.error().message;
    if (m.decided_by.empty()) return;
    known[m.decided_by] = m.inputs.at(m.decided_by);
  }
  for (const bool optimize : {true, false}) expect_compiled(m, known, optimize);
}

// Whatever is decided about layouts, algorithms, merging and fusion.
TEST_P(Wild, WithRandomPlans) {
  const WildModel& m = GetParam();
  app::CompileOptions options;
  if (!m.follows_from.empty()) {
    if (m.decided_by.empty()) return;
    options.import.values[m.decided_by] = m.inputs.at(m.decided_by);
  }
  const auto imported = app::import_graph(m.model, options);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : imported->inputs) {
    inputs.push_back(m.inputs.at(imported->value(id).name));
  }
  runtime::CpuDevice device({.threads = 2});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    plan::Decider decider({}, [rng = Rng(seed)](const plan::Point& p) mutable {
      return static_cast<std::int32_t>(rng.below(std::ssize(p.labels)));
    });
    const auto drawn =
        task::apply_plan(*imported, app::passes_for(options), {}, std::move(decider));
    ASSERT_TRUE(drawn.ok()) << drawn.error().message;
    const auto compiled = exec::compile_model(drawn->graph, drawn->tasks, target::host());
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    std::string how;
    for (const plan::Decided& d : drawn->decided) how += d.point.name + " = " + d.text() + "\n";
    expect_outputs(m, exec::run_model(*compiled, device, inputs), how);
  }
}

// What is known is compiled, what waits for data runs on the host unless it decides sizes alone.
TEST_P(Wild, InParts) {
  const WildModel& m = GetParam();
  auto ran = app::run_staged(m.model, m.inputs, {});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  if (m.follows_from.empty()) {
    EXPECT_EQ(ran->host_nodes, 0);
  }
  expect_outputs(m, std::move(ran->outputs), "in parts");
}

TEST_P(Wild, IsSaidToBeSupported) {
  const auto report = onnx::check_model(GetParam().model, {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->unsupported.empty()) << report->unsupported[0].reason;
  EXPECT_EQ(report->data_dependent.empty(), GetParam().follows_from.empty());
}

TEST(WildModels, AreManyAndNamed) {
  std::set<std::string> names;
  for (const WildModel& m : wild_models()) EXPECT_TRUE(names.insert(m.name).second) << m.name;
  EXPECT_GE(names.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Models, Wild, ::testing::ValuesIn(wild_models()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::wild
