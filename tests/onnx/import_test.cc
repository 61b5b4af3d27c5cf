#include "tessera/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_builder.h"

namespace tessera::onnx {
namespace {

using ::testing::HasSubstr;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using testing::value_info;

TEST(Import, FoldsShape) {
  const Model model = make_model(make_graph({value_info("x", DType::kF32, {2, 3})},
                                            {make_node("Shape", {"x"}, {"s"})}, {"s"}));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_TRUE(graph->nodes.empty());
  const HostTensor* s = graph->constant(graph->outputs[0]);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->get_int(0), 2);
  EXPECT_EQ(s->get_int(1), 3);
}

}  // namespace
}  // namespace tessera::onnx
