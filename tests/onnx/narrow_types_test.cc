// Weights of 2, 4 and 8 bits: every pattern, through the operators that may stand before their use.
#include "tessera/frontend/onnx/narrow_types.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"
#include "tessera/frontend/onnx/tensor_io.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double decode(const char* type, unsigned bits) { return find_narrow_type(type)->decode(bits); }

// Landmarks from the definitions of the formats: smallest, one, largest, what follows.
TEST(NarrowTypes, Landmarks) {
  struct Landmark {
    const char* type;
    unsigned bits;
    double value;
  };
  for (const Landmark& m : {Landmark{"float8e4m3fnuz", 0x01, std::ldexp(1, -10)},
                            {"float8e4m3fnuz", 0x40, 1},
                            {"float8e4m3fnuz", 0x7f, 240},
                            {"float8e4m3fnuz", 0x80, kNan},
                            {"float8e5m2fnuz", 0x01, std::ldexp(1, -17)},
                            {"float8e5m2fnuz", 0x40, 1},
                            {"float8e5m2fnuz", 0x7f, 57344},
                            {"float8e5m2fnuz", 0x80, kNan},
                            {"float8e8m0", 0x7f, 1},
                            {"float8e8m0", 0x00, std::ldexp(1, -127)},
                            {"float8e8m0", 0xff, kNan},
                            {"float4e2m1", 0x1, 0.5},
                            {"float4e2m1", 0x7, 6},
                            {"float4e2m1", 0xf, -6},
                            {"int4", 0x8, -8},
                            {"int4", 0x7, 7},
                            {"uint4", 0xf, 15},
                            {"int2", 0x2, -2},
                            {"int2", 0x3, -1},
                            {"uint2", 0x3, 3}}) {
    const double got = decode(m.type, m.bits);
    EXPECT_TRUE(got == m.value || (std::isnan(got) && std::isnan(m.value)))
        << m.type << ' ' << m.bits << ": " << got;
  }
  EXPECT_EQ(find_narrow_type("string"), nullptr);
}

// A positive pattern is larger than the one before it.
TEST(NarrowTypes, ValuesFollowTheBits) {
  for (const char* type : {"float8e4m3fnuz", "float8e5m2fnuz", "float4e2m1"}) {
    const unsigned end = 1U << (find_narrow_type(type)->bits - 1);
    for (unsigned bits = 1; bits < end; ++bits) {
      const double here = decode(type, bits);
      if (std::isnan(here)) continue;
      EXPECT_GT(here, decode(type, bits - 1)) << type << ' ' << bits;
      EXPECT_EQ(decode(type, bits + end), -here) << type << ' ' << bits;
    }
  }
}

Result<AnyTensor> stored(int onnx_type, std::int64_t count, const std::string& bytes) {
  tessera_onnx::TensorProto proto;
  proto.add_dims(count);
  proto.set_data_type(onnx_type);
  proto.set_raw_data(bytes);
  TensorFiles none("");
  return read_tensor(proto, none);
}

TEST(NarrowTypes, PackedFromTheLowBitsOn) {
  const auto two = stored(26, 5, "\xe4\x01");  // int2: 0 1 2 3, 1
  ASSERT_TRUE(two.ok()) << two.error().message;
  EXPECT_THAT(values_of(*std::get<ForeignTensor>(*two).widened), ElementsAre(0, 1, -2, -1, 1));
  EXPECT_THAT(stored(26, 5, "\xe4").error().message, HasSubstr("1 bytes for shape 5 of int2"));
  EXPECT_THAT(stored(18, 2, "\x38").error().message, HasSubstr("of float8e4m3fnuz"));
}

// x * dequantized weights, where the weights pass `nodes` first ("w" to "v").
Result<std::vector<HostTensor>> times_weights(const AnyTensor& weights, std::vector<Node> nodes) {
  nodes.push_back(make_node("DequantizeLinear", {"v", "s"}, {"d"}));
  nodes.push_back(make_node("MatMul", {"x", "d"}, {"y"}));
  const HostTensor x = tensor(DType::kF32, {1, 2}, {1, 10});
  TESSERA_TRY(
      const graph::Graph graph,
      import_model(make_model(make_graph({value_info("x", DType::kF32, {1, 2})}, nodes, {"y"},
                                         {{"w", weights},
                                          {"s", tensor(DType::kF32, {}, {0.5})},
                                          {"shape", int_tensor({2}, {3, 2})}}),
                              21)));
  return graph::evaluate(graph, {x});
}

TEST(NarrowTypes, MovedThenDequantized) {
  // 1 2 3 4 5 6 as [3, 2], transposed: columns 1 2, 3 4, 5 6.
  const std::vector<Node> moves = {make_node("Reshape", {"w", "shape"}, {"r"}),
                                   make_node("Transpose", {"r"}, {"t"}),
                                   make_node("Identity", {"t"}, {"v"})};
  for (const auto& [type, bytes] :
       {std::pair(22, std::string("\x21\x43\x65")), std::pair(21, std::string("\x21\x43\x65")),
        std::pair(17, std::string("\x38\x40\x44\x48\x4a\x4c")),
        std::pair(18, std::string("\x40\x48\x4c\x50\x52\x54")),
        std::pair(19, std::string("\x3c\x40\x42\x44\x45\x46")),
        std::pair(20, std::string("\x40\x44\x46\x48\x49\x4a"))}) {
    const auto weights = stored(type, 6, bytes);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const auto y = times_weights(*weights, moves);
    ASSERT_TRUE(y.ok()) << element_type_name(type) << ": " << y.error().message;
    EXPECT_THAT(values_of((*y)[0]), ElementsAre(10.5, 21.5, 32.5)) << element_type_name(type);
  }
}

TEST(NarrowTypes, CastToNumbers) {
  const auto weights = stored(17, 3, "\x38\xc0\x7e");
  ASSERT_TRUE(weights.ok());
  const auto graph = import_model(
      make_model(make_graph({}, {make_node("Cast", {"w"}, {"y"}, {attr("to", std::int64_t{10})})},
                            {"y"}, {{"w", *weights}}),
                 21));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const HostTensor* y = graph->constant(graph->outputs[0]);
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->dtype(), DType::kF16);
  EXPECT_THAT(values_of(*y), ElementsAre(1, -2, 448));
}

// Arithmetic on the narrow type itself would need its rounding.
TEST(NarrowTypes, OtherOperatorsRefuse) {
  const auto weights = stored(22, 2, "\x21");
  ASSERT_TRUE(weights.ok());
  for (const bool moved : {false, true}) {
    std::vector<Node> nodes = {make_node("Neg", {moved ? "v" : "w"}, {"y"})};
    if (moved) nodes.insert(nodes.begin(), make_node("Identity", {"w"}, {"v"}));
    const auto graph =
        import_model(make_model(make_graph({}, nodes, {"y"}, {{"w", *weights}}), 21));
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(graph.error().message, HasSubstr("is of type int4"));
  }
}

// Written, read again: every value of each type of integers, the last byte half empty.
TEST(NarrowTypes, IntegersAreWrittenAsTheyWere) {
  for (const NarrowType& type : narrow_types()) {
    if (!is_int(type.wide)) continue;
    const std::int64_t patterns = 1 << type.bits;
    HostTensor values(type.wide, {1, patterns + 1});
    for (std::int64_t i = 0; i < values.size(); ++i)
      values.set_int(i,
                     static_cast<std::int64_t>(type.decode(static_cast<unsigned>(i % patterns))));
    Model model;
    model.opsets[""] = 21;
    model.graph.initializers.push_back({"w", ForeignTensor{type.name, values}});
    const auto bytes = serialize_model(model);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    const auto back = parse_model(*bytes, "");
    ASSERT_TRUE(back.ok()) << back.error().message;
    const auto& w = std::get<ForeignTensor>(back->graph.initializers[0].value);
    EXPECT_EQ(w.type, type.name);
    EXPECT_EQ(w.widened->shape(), values.shape());
    EXPECT_EQ(values_of(*w.widened), values_of(values)) << type.name;
  }
}

TEST(NarrowTypes, FloatsAreNotWritten) {
  Model model;
  model.graph.initializers.push_back(
      {"w", ForeignTensor{"float4e2m1", HostTensor(DType::kF32, {2})}});
  const auto bytes = serialize_model(model);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(bytes.error().message, HasSubstr("float4e2m1"));
}

}  // namespace
}  // namespace tessera::onnx::testing
