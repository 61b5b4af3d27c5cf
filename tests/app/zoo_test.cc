// Small instances of the built-in networks: optimised, fused and compiled against every node alone.
#include <cctype>

#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"

namespace tessera::app {
namespace {

// Bytes are multiplied where the machine adds such products by fours, unsigned and signed ones.
TEST(CompileOptions, IntegerProductsByTarget) {
  const auto depth = [](const char* machine) {
    CompileOptions options;
    options.target = *target::find_target(machine);
    return integer_products_for(options);
  };
  EXPECT_EQ(depth("sapphirerapids"), 4);
  EXPECT_EQ(depth("haswell"), 0);
  EXPECT_EQ(depth("neoverse-v1"), 4);
  EXPECT_EQ(depth("neoverse-n1"), 0);
  EXPECT_EQ(depth("h200"), 1);
}

class ZooRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(ZooRuns, AsEveryNodeAlone) {
  const std::string spec = std::string("zoo:") + GetParam();
  ModelBenchOptions options;
  options.threads = 2;
  options.timing = {.sample_s = 0, .samples = 1, .min_samples = 1, .time_limit_s = 0};
  const auto result = bench_model(spec, options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  // Values of few bits are compared where they are made: rounding would hide much at the end.
  const bool narrow =
      spec.find("dtype=") != std::string::npos || spec.find("quant=") != std::string::npos;
  EXPECT_EQ(result->verified_by, narrow ? "the interpreter, kernel by kernel" : "every node alone");
  EXPECT_TRUE(result->bench.verified) << result->bench.max_error << " times what is allowed";
  EXPECT_LE(static_cast<double>(result->arena_bytes),
            1.2 * static_cast<double>(result->live_bytes) + 4096);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, ZooRuns,
    ::testing::Values("bert_mini@layers=1,vocab=64,seq=9,hidden=48,heads=4,ffn=80",
                      "bert_mini@layers=1,vocab=64,seq=9,hidden=48,heads=4,ffn=80,dtype=f16",
                      "dcgan", "dqn@size=44", "efficientnet_b0@size=32,classes=10",
                      "gpt2@layers=1,vocab=64,hidden=48,heads=4,seq=9",
                      "inception_v3@size=96,classes=10", "lenet@batch=3",
                      "llama_block@hidden=32,heads=4,kv_heads=2,ffn=48,seq=9",
                      "lstm_lm@vocab=50,hidden=16,seq=4", "mlp@quant=dynamic", "mlp@quant=qdq",
                      "mobilenet_v3_small@size=40,classes=10", "resnet18@size=40,classes=10",
                      "resnet18@size=40,classes=10,dtype=f16",
                      "resnet18@size=40,classes=10,quant=qdq", "resnet3d_18@size=24,classes=10",
                      "resnext50@size=40,classes=10", "shufflenet@size=40,classes=10",
                      "squeezenet1_1@size=40,classes=10", "vit_tiny@layers=1,size=32,classes=10"),
    [](const auto& test) {
      std::string name;
      for (const char* c = test.param; *c; ++c) name += std::isalnum(*c) != 0 ? *c : '_';
      return name;
    });

}  // namespace
}  // namespace tessera::app
