// An artifact computes what `tessera run` does, bit for bit: the same kernels in the same order.
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

struct Case {
  const char* model;
  int threads;
};

class SameBits : public ::testing::TestWithParam<Case> {};

TEST_P(SameBits, AsTheModelInThisProcess) {
  const auto& [name, threads] = GetParam();
  const target::Target target = target::code_target(target::host(), threads);

  // As `tessera compile` does without a cost model.
  app::CompileOptions decide;
  decide.target = target;
  app::ModelSource source(name);
  const auto decided = app::decide_model(source, decide);
  ASSERT_TRUE(decided.ok()) << decided.error().message;
  const std::string folder = fresh_folder() + "/net";
  ArtifactOptions options;
  options.name = "net";
  options.model = decided->build;
  const auto report = compile_artifact(decided->graph, decided->tasks, target, folder, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto artifact = load_artifact(folder, {.threads = threads});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;

  // As `tessera run` does.
  const auto prepared = app::prepare_model(source, decide);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;

  const std::vector<HostTensor> inputs = app::random_model_inputs(decided->graph, 1);
  runtime::CpuDevice device({.threads = threads});
  const auto want = exec::run_model(prepared->model, device, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  const auto got = (*artifact)->run(inputs);
  ASSERT_TRUE(got.ok()) << got.error().message;
  ASSERT_EQ(got->size(), want->size());
  for (std::size_t o = 0; o < want->size(); ++o) {
    ASSERT_EQ((*got)[o].bytes(), (*want)[o].bytes());
    EXPECT_EQ(std::memcmp((*got)[o].data(), (*want)[o].data(), (*want)[o].bytes()), 0)
        << "output " << o;
  }
}

constexpr Case kCases[] = {
    {"zoo:resnet18@size=64,classes=10", 1},
    {"zoo:resnet18@size=64,classes=10", 2},
    {"zoo:mobilenet_v2@size=40,classes=10", 2},
    {"zoo:squeezenet1_1@size=48,classes=10", 1},
    {"zoo:bert_mini@seq=24,layers=2,vocab=200", 2},
    {"zoo:lstm_lm@seq=3,layers=1,hidden=96,vocab=120", 1},
    {"zoo:dcgan@size=32,latent=20", 2},
    {"zoo:mlp@quant=qdq", 2},
    {"zoo:mlp@quant=dynamic", 1},
};

INSTANTIATE_TEST_SUITE_P(Zoo, SameBits, ::testing::ValuesIn(kCases), [](const auto& test) {
  const std::string name = test.param.model;
  return fmt::format("{}_{}", name.substr(4, name.find('@') - 4), test.index);
});

}  // namespace
}  // namespace tessera::artifact
