#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_op.h"

namespace tessera::graph {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Attrs reduce_attrs(const char* kind, const std::vector<std::int64_t>& axes, bool keep = false) {
  return {{"kind", std::string(kind)}, {"axes", axes}, {"keepdims", std::int64_t{keep}}};
}

Attrs arg_attrs(const char* kind, std::int64_t axis, bool keep = false, bool last = false) {
  return {{"kind", std::string(kind)},
          {"axis", axis},
          {"keepdims", std::int64_t{keep}},
          {"last", std::int64_t{last}}};
}

HostTensor reduce(const HostTensor& x, const Attrs& attrs, const char* op = "reduce") {
  const auto y = run_op(op, {x}, attrs);
  EXPECT_TRUE(y.ok()) << y.error().message;
  return *y;
}

TEST(Reduce, AnyAxes) {
  const HostTensor x = tensor(DType::kF32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("sum", {0, 2}))), ElementsAre(14, 22));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("sum", {2, 0}))), ElementsAre(14, 22));
  EXPECT_EQ(reduce(x, reduce_attrs("sum", {0, 2}, true)).shape(), (Shape{1, 2, 1}));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("mean", {1}, true))), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("max", {0, 1, 2}))), ElementsAre(8));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("min", {0}))), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("prod", {1, 2}))), ElementsAre(24, 1680));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("mean", {}))), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values_of(reduce(tensor(DType::kF32, {}, {3}), reduce_attrs("sum", {}))),
              ElementsAre(3));
}

TEST(Reduce, NothingGivesTheIdentity) {
  const HostTensor x = tensor(DType::kF32, {2, 0}, {});
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("sum", {1}))), ElementsAre(0, 0));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("prod", {1}))), ElementsAre(1, 1));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("max", {1}))), Each(-kInf));
  EXPECT_THAT(values_of(reduce(x, reduce_attrs("min", {1}))), Each(kInf));
  for (const double v : values_of(reduce(x, reduce_attrs("mean", {1})))) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(reduce(x, reduce_attrs("sum", {0}, true)).shape(), (Shape{1, 0}));
  const HostTensor none = tensor(DType::kI32, {0}, {});
  EXPECT_THAT(values_of(reduce(none, reduce_attrs("mean", {0}))), ElementsAre(0));
  EXPECT_THAT(values_of(reduce(none, reduce_attrs("max", {0}))), ElementsAre(-2147483648.0));
}

TEST(Reduce, Types) {
  // Adding 1 to 2048 in f16 changes nothing; the f32 accumulator keeps it.
  EXPECT_THAT(values_of(reduce(tensor(DType::kF16, {3}, {2048, 1, 1}), reduce_attrs("sum", {0}))),
              ElementsAre(2050));
  EXPECT_THAT(values_of(reduce(tensor(DType::kU8, {3}, {200, 100, 1}), reduce_attrs("sum", {0}))),
              ElementsAre(45));
  EXPECT_THAT(values_of(reduce(tensor(DType::kI32, {2}, {2e9, 2e9}), reduce_attrs("mean", {0}))),
              ElementsAre(2e9));
  EXPECT_THAT(values_of(reduce(tensor(DType::kBool, {2}, {0, 1}), reduce_attrs("max", {0}))),
              ElementsAre(1));
  EXPECT_TRUE(std::isnan(
      values_of(reduce(tensor(DType::kF32, {2}, {1, kNan}), reduce_attrs("max", {0})))[0]));
}

TEST(ArgReduce, TiesAndDirections) {
  const HostTensor x = tensor(DType::kF32, {2, 3}, {1, 5, 5, 0, -1, -1});
  const auto arg = [&](const Attrs& attrs) { return reduce(x, attrs, "arg_reduce"); };
  EXPECT_EQ(arg(arg_attrs("max", 1)).dtype(), DType::kI64);
  EXPECT_THAT(values_of(arg(arg_attrs("max", 1))), ElementsAre(1, 0));
  EXPECT_THAT(values_of(arg(arg_attrs("max", 1, true, true))), ElementsAre(2, 0));
  EXPECT_EQ(arg(arg_attrs("max", 1, true)).shape(), (Shape{2, 1}));
  EXPECT_THAT(values_of(arg(arg_attrs("min", 1, false, true))), ElementsAre(0, 2));
  EXPECT_THAT(values_of(arg(arg_attrs("min", 0))), ElementsAre(1, 1, 1));
  const HostTensor odd = tensor(DType::kF32, {2, 2}, {kNan, kNan, -kInf, -kInf});
  EXPECT_THAT(values_of(reduce(odd, arg_attrs("max", 1), "arg_reduce")), ElementsAre(0, 0));
  EXPECT_THAT(values_of(reduce(odd, arg_attrs("max", 1, false, true), "arg_reduce")),
              ElementsAre(1, 1));
  EXPECT_EQ(reduce(tensor(DType::kF32, {0, 3}, {}), arg_attrs("max", 1), "arg_reduce").shape(),
            (Shape{0}));
}

TEST(ArgReduce, ANanWinsOverNumbers) {
  const HostTensor x = tensor(DType::kF32, {3, 4},
                              {1, kNan, 5, kNan, kInf, -kInf, 0, kNan,  //
                               kNan, kNan, kNan, kNan});
  for (const char* kind : {"max", "min"}) {
    EXPECT_THAT(values_of(reduce(x, arg_attrs(kind, 1), "arg_reduce")), ElementsAre(1, 3, 0));
    EXPECT_THAT(values_of(reduce(x, arg_attrs(kind, 1, false, true), "arg_reduce")),
                ElementsAre(3, 3, 3));
    for (const double v : values_of(reduce(x, reduce_attrs(kind, {1})))) EXPECT_TRUE(std::isnan(v));
  }
}

TEST(Reduce, RefusesWhatDoesNotFit) {
  const HostTensor x = tensor(DType::kF32, {2, 2}, {});
  EXPECT_THAT(refusal("reduce", {x}, reduce_attrs("sum", {2})), HasSubstr("axis 2"));
  EXPECT_THAT(refusal("reduce", {x}, reduce_attrs("sum", {-1})), HasSubstr("axis -1"));
  EXPECT_THAT(refusal("reduce", {x}, reduce_attrs("sum", {0, 0})), HasSubstr("given twice"));
  EXPECT_THAT(refusal("reduce", {x}, reduce_attrs("norm", {0})), HasSubstr("kind norm"));
  EXPECT_THAT(refusal("reduce", {x, x}, reduce_attrs("sum", {0})), HasSubstr("one input"));
  EXPECT_THAT(refusal("reduce", {tensor(DType::kBool, {1}, {})}, reduce_attrs("sum", {0})),
              HasSubstr("not defined for bool"));
  EXPECT_THAT(refusal("arg_reduce", {x}, arg_attrs("max", 5)), HasSubstr("axis 5"));
  EXPECT_THAT(refusal("arg_reduce", {x}, arg_attrs("sum", 0)), HasSubstr("kind sum"));
  EXPECT_THAT(refusal("arg_reduce", {tensor(DType::kF32, {2, 0}, {})}, arg_attrs("max", 1)),
              HasSubstr("axis 1 is empty"));
}

}  // namespace
}  // namespace tessera::graph
