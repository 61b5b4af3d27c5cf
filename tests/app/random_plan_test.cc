// Any legal plan of a network computes what the network does, and is the same when it is replayed.
#include <cctype>

#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/frontend/plan/pointwise.h"
#include "tessera/frontend/task/plan_space.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

class RandomPlan : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int kPlans = 3;
};

TEST_P(RandomPlan, ComputesWhatTheInterpreterDoes) {
  CompileOptions load;
  const auto imported = import_undecided(std::string("zoo:") + GetParam(), load);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const graph::ValueId id : imported->inputs) {
    names.push_back(imported->value(id).name);
    types.push_back(imported->type(id));
  }
  const std::vector<HostTensor> inputs = random_model_inputs(names, types, 3);
  const auto want = graph::evaluate(*imported, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  runtime::CpuDevice device({.threads = 2});
  const auto space = task::PlanSpace::make(*imported, passes_for(load), {});
  ASSERT_TRUE(space.ok()) << space.error().message;
  Rng rng(1);
  for (int i = 0; i < kPlans; ++i) {
    const auto drawn = task::apply_plan(*imported, passes_for(load), {},
                                        plan::Decider(space->decisions(space->sample(rng))));
    ASSERT_TRUE(drawn.ok()) << drawn.error().message;
    ASSERT_FALSE(drawn->decided.empty());
    plan::Decisions decisions;
    for (const plan::Decided& d : drawn->decided) decisions[d.point.name] = d.text();
    SCOPED_TRACE(plan::to_text(decisions));
    const auto again = task::apply_plan(*imported, passes_for(load), {}, plan::Decider(decisions));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(graph::to_text(again->graph), graph::to_text(drawn->graph));
    ASSERT_EQ(again->tasks.tasks.size(), drawn->tasks.tasks.size());
    for (std::size_t t = 0; t < again->tasks.tasks.size(); ++t) {
      EXPECT_EQ(again->tasks.tasks[t].key, drawn->tasks.tasks[t].key);
    }
    const auto model = exec::compile_model(drawn->graph, drawn->tasks, target::host());
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto got = exec::run_model(*model, device, inputs);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_LE(worst_output(drawn->graph, *got, *want), 1);
  }
}

// Every 1x1 convolution behind a depthwise one is computed in its kernel.
TEST(ChainedPlan, ComputesWhatTheInterpreterDoes) {
  CompileOptions load;
  for (const char* network :
       {"mobilenet_v2@size=40,classes=10", "shufflenet_v2_x1_0@batch=2,size=40",
        "mnasnet1_0@size=33,classes=10"}) {
    SCOPED_TRACE(network);
    const auto imported = import_graph(std::string("zoo:") + network, load);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    const auto rules = task::apply_plan(*imported, passes_for(load), {}, plan::Decider());
    const auto chained =
        task::apply_plan(*imported, passes_for(load), {},
                         plan::Decider(plan::Decisions{{"pointwise", plan::kChained}}));
    ASSERT_TRUE(rules.ok() && chained.ok());
    EXPECT_LT(chained->tasks.calls.size() + 8, rules->tasks.calls.size());
    const auto model = exec::compile_model(chained->graph, chained->tasks, target::host());
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::vector<HostTensor> inputs =
        random_model_inputs(model->input_names, model->input_types, 3);
    const auto want = graph::evaluate(*imported, inputs);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (const int threads : {1, 2}) {
      runtime::CpuDevice device({.threads = threads});
      const auto got = exec::run_model(*model, device, inputs);
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_LE(worst_output(chained->graph, *got, *want), 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Networks, RandomPlan,
    ::testing::Values("bert_mini@layers=1,vocab=64,seq=9,hidden=48,heads=4,ffn=80", "lenet",
                      "dcgan@size=16", "googlenet@size=32,classes=10", "mlp@quant=qdq",
                      "mobilenet_v3_small@size=40,classes=10", "resnet18@size=32,classes=10",
                      "shufflenet@size=40,classes=10", "squeezenet1_1@size=40,classes=10"),
    [](const auto& test) {
      std::string name;
      for (const char* c = test.param; *c; ++c) name += std::isalnum(*c) != 0 ? *c : '_';
      return name;
    });

}  // namespace
}  // namespace tessera::app
