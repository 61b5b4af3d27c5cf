// Pointwise operators, activations and quantization: what the backend cases leave out.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor f32(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kF32, shape, v);
}

std::vector<double> run(const OneNode& node, const std::vector<Operand>& operands) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? values_of(y->at(0)) : std::vector<double>{};
}

TEST(DropoutImport, NothingIsDroppedAndTheMaskSaysSo) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const HostTensor x = tensor(dtype, {2, 2}, {1, -2, 0, 4});
    for (const std::int64_t opset : {7, 10, 12, 13, 22}) {
      std::vector<Operand> inputs = {x};
      std::vector<Attribute> attributes;
      if (opset < 12) {
        attributes.push_back({"ratio", 0.75f, ""});
      } else {
        inputs.push_back(known(f32({}, {0.75})));
        inputs.push_back(known(bool_scalar(false)));
      }
      for (std::size_t given = inputs.size(); given > 0; --given) {
        const std::vector<Operand> some(inputs.begin(),
                                        inputs.begin() + static_cast<std::ptrdiff_t>(given));
        for (const std::size_t outputs : {1u, 2u}) {
          const auto y = run_node(
              {.op = "Dropout", .opset = opset, .attributes = attributes, .outputs = outputs},
              some);
          ASSERT_TRUE(y.ok()) << opset << ": " << y.error().message;
          EXPECT_THAT(values_of(y->at(0)), ElementsAre(1, -2, 0, 4));
          if (outputs == 1) continue;
          EXPECT_EQ(y->at(1).dtype(), opset < 10 ? dtype : DType::kBool) << opset;
          EXPECT_EQ(y->at(1).shape(), x.shape());
          EXPECT_THAT(values_of(y->at(1)), ElementsAre(1, 1, 1, 1)) << opset;
        }
      }
    }
  }
  EXPECT_THAT(refusal({.op = "Dropout", .opset = 13, .outputs = 2},
                      {f32({1}, {1}), known(f32({}, {0.5})), known(bool_scalar(true))}),
              HasSubstr("training mode draws random numbers"));
}

TEST(PointwiseImport, BroadcastOfOldOpsets) {
  const HostTensor a = f32({2, 2, 1}, {1, 2, 3, 4}), b = f32({2}, {10, 20});
  const std::vector<Attribute> at_axis = {attr("broadcast", 1), attr("axis", 1)};
  EXPECT_THAT(run({.op = "Add", .opset = 6, .attributes = at_axis}, {a, b}),
              ElementsAre(11, 22, 13, 24));
  EXPECT_THAT(run({.op = "Greater", .opset = 1, .attributes = at_axis}, {a, f32({2}, {2, 3})}),
              ElementsAre(0, 0, 1, 1));
  const std::vector<Attribute> suffix = {attr("broadcast", 1)};
  EXPECT_THAT(run({.op = "Mul", .opset = 6, .attributes = suffix}, {a, f32({1}, {2})}),
              ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(
      refusal({.op = "Add", .opset = 6, .attributes = {attr("broadcast", 1), attr("axis", 7)}},
              {a, b}),
      HasSubstr("axis 7"));
}

TEST(PointwiseImport, VariadicOperators) {
  const HostTensor a = f32({2}, {1, 5}), b = f32({}, {3}), c = f32({1}, {4});
  EXPECT_THAT(run({.op = "Max"}, {a, b, c}), ElementsAre(4, 5));
  EXPECT_THAT(run({.op = "Sum"}, {a, b, c}), ElementsAre(8, 12));
  EXPECT_THAT(run({.op = "Mean"}, {a, b}), ElementsAre(2, 4));
  EXPECT_THAT(run({.op = "Min"}, {a}), ElementsAre(1, 5));
  EXPECT_THAT(refusal({.op = "Sum"}, {a, omitted(), c}), HasSubstr("input 1 is missing"));
}

TEST(PointwiseImport, CastsOfAllVersions) {
  const HostTensor x = f32({2}, {1.7, -2.2});
  EXPECT_THAT(
      run({.op = "Cast", .opset = 1, .attributes = {attr("to", std::string("INT32"))}}, {x}),
      ElementsAre(1, -2));
  EXPECT_THAT(run({.op = "Cast", .opset = 9, .attributes = {attr("to", 9)}}, {x}),
              ElementsAre(1, 1));
  EXPECT_THAT(refusal({.op = "Cast", .attributes = {attr("to", 8)}}, {x}), HasSubstr("string"));
  EXPECT_THAT(refusal({.op = "Cast", .attributes = {attr("to", 99)}}, {x}), HasSubstr("99"));
  EXPECT_THAT(
      refusal({.op = "Cast", .opset = 1, .attributes = {attr("to", std::string("BAD"))}}, {x}),
      HasSubstr("BAD"));
}

// What is too large becomes the largest unless the node says otherwise.
TEST(PointwiseImport, CastsToFloatsOfEightBits) {
  const HostTensor x = f32({4}, {1.0625, -500, 1e6, 0.3});
  const auto to = [](int type, int saturate) {
    return OneNode{
        .op = "Cast", .opset = 19, .attributes = {attr("to", type), attr("saturate", saturate)}};
  };
  EXPECT_THAT(run(to(17, 1), {x}), ElementsAre(1, -448, 448, 0.3125));
  EXPECT_THAT(run(to(19, 1), {x}), ElementsAre(1, -512, 57344, 0.3125));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(run(to(19, 0), {x}), ElementsAre(1, -512, infinity, 0.3125));
  EXPECT_THAT(run(to(17, 0), {x}), ElementsAre(1, ::testing::IsNan(), ::testing::IsNan(), 0.3125));
}

TEST(PointwiseImport, ClipsOfAllVersions) {
  const HostTensor x = f32({3}, {-5, 0, 5});
  EXPECT_THAT(
      run({.op = "Clip", .opset = 6, .attributes = {attr("min", -1.0F), attr("max", 2.0F)}}, {x}),
      ElementsAre(-1, 0, 2));
  EXPECT_THAT(run({.op = "Clip", .opset = 6}, {x}), ElementsAre(-5, 0, 5));
  EXPECT_THAT(run({.op = "Clip", .opset = 11}, {x, omitted(), f32({}, {2})}),
              ElementsAre(-5, 0, 2));
  EXPECT_THAT(run({.op = "Clip", .opset = 13}, {x, f32({}, {3}), f32({}, {1})}),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(refusal({.op = "Clip"}, {x, f32({3}, {0, 0, 0})}), HasSubstr("bound has the shape"));
}

TEST(PointwiseImport, ModAndShifts) {
  const HostTensor a = f32({2}, {-7, 7}), b = f32({2}, {3, -3});
  EXPECT_THAT(run({.op = "Mod", .attributes = {attr("fmod", 1)}}, {a, b}), ElementsAre(-1, 1));
  const auto ints = [](double v) { return tensor(DType::kU8, {1}, {v}); };
  EXPECT_THAT(refusal({.op = "BitShift", .attributes = {attr("direction", std::string("UP"))}},
                      {ints(1), ints(1)}),
              HasSubstr("direction UP"));
  EXPECT_THAT(run({.op = "BitwiseNot", .opset = 18}, {ints(1)}), ElementsAre(254));
  EXPECT_THAT(run({.op = "BitwiseXor", .opset = 18}, {ints(6), ints(3)}), ElementsAre(5));
}

TEST(PointwiseImport, InfinitiesOfChosenSigns) {
  const HostTensor x = f32({3}, {-kInf, 1, kInf});
  const auto is_inf = [&](int negative, int positive) {
    return run(
        {.op = "IsInf",
         .attributes = {attr("detect_negative", negative), attr("detect_positive", positive)}},
        {x});
  };
  EXPECT_THAT(is_inf(1, 1), ElementsAre(1, 0, 1));
  EXPECT_THAT(is_inf(0, 1), ElementsAre(0, 0, 1));
  EXPECT_THAT(is_inf(1, 0), ElementsAre(1, 0, 0));
  EXPECT_THAT(is_inf(0, 0), ElementsAre(0, 0, 0));
}

double softplus(double x) { return std::log1p(std::exp(x)); }

TEST(ActivationImport, NewerFunctions) {
  const std::vector<double> points = {-20, -3, -0.1, 0, 0.1, 3, 20};
  const HostTensor x = f32({7}, points);
  struct Case {
    OneNode node;
    double (*function)(double);
  };
  const Case cases[] = {
      {{.op = "Gelu", .opset = 20},
       [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2))); }},
      {{.op = "Gelu", .opset = 20, .attributes = {attr("approximate", std::string("tanh"))}},
       [](double v) {
         return v / 2 *
                (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
       }},
      {{.op = "Mish", .opset = 18}, [](double v) { return v * std::tanh(softplus(v)); }},
      {{.op = "Swish", .opset = 24}, [](double v) { return v / (1 + std::exp(-v)); }},
      {{.op = "Softplus"}, softplus},
      {{.op = "LeakyRelu", .attributes = {attr("alpha", -0.5F)}},
       [](double v) { return v < 0 ? -0.5 * v : v; }},
  };
  for (const Case& c : cases) {
    const std::vector<double> y = run(c.node, {x});
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(y[i], c.function(points[i]), 1e-6 * std::max(1.0, std::fabs(points[i])))
          << c.node.op << " " << points[i];
    }
  }
  // Relative accuracy where the result is small.
  EXPECT_NEAR(run({.op = "Softplus"}, {f32({}, {-30})})[0] / softplus(-30), 1, 1e-5);
  EXPECT_EQ(run({.op = "Softplus"}, {f32({}, {1e10})})[0], 1e10);
  EXPECT_THAT(
      refusal({.op = "Gelu", .opset = 20, .attributes = {attr("approximate", std::string("fast"))}},
              {x}),
      HasSubstr("approximate=fast"));
}

TEST(ActivationImport, HalfPrecisionRoundsOnce) {
  const double x = 1.2001953125;  // an f16 number
  const double y = run({.op = "Gelu", .opset = 20}, {tensor(DType::kF16, {}, {x})})[0];
  EXPECT_EQ(y, round_float(DType::kF16, x / 2 * (1 + std::erf(x / std::sqrt(2)))));
}

TEST(ActivationImport, SlopesAndIntegers) {
  const HostTensor x = f32({1, 2, 2}, {-1, 1, -1, 1});
  EXPECT_THAT(run({.op = "PRelu", .opset = 6}, {x, f32({2}, {0.5, 0.25})}),
              ElementsAre(-0.5, 1, -0.25, 1));
  EXPECT_THAT(run({.op = "PRelu", .opset = 9}, {x, f32({2}, {0.5, 0.25})}),
              ElementsAre(-0.5, 1, -1 * 0.5, 1));
  EXPECT_THAT(run({.op = "Relu", .opset = 14}, {tensor(DType::kI8, {2}, {-3, 3})}),
              ElementsAre(0, 3));
  EXPECT_THAT(run({.op = "Shrink", .attributes = {attr("lambd", 1.5F), attr("bias", 1.0F)}},
                  {tensor(DType::kI32, {3}, {-4, 1, 4})}),
              ElementsAre(-3, 0, 3));
}

TEST(PointwiseImport, BitCastKeepsTheBits) {
  const auto cast = [](const HostTensor& x, std::int64_t to) {
    return run_node({.op = "BitCast", .opset = 26, .attributes = {attr("to", to)}}, {x});
  };
  const auto bits = cast(tensor(DType::kF32, {2}, {1, -2}), 6);  // int32
  ASSERT_TRUE(bits.ok()) << bits.error().message;
  EXPECT_EQ(bits->at(0).dtype(), DType::kI32);
  EXPECT_EQ(bits->at(0).get_int(0), 0x3f800000);
  EXPECT_EQ(bits->at(0).get_int(1), -0x40000000);
  const auto flags = cast(tensor(DType::kBool, {2}, {1, 0}), 2);  // uint8
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_EQ(values_of(flags->at(0)), (std::vector<double>{1, 0}));
  const auto back = cast(tensor(DType::kI8, {2}, {0, 1}), 9);  // bool
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(values_of(back->at(0)), (std::vector<double>{0, 1}));
  EXPECT_NE(cast(tensor(DType::kF32, {1}, {1}), 7)
                .error()
                .message.find("the bits of f32 cannot be read as i64"),
            std::string::npos);
}

TEST(PointwiseImport, SwiGluGatesByASwish) {
  const HostTensor gate = f32({2}, {1, -2}), value = f32({2}, {3, 5});
  const auto y =
      run_node({.op = "SwiGLU", .opset = 28, .attributes = {attr("alpha", 2.0F)}}, {gate, value});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_NEAR(y->at(0).get_float(0), 3 / (1 + std::exp(-2.0)), 1e-5);
  EXPECT_NEAR(y->at(0).get_float(1), -10 / (1 + std::exp(4.0)), 1e-5);
  EXPECT_THAT(refusal(OneNode{.op = "SwiGLU", .opset = 28}, {gate, f32({1}, {3})}),
              HasSubstr("a gate of 2 for 1"));
}

}  // namespace
}  // namespace tessera::onnx::testing
