// Every network: well-formed, and with the published number of parameters and operators.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {
namespace {

// Trained parameters: without the statistics of batch normalisation and constant tables.
std::int64_t parameters(const onnx::Model& model) {
  std::int64_t total = 0;
  for (const onnx::Initializer& init : model.graph.initializers) {
    if (init.name.find(".running_") != std::string::npos) continue;
    if (init.name == "attn.bias" || init.name == "causal_mask") continue;
    if (init.name.starts_with("rotary.")) continue;
    total += std::get<HostTensor>(init.value).size();
  }
  return total;
}

struct Published {
  const char* network;
  std::int64_t parameters;
};

class ParameterCount : public ::testing::TestWithParam<Published> {};

TEST_P(ParameterCount, IsThePublishedOne) {
  const auto model = make_model(GetParam().network, {.fill_weights = false});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(parameters(*model), GetParam().parameters);
}

// torchvision and transformers; BERT with embeddings and pooler, GPT-2 with its output layer tied.
constexpr Published kPublished[] = {
    {"alexnet", 61'100'840},
    {"bert_base", 109'482'240},
    {"bert_large", 335'141'888},
    {"bert_mini", 11'170'560},
    {"bert_small", 28'763'648},
    {"dcgan", 3'576'704},
    {"densenet121", 7'978'856},
    {"densenet169", 14'149'480},
    {"efficientnet_b0", 5'288'548},
    {"efficientnet_b1", 7'794'184},
    {"efficientnet_b2", 9'109'994},
    {"efficientnet_b3", 12'233'232},
    {"efficientnet_b4", 19'341'616},
    {"googlenet", 6'624'904},
    {"gpt2", 124'439'808},
    {"inception_v3", 23'834'568},
    {"lenet", 61'706},
    {"lstm_lm", 19'780'400},
    {"mnasnet1_0", 4'383'312},
    {"mobilenet_v2", 3'504'872},
    {"mobilenet_v3_large", 5'483'032},
    {"mobilenet_v3_small", 2'542'856},
    {"resnet101", 44'549'160},
    {"resnet152", 60'192'808},
    {"resnet18", 11'689'512},
    {"resnet34", 21'797'672},
    {"resnet3d_18", 33'371'472},
    {"resnet50", 25'557'032},
    {"resnext101_32x8d", 88'791'336},
    {"resnext50_32x4d", 25'028'904},
    {"shufflenet_v2_x1_0", 2'278'604},
    {"squeezenet1_0", 1'248'424},
    {"squeezenet1_1", 1'235'496},
    {"vgg11", 132'863'336},
    {"vgg13", 133'047'848},
    {"vgg16", 138'357'544},
    {"vgg19", 143'667'240},
    {"vit_b_16", 86'567'656},
    {"vit_s_16", 22'050'664},
    {"vit_tiny", 5'717'416},
    {"wide_resnet101_2", 126'886'696},
    {"wide_resnet50_2", 68'883'240},
};

INSTANTIATE_TEST_SUITE_P(Networks, ParameterCount, ::testing::ValuesIn(kPublished),
                         [](const auto& test) { return std::string(test.param.network); });

// Names are defined before they are used, and once; every weight is used.
void expect_well_formed(const onnx::Graph& graph) {
  std::set<std::string> defined, used, node_names;
  const auto define = [&](const std::string& name) {
    EXPECT_TRUE(defined.insert(name).second) << name << " is defined twice";
  };
  for (const onnx::ValueInfo& input : graph.inputs) define(input.name);
  for (const onnx::Initializer& init : graph.initializers) define(init.name);
  for (const onnx::Node& node : graph.nodes) {
    EXPECT_TRUE(node_names.insert(node.name).second) << node.name;
    for (const std::string& name : node.inputs) {
      EXPECT_TRUE(defined.contains(name)) << node.name << " reads " << name;
      used.insert(name);
    }
    for (const std::string& name : node.outputs) define(name);
  }
  for (const onnx::ValueInfo& output : graph.outputs) {
    EXPECT_TRUE(defined.contains(output.name)) << output.name;
    EXPECT_TRUE(output.has_shape);
  }
  for (const onnx::Initializer& init : graph.initializers) {
    EXPECT_TRUE(used.contains(init.name)) << init.name << " is not used";
  }
}

class WellFormed : public ::testing::TestWithParam<const char*> {};

TEST_P(WellFormed, Graph) {
  const auto model = make_model(GetParam(), {.fill_weights = false});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const bool bf16 = std::string_view(GetParam()).find("dtype=bf16") != std::string_view::npos;
  EXPECT_EQ(model->opsets.at(""), bf16 ? 22 : 17);
  expect_well_formed(model->graph);
}

INSTANTIATE_TEST_SUITE_P(Variants, WellFormed,
                         ::testing::Values("resnet18@quant=qdq", "resnet50@quant=qdq,batch=2",
                                           "mobilenet_v2@quant=qdq", "mlp@quant=dynamic",
                                           "mlp@quant=qdq", "bert_mini@dtype=f16,batch=2",
                                           "bert_mini@dtype=bf16", "resnet18@dtype=bf16",
                                           "llama_block@kv_heads=32,hidden=256", "dcgan@size=96",
                                           "vit_tiny@batch=3", "lstm_lm@seq=1,layers=1"));

TEST(WellFormedNetworks, EveryEntryWithItsDefaults) {
  for (const ZooEntry& entry : zoo_table()) {
    SCOPED_TRACE(entry.name);
    const auto model = make_model(entry.name, {.fill_weights = false});
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->graph.name, entry.name);
    expect_well_formed(model->graph);
  }
}

std::map<std::string, int> operators(const char* spec) {
  const auto model = make_model(spec, {.fill_weights = false});
  EXPECT_TRUE(model.ok());
  std::map<std::string, int> counts;
  for (const onnx::Node& node : model->graph.nodes) ++counts[node.op_type];
  return counts;
}

// The counts of the PyTorch exporter, which folds batch normalisation into Conv.
TEST(Operators, MatchThePyTorchExport) {
  auto ops = operators("resnet50");
  EXPECT_EQ(ops["Conv"], 53);
  EXPECT_EQ(ops["BatchNormalization"], 53);
  EXPECT_EQ(ops["Relu"], 49);
  EXPECT_EQ(ops["Add"], 16);
  ops = operators("mobilenet_v2");
  EXPECT_EQ(ops["Clip"], 35);
  EXPECT_EQ(ops["Conv"], 52);
  EXPECT_EQ(ops["Add"], 10);
  ops = operators("mobilenet_v3_large");
  EXPECT_EQ(ops["HardSwish"], 21);
  EXPECT_EQ(ops["HardSigmoid"], 8);
  EXPECT_EQ(ops["Conv"], 62);
  ops = operators("efficientnet_b0");
  EXPECT_EQ(ops["Conv"], 81);
  EXPECT_EQ(ops["Sigmoid"], 65);
  EXPECT_EQ(ops["Mul"], 65);
  ops = operators("inception_v3");
  EXPECT_EQ(ops["Conv"], 94);
  EXPECT_EQ(ops["Concat"], 11);
  EXPECT_EQ(ops["AveragePool"], 9);
  ops = operators("densenet121");
  EXPECT_EQ(ops["Conv"], 120);
  EXPECT_EQ(ops["Concat"], 62);
  ops = operators("shufflenet");
  EXPECT_EQ(ops["Conv"], 56);
  EXPECT_EQ(ops["Slice"], 26);
  EXPECT_EQ(ops["Shape"], 13);
}

TEST(Operators, TransformersMatchThePyTorchExport) {
  auto ops = operators("bert_base");
  EXPECT_EQ(ops["MatMul"], 96);
  EXPECT_EQ(ops["Softmax"], 12);
  EXPECT_EQ(ops["Erf"], 12);
  EXPECT_EQ(ops["Gather"], 4);
  EXPECT_EQ(ops["ReduceMean"], 50);  // 25 decomposed LayerNorms
  EXPECT_EQ(ops["LayerNormalization"], 0);
  ops = operators("gpt2");
  EXPECT_EQ(ops["Gemm"], 48);
  EXPECT_EQ(ops["MatMul"], 25);
  EXPECT_EQ(ops["LayerNormalization"], 25);
  EXPECT_EQ(ops["Where"], 12);
  EXPECT_EQ(ops["Tanh"], 12);
  ops = operators("lstm_lm");
  EXPECT_EQ(ops["LSTM"], 2);
}

TEST(Operators, QuantisedFormHasNoNormalisation) {
  auto ops = operators("resnet18@quant=qdq");
  EXPECT_EQ(ops["Conv"], 20);
  EXPECT_EQ(ops["BatchNormalization"], 0);
  // Input, 20 Convs, pool, 8 additions, average, Gemm.
  EXPECT_EQ(ops["QuantizeLinear"], 32);
  EXPECT_EQ(ops["DequantizeLinear"], 32 + 2 * 21);  // weight and bias of 21 layers
  ops = operators("mlp@quant=dynamic");
  EXPECT_EQ(ops["DynamicQuantizeLinear"], 3);
  EXPECT_EQ(ops["MatMulInteger"], 3);
}

}  // namespace
}  // namespace tessera::zoo
