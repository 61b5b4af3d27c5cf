// What is said of the types of a model's layers.
#include "tessera/app/compile/layer_types.h"

#include <map>

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

using Counts = std::map<std::string, std::map<std::string, int>>;  // by type, then reason

std::vector<LayerType> layers_of(const std::string& model, const char* target,
                                 const plan::Decisions& decisions = {}) {
  CompileOptions how;
  how.target = target::code_target(*target::find_target(target), 1);
  if (!decisions.empty()) {
    plan::Plan plan;
    plan.target = target::to_text(how.target);
    plan.decisions = decisions;
    how.plan = PlanSchedules::make(plan, how.target, false).value();
  }
  ModelSource source(model);
  const Result<DecidedModel> decided = decide_model(source, how);
  EXPECT_TRUE(decided.ok()) << decided.error().message;
  return decided.ok() ? layer_types(*decided, how) : std::vector<LayerType>();
}

Counts counts(const std::vector<LayerType>& layers) {
  Counts out;
  for (const LayerType& l : layers) {
    EXPECT_NE(l.name, "");
    ++out[l.type][l.reason];
  }
  return out;
}

TEST(LayerTypes, DepthwiseConvolutionsStayFloat) {
  const auto layers = layers_of("zoo:mobilenet_v2@quant=qdq,size=32,classes=10", "sapphirerapids");
  EXPECT_EQ(counts(layers),
            (Counts{{"u8 x i8", {{"the rules", 36}}}, {"f32", {{"depthwise", 17}}}}));
  EXPECT_EQ(layers_line(layers), "36 of 53 layers multiply bytes; 17 in f32: depthwise");
}

TEST(LayerTypes, APlanIsAReason) {
  const auto layers = layers_of("zoo:mlp@quant=qdq", "sapphirerapids", {{"integers", "floats"}});
  const auto count = static_cast<int>(layers.size());
  EXPECT_GT(count, 1);
  EXPECT_EQ(counts(layers), (Counts{{"f32", {{"the plan", count}}}}));
  EXPECT_NE(layers_line(layers).find("in f32: the plan"), std::string::npos);
}

TEST(LayerTypes, WhereThereIsNothingToDecideNothingIsSaid) {
  for (const char* model : {"zoo:mlp", "zoo:mlp@quant=qdq"}) {
    const auto layers = layers_of(model, "haswell");
    EXPECT_GT(layers.size(), 1u) << model;
    for (const auto& [type, reasons] : counts(layers)) {
      EXPECT_EQ(type, "f32");
      EXPECT_EQ(reasons.begin()->first, "the model");
    }
    EXPECT_EQ(layers_line(layers), "");
  }
}

TEST(LayerTypes, TheLineCountsReasonsWhereThereAreSeveral) {
  const std::vector<LayerType> layers = {
      {.name = "a", .type = "u8 x i8", .reason = "the rules", .bytes = true},
      {.name = "b", .type = "f32", .reason = "depthwise"},
      {.name = "c", .type = "f32", .reason = "not quantised"},
      {.name = "d", .type = "f32", .reason = "depthwise"}};
  EXPECT_EQ(layers_line(layers),
            "1 of 4 layers multiply bytes; 3 in f32: 2 depthwise, 1 not quantised");
  EXPECT_EQ(layers_line({{.name = "c", .type = "f32", .reason = "not quantised"}}), "");
}

}  // namespace
}  // namespace tessera::app
