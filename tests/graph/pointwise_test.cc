#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_op.h"

namespace tessera::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> unary(const std::string& op, DType t, const std::vector<double>& x) {
  const Shape shape = {static_cast<std::int64_t>(x.size())};
  const auto y = run_op(op, {tensor(t, shape, x)});
  EXPECT_TRUE(y.ok()) << op << ": " << y.error().message;
  return values_of(*y);
}

std::vector<double> binary(const std::string& op, DType t, const std::vector<double>& a,
                           const std::vector<double>& b) {
  const Shape shape = {static_cast<std::int64_t>(a.size())};
  const auto y = run_op(op, {tensor(t, shape, a), tensor(t, shape, b)});
  EXPECT_TRUE(y.ok()) << op << ": " << y.error().message;
  return values_of(*y);
}

TEST(Pointwise, EveryFunctionIsItsOwn) {
  struct Case {
    const char* op;
    double (*function)(double);
    double x;
  };
  const Case cases[] = {
      {"exp", std::exp, 0.7},
      {"log", std::log, 0.7},
      {"sqrt", std::sqrt, 0.7},
      {"sin", std::sin, 0.7},
      {"cos", std::cos, 0.7},
      {"tan", std::tan, 0.7},
      {"asin", std::asin, 0.7},
      {"acos", std::acos, 0.7},
      {"atan", std::atan, 0.7},
      {"sinh", std::sinh, 0.7},
      {"cosh", std::cosh, 0.7},
      {"tanh", std::tanh, 0.7},
      {"asinh", std::asinh, 0.7},
      {"acosh", std::acosh, 1.7},
      {"atanh", std::atanh, 0.7},
      {"erf", std::erf, 0.7},
      {"floor", std::floor, -0.7},
      {"ceil", std::ceil, 0.7},
      {"round", std::nearbyint, 2.5},
      {"trunc", std::trunc, -1.7},
      {"abs", std::fabs, -0.7},
      {"recip", [](double v) { return 1 / v; }, 0.7},
      {"neg", [](double v) { return -v; }, 0.7},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }, 0.7},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(unary(c.op, DType::kF64, {c.x})[0], c.function(c.x)) << c.op;
    EXPECT_NEAR(unary(c.op, DType::kF32, {c.x})[0], c.function(c.x), 2e-6) << c.op;
    for (const DType t : {DType::kF16, DType::kBF16}) {
      // Rounded once: the operand, and the result computed in f32.
      const double x = round_float(t, c.x);
      const double once = round_float(t, round_float(DType::kF32, c.function(x)));
      EXPECT_EQ(unary(c.op, t, {x})[0], once) << c.op << " " << tessera::to_text(t);
    }
  }
}

TEST(Pointwise, ExtremesOfFloats) {
  EXPECT_THAT(unary("sigmoid", DType::kF32, {-1e30, 1e30, -kInf, kInf}), ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(std::isnan(unary("sign", DType::kF32, {kNan})[0]));
  EXPECT_THAT(unary("sign", DType::kF32, {-3, 0, 5}), ElementsAre(-1, 0, 1));
  EXPECT_TRUE(std::signbit(unary("neg", DType::kF32, {0.0})[0]));
  EXPECT_FALSE(std::signbit(unary("neg", DType::kF32, {-0.0})[0]));
  EXPECT_THAT(unary("is_inf", DType::kF16, {kInf, 1, kNan}), ElementsAre(1, 0, 0));
  EXPECT_THAT(unary("is_nan", DType::kBF16, {kInf, 1, kNan}), ElementsAre(0, 0, 1));
  for (const char* op : {"min", "max"}) {
    EXPECT_TRUE(std::isnan(binary(op, DType::kF32, {kNan}, {1})[0])) << op;
    EXPECT_TRUE(std::isnan(binary(op, DType::kF16, {1}, {kNan})[0])) << op;
  }
  EXPECT_THAT(binary("div", DType::kF32, {1, -1}, {0, 0}), ElementsAre(kInf, -kInf));
  for (const double zero : {0.0, -0.0}) {
    EXPECT_TRUE(std::signbit(binary("floor_mod", DType::kF32, {zero}, {-2})[0]));
    EXPECT_FALSE(std::signbit(binary("floor_mod", DType::kF32, {zero}, {2})[0]));
  }
  EXPECT_THAT(binary("floor_mod", DType::kF64, {3, -3, 3, -3}, {kInf, kInf, -kInf, -kInf}),
              ElementsAre(3, kInf, -kInf, -3));
}

TEST(Pointwise, IntegersWrapAndNeverTrap) {
  EXPECT_THAT(binary("div", DType::kI32, {7, -7, 5, -2147483648.0}, {2, 2, 0, -1}),
              ElementsAre(3, -3, 0, -2147483648.0));
  EXPECT_THAT(binary("mod", DType::kI32, {7, -7, 5}, {-3, 3, 0}), ElementsAre(1, -1, 0));
  EXPECT_THAT(binary("floor_mod", DType::kI32, {7, -7, 5}, {-3, 3, 0}), ElementsAre(-2, 2, 0));
  EXPECT_THAT(binary("floor_mod", DType::kF32, {7, -7, -6, 6.5}, {-3, 3, 3, -3}),
              ElementsAre(-2, 2, 0, -2.5));
  EXPECT_THAT(binary("add", DType::kU8, {250}, {10}), ElementsAre(4));
  EXPECT_THAT(unary("abs", DType::kU8, {200}), ElementsAre(200));
  EXPECT_THAT(unary("sign", DType::kU16, {0, 9}), ElementsAre(0, 1));
  EXPECT_THAT(binary("shl", DType::kU8, {1, 3, 1}, {7, 7, 8}), ElementsAre(128, 128, 0));
  EXPECT_THAT(binary("shr", DType::kU32, {256, 1}, {4, 40}), ElementsAre(16, 0));
  EXPECT_THAT(binary("shr", DType::kI8, {-8, -8, 8, -1}, {1, 8, 9, -1}),
              ElementsAre(-4, -1, 0, -1));
  EXPECT_THAT(binary("shl", DType::kI8, {-8, 65, -8}, {1, 1, 8}), ElementsAre(-16, -126, 0));
  EXPECT_THAT(unary("not", DType::kI8, {5}), ElementsAre(-6));
  EXPECT_THAT(unary("not", DType::kBool, {1, 0}), ElementsAre(0, 1));
  const double big = 9007199254740993.0;  // i64 arithmetic does not pass through floats
  EXPECT_EQ(
      run_op("add", {tensor(DType::kI64, {}, {big}), tensor(DType::kI64, {}, {1})})->get_int(0),
      static_cast<std::int64_t>(big) + 1);
}

HostTensor power(const HostTensor& base, const HostTensor& exponent) {
  const auto y = run_op("pow", {base, exponent});
  EXPECT_TRUE(y.ok()) << y.error().message;
  return *y;
}

TEST(Pointwise, PowersWithKnownExponents) {
  const std::vector<double> bases = {-3, -0.5, 0.25, 2, 9};
  const HostTensor x = tensor(DType::kF64, {5}, bases);
  for (const double e : {0.0, 1.0, 2.0, 3.0, 4.0, 7.0, -1.0, -2.0, -5.0, 0.5, -0.5, 0.75, 0.3}) {
    const std::vector<double> y = values_of(power(x, tensor(DType::kF64, {}, {e})));
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const double want = std::pow(bases[i], e);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(y[i])) << bases[i] << "^" << e;
      } else {
        EXPECT_NEAR(y[i], want, 1e-12 * std::fabs(want)) << bases[i] << "^" << e;
      }
    }
  }
  EXPECT_THAT(
      values_of(power(tensor(DType::kF32, {2}, {-0.0, kNan}), tensor(DType::kF32, {}, {0}))),
      ElementsAre(1, 1));
}

TEST(Pointwise, PowersOfMixedTypes) {
  const HostTensor exponents = tensor(DType::kI64, {3}, {2, 3, 0});
  const HostTensor floats = power(tensor(DType::kF32, {3}, {-2, -3, 5}), exponents);
  EXPECT_EQ(floats.dtype(), DType::kF32);
  EXPECT_THAT(values_of(floats), ElementsAre(4, -27, 1));
  EXPECT_THAT(values_of(power(tensor(DType::kI32, {3}, {-2, -3, 5}), exponents)),
              ElementsAre(4, -27, 1));
  EXPECT_THAT(values_of(power(tensor(DType::kI32, {2}, {4, 9}), tensor(DType::kF32, {}, {0.5}))),
              ElementsAre(2, 3));
  EXPECT_THAT(values_of(power(tensor(DType::kI64, {2}, {-7, 7}), tensor(DType::kI64, {}, {3}))),
              ElementsAre(-343, 343));
  EXPECT_THAT(values_of(power(tensor(DType::kF16, {1}, {3}), tensor(DType::kI32, {2}, {2, -1}))),
              ElementsAre(9, round_float(DType::kF16, 1.0 / 3)));
}

TEST(Pointwise, Broadcasts) {
  const HostTensor a = tensor(DType::kF32, {2, 1, 2}, {1, 2, 3, 4});
  const HostTensor b = tensor(DType::kF32, {3, 1}, {10, 20, 30});
  const auto y = run_op("add", {a, b});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->shape(), (Shape{2, 3, 2}));
  EXPECT_THAT(values_of(*y), ElementsAre(11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34));
  const auto empty = run_op("mul", {tensor(DType::kF32, {0, 3}, {}), b.clone()});
  EXPECT_FALSE(empty.ok());  // 0x3 and 3x1
  EXPECT_EQ(run_op("mul", {tensor(DType::kF32, {0, 1}, {}), tensor(DType::kF32, {}, {2})})->shape(),
            (Shape{0, 1}));
  const HostTensor cond = tensor(DType::kBool, {2, 1}, {1, 0});
  EXPECT_THAT(values_of(*run_op(
                  "where", {cond, tensor(DType::kI8, {2}, {1, 2}), tensor(DType::kI8, {}, {9})})),
              ElementsAre(1, 2, 9, 9));
}

TEST(Pointwise, Casts) {
  const auto cast = [](const HostTensor& x, DType to) {
    return values_of(*run_op("cast", {x}, {{"to", std::string(tessera::to_text(to))}}));
  };
  const HostTensor x = tensor(DType::kF32, {5}, {-1.9, 1.9, 300, -300, kNan});
  EXPECT_THAT(cast(x, DType::kI8), ElementsAre(-1, 1, 127, -128, 0));
  EXPECT_THAT(cast(x, DType::kU8), ElementsAre(0, 1, 255, 0, 0));
  EXPECT_THAT(cast(tensor(DType::kI32, {2}, {300, -1}), DType::kU8), ElementsAre(44, 255));
  EXPECT_THAT(cast(tensor(DType::kF32, {3}, {0, 0.5, kNan}), DType::kBool), ElementsAre(0, 1, 1));
  EXPECT_THAT(cast(tensor(DType::kF64, {1}, {1e6}), DType::kF16), ElementsAre(kInf));
}

TEST(Pointwise, KnownScalarsBecomeImmediates) {
  const TensorType matrix{DType::kF32, {2, 3}}, vector{DType::kF32, {1}};
  const HostTensor two = tensor(DType::kF32, {1}, {2});
  const Attrs attrs;
  const NodeView node{attrs, {&matrix, &vector}, {nullptr, &two}};
  te::DagBuilder b("test");
  const ir::Buffer x = b.input("x", DType::kF32, {2, 3}), y = b.input("y", DType::kF32, {1});
  const auto out = find_op("mul")->define(b, "out", node, {x, y});
  ASSERT_TRUE(out.ok());
  const te::Dag dag = b.build(*out);
  EXPECT_TRUE(te::verify(dag).ok());
  EXPECT_THAT(te::to_text(dag), HasSubstr("x[i0, i1] * 2"));
  EXPECT_THAT(te::to_text(dag), Not(HasSubstr("y[0]")));
}

TEST(Pointwise, RefusesWhatDoesNotFit) {
  const HostTensor f = tensor(DType::kF32, {2}, {1, 2}), three = tensor(DType::kF32, {3}, {});
  const HostTensor i = tensor(DType::kI32, {2}, {1, 2}), flag = tensor(DType::kBool, {2}, {});
  EXPECT_THAT(refusal("add", {f, i}), HasSubstr("operands differ in type: f32 and i32"));
  EXPECT_THAT(refusal("add", {flag, flag}), HasSubstr("not defined for bool"));
  EXPECT_THAT(refusal("exp", {i}), HasSubstr("not defined for i32"));
  EXPECT_THAT(refusal("shl", {f, f}), HasSubstr("not defined for f32"));
  EXPECT_THAT(refusal("add", {f}), HasSubstr("1 operands given, 2 needed"));
  EXPECT_THAT(refusal("add", {f, three}), HasSubstr("shapes 2, 3 do not broadcast"));
  EXPECT_THAT(refusal("pow", {f, flag}), HasSubstr("not defined for bool"));
  EXPECT_THAT(refusal("where", {f, f, f}), HasSubstr("the condition is f32"));
  EXPECT_THAT(refusal("where", {flag, f, i}), HasSubstr("operands differ in type"));
  const TensorType tall{DType::kF32, {std::int64_t{1} << 40, 1}};
  const TensorType wide{DType::kF32, {1, std::int64_t{1} << 40}};
  const Attrs attrs;
  EXPECT_FALSE(find_op("add")->infer({attrs, {&tall, &wide}, {nullptr, nullptr}}).ok());
  EXPECT_FALSE(find_op("add")->infer({attrs, {&tall, nullptr}, {nullptr, nullptr}}).ok());
}

}  // namespace
}  // namespace tessera::graph
