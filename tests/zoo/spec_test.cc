#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {
namespace {

struct Refusal {
  const char* name;
  const char* spec;
  const char* message;  // part of it
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheReason) {
  const auto model = make_model(GetParam().spec, {.fill_weights = false});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(model.error().message.find(GetParam().message), std::string::npos)
      << "got: " << model.error().message;
}

constexpr Refusal kRefusals[] = {
    {"empty", "", "unknown network ''"},
    {"prefix_only", "zoo:", "unknown network ''"},
    {"misspelt", "resnet5", "unknown network 'resnet5'; did you mean 'resnet50'?"},
    {"misspelt_alias", "squeezenett", "did you mean 'squeezenet'?"},
    {"unknown_parameter", "resnet18@sise=224", "unknown parameter 'sise'; did you mean 'size'?"},
    {"parameter_of_another", "resnet18@seq=8", "resnet18: unknown parameter 'seq'"},
    {"nothing_follows", "resnet18@", "nothing follows '@'"},
    {"trailing_comma", "resnet18@size=64,", "resnet18: trailing comma"},
    {"no_value", "resnet18@size=", "'size=' is not NAME=VALUE"},
    {"no_equals", "resnet18@size", "'size' is not NAME=VALUE"},
    {"twice", "resnet18@size=64,size=64", "size is given twice"},
    {"word_twice", "resnet18@dtype=f16,dtype=f16", "dtype is given twice"},
    {"not_a_number", "resnet18@size=big", "size=big is not an integer"},
    {"overflow", "resnet18@size=99999999999999999999", "is not an integer"},
    {"zero", "resnet18@batch=0", "batch=0 is outside 1..65536"},
    {"negative", "resnet18@batch=-1", "batch=-1 is outside"},
    {"huge", "resnet18@size=8193", "size=8193 is outside 1..8192"},
    {"dtype", "resnet18@dtype=f64", "dtype=f64 is not one of f32, f16, bf16"},
    {"quant", "resnet18@quant=int4", "quant=int4 is not one of none, qdq"},
    {"quant_half", "mobilenet_v2@quant=qdq,dtype=f16", "quant=qdq needs dtype=f32"},
    {"dynamic_half", "mlp@quant=dynamic,dtype=f16", "quant=dynamic needs dtype=f32"},
    {"too_small", "inception_v3@size=32", "does not fit the padded input"},
    {"too_small_pool", "vgg16@size=16", "MaxPool: a window of 2 does not fit"},
    {"vgg_fraction", "vgg16@size=256", "features of 8x8 do not divide into 7x7"},
    {"dcgan_size", "dcgan@size=72", "size=72 is not a multiple of 16"},
    {"patch", "vit_tiny@size=225", "size=225 is not a multiple of 16"},
    {"heads", "bert_base@heads=7", "hidden=768 is not a multiple of heads=7"},
    {"kv_heads", "llama_block@kv_heads=3", "heads=32 is not a multiple of kv_heads=3"},
    {"odd_head", "llama_block@hidden=96", "need an even head size, not 3"},
    {"positions", "bert_base@seq=513", "seq=513 is outside 1..512"},
    {"large_weights", "mlp@inputs=65536,hidden=65536,layers=3", "the weights would exceed 4 GiB"},
    {"large_qdq", "mlp@inputs=65536,hidden=65536,quant=qdq", "the weights would exceed 4 GiB"},
    {"large_dynamic", "mlp@inputs=65536,hidden=65536,quant=dynamic", "weights would exceed 4 GiB"},
    {"large_values", "vgg16@batch=65536,size=8064", "too large"},
};

INSTANTIATE_TEST_SUITE_P(Spec, Refused, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Spec, PrefixAndAliasesNameTheSameNetwork) {
  for (const char* spec : {"squeezenet1_1", "squeezenet", "zoo:squeezenet"}) {
    EXPECT_EQ(*canonical_spec(spec), "squeezenet1_1@batch=1,classes=1000,size=224,dtype=f32")
        << spec;
  }
  EXPECT_EQ(*canonical_spec("mlp@quant=qdq,layers=0"),
            "mlp@batch=1,classes=10,hidden=256,inputs=784,layers=0,dtype=f32,quant=qdq");
}

TEST(Spec, TableIsSortedWithDistinctNames) {
  std::string last;
  std::vector<std::string> names;
  for (const ZooEntry& entry : zoo_table()) {
    EXPECT_LT(last, entry.name);
    last = entry.name;
    EXPECT_FALSE(entry.doc.empty());
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Spec, SettingsReachTheInputs) {
  const auto image = make_model("resnet18@size=240,batch=4", {.fill_weights = false});
  ASSERT_TRUE(image.ok());
  const auto& dims = image->graph.inputs[0].dims;
  ASSERT_EQ(dims.size(), 4u);
  EXPECT_EQ(dims[0].size, 4);
  EXPECT_EQ(dims[2].size, 240);
  const auto text = make_model("bert_mini@seq=64,batch=2,layers=1", {.fill_weights = false});
  ASSERT_TRUE(text.ok());
  ASSERT_EQ(text->graph.inputs.size(), 3u);
  for (const onnx::ValueInfo& input : text->graph.inputs) {
    EXPECT_EQ(input.type, "i64");
    EXPECT_EQ(input.dims[0].size, 2);
    EXPECT_EQ(input.dims[1].size, 64);
  }
}

}  // namespace
}  // namespace tessera::zoo
