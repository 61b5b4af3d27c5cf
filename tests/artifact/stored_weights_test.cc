// Weights that stay narrow, from the passes to the weights file and the compiled kernels.
#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

struct Weights {
  std::int64_t rows = 1, k = 0, n = 0, bits = 4, group = 32;
  bool zero = false;
};

// x W + bias, where W [n, k] has scales for groups along k.
graph::Graph product(const Weights& w) {
  Rng rng(5);
  graph::GraphBuilder b("product");
  const graph::ValueId x = b.input("x", {DType::kF32, {w.rows, w.k}});
  HostTensor q(DType::kU8, {w.n, w.k});
  for (std::int64_t i = 0; i < q.size(); ++i) q.set_int(i, rng.below(std::int64_t{1} << w.bits));
  const Shape shared = {w.n, (w.k + w.group - 1) / w.group};
  HostTensor zero(DType::kU8, shared);
  for (std::int64_t i = 0; i < zero.size(); ++i)
    zero.set_int(i, w.zero ? rng.below(std::int64_t{1} << w.bits) : 8);
  HostTensor scale(DType::kF32, shared);
  for (std::int64_t i = 0; i < scale.size(); ++i) scale.set_float(i, 0.01 + 0.01 * rng.uniform());
  const graph::ValueId wide =
      *b.add("dequantize", {b.constant(q), b.constant(scale), b.constant(zero)},
             {{"axis", std::int64_t{1}},
              {"group", w.group},
              {"bits", w.bits},
              {"to", std::string("f32")}});
  const graph::ValueId y =
      *b.add("contract", {x, wide},
             {{"a", std::string("ik")}, {"b", std::string("jk")}, {"out", std::string("ij")}});
  const graph::ValueId bias = b.constant(random_tensor(DType::kF32, {w.n}, rng));
  return b.finish({*b.add("add", {y, bias})}, {"y"});
}

graph::Graph stored(graph::Graph graph) {
  graph::PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"storage", "narrow"}});
  EXPECT_TRUE(graph::optimize(graph, options).ok());
  return graph;
}

TEST(StoredWeights, ComputeTheModel) {
  for (const Weights& w : {
           Weights{.k = 64, .n = 37},
           Weights{.rows = 3, .k = 96, .n = 64, .group = 16, .zero = true},
           Weights{
               .rows = 20, .k = 136, .n = 150, .group = 32, .zero = true},  // a short last group
           Weights{.rows = 2, .k = 45, .n = 33, .group = 7, .zero = true},  // bytes
           Weights{.rows = 2, .k = 48, .n = 33, .bits = 2, .group = 8, .zero = true},
           Weights{.k = 70, .n = 130, .bits = 8, .group = 64, .zero = true},
       }) {
    SCOPED_TRACE(fmt::format("m{} k{} n{} bits{} group{}", w.rows, w.k, w.n, w.bits, w.group));
    const graph::Graph graph = product(w);
    const auto inputs = inputs_for(graph);
    const std::string folder = fresh_folder() + fmt::format("/net{}x{}", w.k, w.n);
    const auto report = compile_artifact(stored(graph), target::host(), folder, {.name = "net"});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto loaded = load_artifact(folder, {.threads = 2});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto outputs = (*loaded)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expect_close(*outputs, expected(graph, inputs));
  }
}

// Shares of what the same weights take in f16, packed and in the file.
TEST(StoredWeights, TakeLittleOfTheFile) {
  const auto share = [](const Weights& w) {
    const auto report = compile_artifact(stored(product(w)), target::host(),
                                         fresh_folder() + fmt::format("/net{}", w.bits),
                                         {.name = "net", .weights = WeightsPlace::kFile});
    EXPECT_TRUE(report.ok()) << report.error().message;
    return static_cast<double>(report->metadata.weights_bytes) / static_cast<double>(2 * w.k * w.n);
  };
  EXPECT_LE(share({.k = 1024, .n = 768}), 0.35);
  EXPECT_LE(share({.k = 1024, .n = 768, .group = 128, .zero = true}), 0.30);
  EXPECT_LE(share({.k = 1024, .n = 768, .bits = 8}), 0.6);
  EXPECT_LE(share({.k = 1024, .n = 768, .bits = 2, .group = 64}), 0.20);
}

}  // namespace
}  // namespace tessera::artifact
