// Every network imports, and small ones compute sensible values.
#include "tessera/frontend/onnx/import.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {
namespace {

// The network with few and small tensors: what does not change its structure.
std::string small_spec(const ZooEntry& entry) {
  const bool fixed_size = entry.name.starts_with("vgg") || entry.name == "alexnet";
  std::vector<std::pair<std::string, int>> wanted = {{"classes", 10}, {"vocab", 64},  {"seq", 8},
                                                     {"layers", 2},   {"hidden", 64}, {"heads", 4},
                                                     {"kv_heads", 2}, {"ffn", 96}};
  if (entry.name == "inception_v3") wanted.push_back({"size", 96});
  if (entry.name.starts_with("resnet3d")) wanted.push_back({"size", 32});
  if (!fixed_size && entry.name != "dqn" && entry.name != "lenet") wanted.push_back({"size", 64});
  std::string spec = entry.name;
  char separator = '@';
  std::vector<std::string> taken;
  for (const auto& [name, value] : wanted) {
    const auto has = [&n = name](const ZooParam& p) { return p.name == n; };
    if (std::ranges::none_of(entry.params, has)) continue;
    if (std::ranges::count(taken, name) > 0) continue;
    taken.push_back(name);
    spec += separator + name + "=" + std::to_string(value);
    separator = ',';
  }
  return spec;
}

void expect_imports(const std::string& spec) {
  const auto model = make_model(spec);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto graph = onnx::import_model(*model);
  ASSERT_TRUE(graph.ok()) << spec << ": " << graph.error().message;
  ASSERT_EQ(graph->outputs.size(), model->graph.outputs.size());
  for (std::size_t i = 0; i < graph->outputs.size(); ++i) {
    Shape declared;
    for (const onnx::Dim& d : model->graph.outputs[i].dims) declared.push_back(d.size);
    EXPECT_EQ(graph->shape(graph->outputs[i]), declared) << spec;
  }
}

class Imports : public ::testing::TestWithParam<std::string> {};

TEST_P(Imports, WithTheDeclaredShapes) { expect_imports(GetParam()); }

std::vector<std::string> small_specs() {
  std::vector<std::string> specs;
  for (const ZooEntry& entry : zoo_table()) specs.push_back(small_spec(entry));
  for (const char* spec :
       {"resnet18@size=64,quant=qdq", "mobilenet_v2@size=64,quant=qdq", "mlp@quant=dynamic",
        "mlp@quant=qdq", "resnet18@size=64,dtype=f16", "mobilenet_v2@size=64,dtype=f16",
        "bert_base@layers=1,vocab=64,hidden=96,dtype=f16", "resnet18@size=64,dtype=bf16",
        "bert_base@layers=1,vocab=64,hidden=96,dtype=bf16",
        "gpt2@layers=1,vocab=64,hidden=24,seq=8,dtype=bf16", "vit_tiny@layers=1,batch=2,size=32"}) {
    specs.emplace_back(spec);
  }
  return specs;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Imports, ::testing::ValuesIn(small_specs()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// Random inputs as runs draw them; token ids are small, masks all ones.
std::vector<HostTensor> random_inputs(const onnx::Model& model, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<HostTensor> inputs;
  for (const onnx::ValueInfo& info : model.graph.inputs) {
    Shape shape;
    for (const onnx::Dim& d : info.dims) shape.push_back(d.size);
    HostTensor tensor = random_tensor(*dtype_from_text(info.type), shape, rng);
    for (std::int64_t i = 0; tensor.dtype() == DType::kI64 && i < tensor.size(); ++i) {
      tensor.set_int(i, info.name == "attention_mask" ? 1 : rng.below(2));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

class Values : public ::testing::TestWithParam<const char*> {};

TEST_P(Values, StayAroundOneAndDependOnTheInput) {
  const auto model = make_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto graph = onnx::import_model(*model);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const auto one = graph::evaluate(*graph, random_inputs(*model, 1));
  const auto other = graph::evaluate(*graph, random_inputs(*model, 2));
  ASSERT_TRUE(one.ok()) << one.error().message;
  ASSERT_TRUE(other.ok()) << other.error().message;
  double squares = 0, difference = 0;
  const HostTensor& y = (*one)[0];
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const double delta = y.get_float(i) - (*other)[0].get_float(i);
    squares += y.get_float(i) * y.get_float(i);
    difference += delta * delta;
  }
  const double rms = std::sqrt(squares / static_cast<double>(y.size()));
  EXPECT_GT(rms, 0.1);
  EXPECT_LT(rms, 10);
  EXPECT_GT(std::sqrt(difference / squares), 0.01);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Values,
    ::testing::Values("mlp", "mlp@dtype=f16", "mlp@dtype=bf16", "mlp@quant=qdq",
                      "bert_mini@layers=1,vocab=64,hidden=32,seq=8,ffn=64,dtype=bf16",
                      "mlp@quant=dynamic", "lenet", "mlp@layers=60,hidden=64",
                      "bert_mini@layers=2,vocab=64,hidden=32,seq=8,ffn=64",
                      "gpt2@layers=2,vocab=64,hidden=24,seq=8",
                      "llama_block@hidden=32,heads=4,kv_heads=2,ffn=48,seq=8",
                      "lstm_lm@vocab=50,hidden=16,seq=4", "dqn@size=44"));

}  // namespace
}  // namespace tessera::zoo
