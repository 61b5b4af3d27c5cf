#include "tessera/support/model_name.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ModelName, TellsBuiltInNetworksFromFiles) {
  EXPECT_TRUE(is_built_in("zoo:mlp@batch=4"));
  EXPECT_FALSE(is_built_in("mlp"));
  EXPECT_FALSE(is_built_in("folder/zoo:mlp"));
  EXPECT_FALSE(is_built_in(""));
}

TEST(ModelName, TellsModelsFromOtherFiles) {
  EXPECT_TRUE(names_model("zoo:mlp"));
  EXPECT_TRUE(names_model("folder/net.onnx"));
  EXPECT_FALSE(names_model("names.txt"));
}

TEST(ModelName, AddsAndRemovesThePrefixOnce) {
  EXPECT_EQ(without_zoo("zoo:mlp@batch=4"), "mlp@batch=4");
  EXPECT_EQ(without_zoo("net.onnx"), "net.onnx");
  EXPECT_EQ(with_zoo("mlp"), "zoo:mlp");
  EXPECT_EQ(with_zoo("zoo:mlp"), "zoo:mlp");
}

}  // namespace
}  // namespace tessera
