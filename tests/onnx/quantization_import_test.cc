#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"
#include "tessera/frontend/onnx/tensor_io.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor f32(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kF32, shape, v);
}

HostTensor run(const OneNode& node, const std::vector<Operand>& operands) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? y->at(0) : HostTensor();
}

TEST(QuantizeImport, RoundsHalvesToEvenAndSaturates) {
  const HostTensor x = f32({6}, {1, 3, -1, 1000, -1000, 0});
  const HostTensor y = run({.op = "QuantizeLinear", .opset = 10}, {x, f32({}, {2})});
  EXPECT_EQ(y.dtype(), DType::kU8);
  EXPECT_THAT(values_of(y), ElementsAre(0, 2, 0, 255, 0, 0));
  EXPECT_THAT(values_of(run({.op = "QuantizeLinear", .opset = 10},
                            {x, f32({}, {2}), tensor(DType::kI8, {}, {1})})),
              ElementsAre(1, 3, 1, 127, -128, 1));
  EXPECT_THAT(values_of(run({.op = "QuantizeLinear", .opset = 21},
                            {f32({2}, {1e6, -7}), f32({1}, {1}), tensor(DType::kI16, {1}, {0})})),
              ElementsAre(32767, -7));
  EXPECT_THAT(
      values_of(run(
          {.op = "QuantizeLinear", .opset = 21, .attributes = {attr("output_dtype", 4)}},  // uint16
          {f32({2}, {1e6, 7}), f32({}, {1})})),
      ElementsAre(65535, 7));
}

TEST(QuantizeImport, ScalesAlongAnAxis) {
  const HostTensor x = f32({1, 2, 2}, {4, 8, 4, 8}), scale = f32({2}, {2, 4});
  const HostTensor zero_point = tensor(DType::kU8, {2}, {0, 1});
  EXPECT_THAT(values_of(run({.op = "QuantizeLinear", .opset = 13}, {x, scale, zero_point})),
              ElementsAre(2, 4, 2, 3));
  EXPECT_THAT(values_of(run({.op = "QuantizeLinear", .opset = 13, .attributes = {attr("axis", -1)}},
                            {x, scale, zero_point})),
              ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(values_of(run({.op = "QuantizeLinear", .opset = 13}, {f32({2}, {4, 8}), scale})),
              ElementsAre(2, 2));
  EXPECT_THAT(
      refusal({.op = "QuantizeLinear", .opset = 13, .attributes = {attr("axis", 5)}}, {x, scale}),
      HasSubstr("axis 5"));
  EXPECT_THAT(refusal({.op = "QuantizeLinear", .opset = 13}, {x, f32({3}, {1, 1, 1})}),
              HasSubstr("does not lie along axis 1"));
  EXPECT_THAT(refusal({.op = "QuantizeLinear", .opset = 13}, {f32({}, {1}), scale}),
              HasSubstr("axis"));
}

TEST(QuantizeImport, Blocks) {
  const OneNode node = {
      .op = "QuantizeLinear", .opset = 21, .attributes = {attr("axis", 1), attr("block_size", 2)}};
  const HostTensor x = f32({2, 3}, {2, 4, 6, 2, 4, 6}), scale = f32({2, 2}, {1, 2, 2, 1});
  EXPECT_THAT(values_of(run(node, {x, scale})), ElementsAre(2, 4, 3, 1, 2, 6));
  EXPECT_THAT(refusal(node, {x, f32({2, 3}, {1, 1, 1, 1, 1, 1})}), HasSubstr("blocks of 2"));
  const OneNode back = {.op = "DequantizeLinear",
                        .opset = 21,
                        .attributes = {attr("axis", 1), attr("block_size", 2)}};
  EXPECT_THAT(values_of(run(back, {tensor(DType::kI8, {2, 3}, {2, 4, 3, 1, 2, 6}), scale,
                                   tensor(DType::kI8, {2, 2}, {0, 1, 0, 0})})),
              ElementsAre(2, 4, 4, 2, 4, 6));
}

TEST(QuantizeImport, FloatsOfEightBits) {
  const HostTensor zero(DType::kF8E4M3, {});
  const HostTensor y =
      run({.op = "QuantizeLinear", .opset = 19}, {f32({4}, {1, 0.3, -3, 1e4}), f32({}, {2}), zero});
  EXPECT_EQ(y.dtype(), DType::kF8E4M3);
  EXPECT_THAT(values_of(y), ElementsAre(0.5, 0.15625, -1.5, 448));
  EXPECT_THAT(values_of(run({.op = "DequantizeLinear", .opset = 19}, {y, f32({}, {2}), zero})),
              ElementsAre(1, 0.3125, -3, 896));
}

TEST(DequantizeImport, TypesOfDataAndScale) {
  EXPECT_THAT(values_of(run({.op = "DequantizeLinear", .opset = 10},
                            {tensor(DType::kU8, {2}, {0, 255}), f32({}, {0.5}),
                             tensor(DType::kU8, {}, {128})})),
              ElementsAre(-64, 63.5));
  // The difference of large integers is formed before it is rounded to f32.
  EXPECT_THAT(values_of(run({.op = "DequantizeLinear", .opset = 13},
                            {tensor(DType::kI32, {1}, {16777217}), f32({}, {1}),
                             tensor(DType::kI32, {}, {16777216})})),
              ElementsAre(1));
  const HostTensor half = run({.op = "DequantizeLinear", .opset = 19},
                              {tensor(DType::kI8, {1}, {3}), tensor(DType::kF16, {}, {0.5})});
  EXPECT_EQ(half.dtype(), DType::kF16);
  EXPECT_THAT(values_of(half), ElementsAre(1.5));
  EXPECT_THAT(refusal({.op = "DequantizeLinear", .opset = 10},
                      {tensor(DType::kU8, {1}, {0}), f32({}, {1}), tensor(DType::kI8, {}, {0})}),
              HasSubstr("the zero point is i8"));
  EXPECT_THAT(refusal({.op = "DequantizeLinear", .opset = 10}, {f32({1}, {0}), f32({}, {1})}),
              HasSubstr("cannot dequantize f32"));
}

// Two elements per byte: 1, -8, 7 and the zero point -1.
TEST(DequantizeImport, ConstantsOfFourBits) {
  tessera_onnx::TensorProto packed;
  packed.add_dims(3);
  packed.set_data_type(22);
  packed.set_raw_data(std::string("\x81\x07", 2));
  TensorFiles none("");
  const auto data = read_tensor(packed, none);
  ASSERT_TRUE(data.ok()) << data.error().message;
  packed.clear_raw_data();
  packed.clear_dims();
  packed.add_int32_data(15);
  const auto zero_point = read_tensor(packed, none);
  ASSERT_TRUE(zero_point.ok()) << zero_point.error().message;
  const auto import = [&](const char* op, const char* x) {
    const Graph graph =
        make_graph({value_info("f", DType::kF32, {3})}, {make_node(op, {x, "s", "z"}, {"y"})},
                   {"y"}, {{"x", *data}, {"s", f32({}, {2})}, {"z", *zero_point}});
    return import_model(make_model(graph, 21));
  };
  const auto graph = import("DequantizeLinear", "x");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_THAT(values_of(*graph->constant(graph->outputs[0])), ElementsAre(4, -14, 16));
  // Quantizing must saturate at 7, which i8 does not.
  EXPECT_THAT(import("QuantizeLinear", "f").error().message, HasSubstr("'z' is of type int4"));
  packed.add_int32_data(0);
  EXPECT_THAT(read_tensor(packed, none).error().message, HasSubstr("2 bytes for shape"));
}

TEST(DynamicQuantizeImport, ZerosHaveAScale) {
  const auto y = run_node({.op = "DynamicQuantizeLinear", .outputs = 3}, {f32({2}, {0, 0})});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of(y->at(0)), ElementsAre(0, 0));
  EXPECT_THAT(values_of(y->at(1)), ElementsAre(1));
  EXPECT_THAT(values_of(y->at(2)), ElementsAre(0));
}

// Of constants, whatever reads them.
TEST(DequantizeImport, KeepsWeightsUntilTheirReadersAreKnown) {
  const HostTensor q = tensor(DType::kI8, {4, 2}, {1, -2, 3, -4, 5, -6, 7, -8});
  const HostTensor scale = f32({2, 2}, {1, 2, 0.5, 4});
  const HostTensor zero = tensor(DType::kI8, {2, 2}, {0, 1, -1, 2});
  const OneNode node = {.op = "DequantizeLinear",
                        .opset = 21,
                        .attributes = {attr("axis", 0), attr("block_size", 2)}};
  const HostTensor given = run(node, {q, scale, zero});
  EXPECT_THAT(values_of(run(node, {known(q), known(scale), known(zero)})),
              ::testing::ElementsAreArray(values_of(given)));
  for (const Shape& shared : {Shape{}, Shape{1}, Shape{2}, Shape{4}}) {
    HostTensor some(DType::kF32, shared);
    for (std::int64_t i = 0; i < some.size(); ++i) some.set_float(i, 0.5 + static_cast<double>(i));
    const OneNode plain = {.op = "DequantizeLinear",
                           .opset = 21,
                           .attributes = {attr("axis", shared == Shape{4} ? 0 : 1)}};
    EXPECT_THAT(values_of(run(plain, {known(q), known(some)})),
                ::testing::ElementsAreArray(values_of(run(plain, {q, some}))))
        << shared.size();
  }
  EXPECT_THAT(refusal({.op = "DequantizeLinear",
                       .opset = 21,
                       .attributes = {attr("axis", 0), attr("block_size", 3)}},
                      {known(q), known(scale), known(f32({}, {0}))}),
              HasSubstr("the zero point is f32"));
  EXPECT_THAT(refusal({.op = "DequantizeLinear",
                       .opset = 21,
                       .attributes = {attr("axis", 0), attr("block_size", 4)}},
                      {known(q), known(scale)}),
              HasSubstr("does not fit blocks of 4"));
  EXPECT_THAT(
      refusal({.op = "DequantizeLinear", .opset = 21}, {known(q), known(f32({3}, {1, 1, 1}))}),
      HasSubstr("does not lie along axis 1"));
  // Bytes, of which a product and something else make use.
  Graph graph;
  graph.initializers = {{"q", q}, {"s", scale}};
  graph.inputs = {value_info("x", DType::kF32, {1, 4})};
  graph.outputs = {output("y"), output("z"), output("t")};
  graph.nodes = {
      make_node("DequantizeLinear", {"q", "s"}, {"w"}, {attr("axis", 0), attr("block_size", 2)}),
      make_node("MatMul", {"x", "w"}, {"y"}), make_node("Relu", {"w"}, {"z"}),
      make_node("Transpose", {"w"}, {"u"}), make_node("Neg", {"u"}, {"t"})};
  const auto imported = import_model(make_model(std::move(graph), 21));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto y = graph::evaluate(*imported, {f32({1, 4}, {1, 1, 1, 1})});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of(y->at(0)), ElementsAre(10, -68));
  EXPECT_THAT(values_of(y->at(1)), ElementsAre(1, 0, 3, 0, 2.5, 0, 3.5, 0));
  EXPECT_THAT(values_of(y->at(2)), ElementsAre(-1, -3, -2.5, -3.5, 4, 8, 24, 32));
}

}  // namespace
}  // namespace tessera::onnx::testing
