#include "tests/artifact/artifact_fixture.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/backend/artifact/toolchain.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/testing/testing.h"

namespace tessera::artifact {

namespace fs = std::filesystem;
using graph::ValueId;

graph::Graph two_layers() {
  Rng rng(5);
  graph::GraphBuilder b("two layers");
  const ValueId x = b.input("x", {DType::kF32, {5, 24}});
  const auto layer = [&](ValueId in, std::int64_t from, std::int64_t to) {
    const ValueId w = b.constant(random_tensor(DType::kF32, {from, to}, rng), "weight");
    const ValueId bias = b.constant(random_tensor(DType::kF32, {to}, rng), "bias");
    const ValueId product = *b.add("contract", {in, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
    return *b.add("add", {product, bias});
  };
  const ValueId hidden = *b.add("max", {layer(x, 24, 40), b.scalar(DType::kF32, 0)});
  const ValueId y = layer(hidden, 40, 7);
  const ValueId constant = b.constant(random_tensor(DType::kI64, {3}, rng), "anchors");
  return b.finish({y, x, constant}, {"y", "x again", "anchors"});
}

graph::Graph with_topk() {
  graph::GraphBuilder b("topk");
  b.set_origin("TopK /head/topk");
  const ValueId x = b.input("x", {DType::kF32, {4, 9}});
  const auto outputs =
      *b.add_node("topk", {x}, {{"axis", 1}, {"k", 2}, {"largest", 1}, {"sorted", 1}});
  return b.finish({outputs[0]}, {"values"});
}

graph::Graph with_det() {
  graph::GraphBuilder b("det");
  b.set_origin("Det /head/det");
  return b.finish({*b.add("det", {b.input("x", {DType::kF32, {3, 3}})})}, {"y"});
}

graph::Graph nothing() {
  graph::GraphBuilder b("nothing");
  const ValueId x = b.input("x", {DType::kF32, {2, 3}});
  const ValueId empty = b.input("e", {DType::kF32, {0, 3}});
  return b.finish({x, empty}, {"same", "none"});
}

std::vector<HostTensor> inputs_for(const graph::Graph& graph) {
  Rng rng(6);
  std::vector<HostTensor> inputs;
  for (const ValueId id : graph.inputs) {
    inputs.push_back(random_tensor(graph.type(id).dtype, graph.shape(id), rng));
  }
  return inputs;
}

std::vector<HostTensor> expected(const graph::Graph& graph, const std::vector<HostTensor>& inputs) {
  auto outputs = graph::evaluate(graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return *outputs;
}

void expect_close(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(testing::mismatch(got[i], want[i], testing::tolerance(want[i].dtype(), 64)), "") << i;
  }
}

std::string fresh_folder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(::testing::TempDir()) /
                          fmt::format("artifact_{}_{}", test->test_suite_name(), test->name());
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder.string();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& f : fs::directory_iterator(folder)) names.push_back(f.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<HostTensor> run_program(std::vector<std::string> command, const std::string& folder,
                                    const graph::Graph& graph,
                                    const std::vector<HostTensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = fmt::format("{}/in{}", folder, i);
    EXPECT_TRUE(write_file(path, {std::string_view(inputs[i].as<char>(), inputs[i].bytes())}).ok());
    command.push_back(path);
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    command.push_back(fmt::format("{}/out{}", folder, i));
  }
  const auto printed = run_tool(command, folder);
  EXPECT_TRUE(printed.ok()) << printed.error().message;
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < graph.outputs.size() && printed.ok(); ++i) {
    HostTensor t(graph.type(graph.outputs[i]).dtype, graph.shape(graph.outputs[i]));
    const auto bytes = read_file(fmt::format("{}/out{}", folder, i));
    EXPECT_TRUE(bytes.ok() && bytes->size() == t.bytes());
    if (bytes.ok() && bytes->size() == t.bytes()) std::memcpy(t.data(), bytes->data(), t.bytes());
    outputs.push_back(std::move(t));
  }
  return outputs;
}

}  // namespace tessera::artifact
