#include "tessera/backend/kernel/check_output.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/backend/kernel/compile_op.h"
#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"

namespace tessera::kernel {
namespace {

te::Dag dag_of(const char* spec) { return te::make_dag(te::parse_op_spec(spec).value()).value(); }

TEST(Tolerance, GrowsWithTypeAndReduction) {
  const auto of = [](const char* spec) { return tolerance(dag_of(spec), 0); };
  EXPECT_DOUBLE_EQ(of("matmul:M=4,N=4,K=64"), 4 * of("matmul:M=4,N=4,K=4"));
  EXPECT_LE(of("matmul:M=4,N=4,K=40000"), 1e-4);
  EXPECT_GT(of("matmul:M=4,N=4,K=4,dtype=f16"), of("matmul:M=4,N=4,K=4"));
  EXPECT_GT(of("matmul:M=4,N=4,K=4,dtype=bf16"), of("matmul:M=4,N=4,K=4,dtype=f16"));
  EXPECT_EQ(of("matmul:M=4,N=4,K=4,dtype=i8"), 0);
  // Sums of f16 are taken in f32 and rounded once.
  EXPECT_LT(of("matmul:M=4,N=4,K=4000,dtype=f16"), 5e-3);
  EXPECT_EQ(of("reduce:R=5,C=9,op=max"), 0) << "nothing rounds";
}

// Each element of f16 takes as long as a conversion in software.
TEST(RandomInputs, OfLargeTensorsRepeat) {
  constexpr std::int64_t kPeriod = 1048573;
  const HostTensor x = random_inputs(dag_of("eltwise:N=2100000,fn=relu,dtype=f16"), 1)[0];
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1000}, x.size() - 2 * kPeriod - 1})
    EXPECT_EQ(x.get_float(i), x.get_float(i + 2 * kPeriod)) << i;
  EXPECT_NE(x.get_float(0), x.get_float(1));
}

TEST(Tolerance, RefusesJustAboveAndAcceptsJustBelow) {
  for (const char* spec : {"matmul:M=5,N=6,K=7", "matmul:M=5,N=6,K=7,dtype=f16"}) {
    const te::Dag dag = dag_of(spec);
    const double allowed = tolerance(dag, 0);
    const Reference want{.points = {0, 1}, .values = {0, 1}, .scale = 1};
    HostTensor got(DType::kF64, {2});
    got.set_float(1, 1);
    got.set_float(0, 0.999 * allowed);
    EXPECT_LE(worst_error(want, got, allowed), 1) << spec;
    got.set_float(0, 1.001 * allowed);
    EXPECT_GT(worst_error(want, got, allowed), 1) << spec;
  }
}

struct Checked {
  te::Dag dag;
  Reference want;
  HostTensor got;
  double tolerance;
};

Checked checked(const char* spec) {
  Checked c{.dag = dag_of(spec), .want = {}, .got = {}, .tolerance = 0};
  const std::vector<HostTensor> inputs = random_inputs(c.dag, 1);
  c.want = reference(c.dag, inputs, 0, 50, 2).value();
  c.got = interp::run(c.dag, inputs).value()[0].clone();
  c.tolerance = tolerance(c.dag, 0);
  return c;
}

TEST(WorstError, IsZeroForTheReferenceItself) {
  for (const char* spec :
       {"matmul:M=5,N=6,K=7", "matmul:M=5,N=6,K=7,dtype=i8", "softmax:R=3,C=9,dtype=f16"}) {
    const Checked c = checked(spec);
    EXPECT_EQ(c.want.points.size(), static_cast<std::size_t>(c.got.size()))
        << spec;  // small: every point
    EXPECT_EQ(worst_error(c.want, c.got, c.tolerance), 0) << spec;
  }
}

TEST(WorstError, SeesEverySingleWrongElement) {
  Checked c = checked("matmul:M=5,N=6,K=7");
  for (std::int64_t i = 0; i < c.got.size(); ++i) {
    const double old = c.got.get_float(i);
    c.got.set_float(i, old + 0.01 * c.want.scale);
    EXPECT_GT(worst_error(c.want, c.got, c.tolerance), 1) << i;
    c.got.set_float(i, old * (1 + 0x1p-22));
    EXPECT_LE(worst_error(c.want, c.got, c.tolerance), 1) << i;
    c.got.set_float(i, old);
  }
}

TEST(WorstError, IntegersMustBeExact) {
  Checked c = checked("matmul:M=5,N=6,K=7,dtype=i8");
  c.got.set_int(11, c.got.get_int(11) + 1);
  EXPECT_GT(worst_error(c.want, c.got, c.tolerance), 1);
}

using Value = std::function<ir::Expr(const ir::Expr&)>;

ir::Expr call(ir::Intrinsic fn, const ir::Expr& x) { return ir::Call::make(fn, {x}); }

// Of 40 x + x, which builds may round differently, between -41 and 41.
te::Dag rounded(const Value& value) {
  te::DagBuilder b("rounded");
  const ir::Buffer x = b.input("x", DType::kF32, {300});
  const ir::Buffer y = b.compute("y", {{"i", 300}}, [&](const te::Indices& i) {
    return te::at(x, i) * ir::imm(DType::kF32, 40) + te::at(x, i);
  });
  return b.build(
      {b.compute("z", {{"i", 300}}, [&](const te::Indices& i) { return value(te::at(y, i)); })});
}

// What integers were before they were rounded: their nearest integers, saturated, are the values.
TEST(Reference, KnowsWhatIntegersWereBefore) {
  using ir::Intrinsic;
  const std::vector<std::pair<DType, Value>> cases = {
      {DType::kI8, [](const ir::Expr& y) { return ir::cast(DType::kI8, y); }},
      {DType::kI8,
       [](const ir::Expr& y) { return ir::cast(DType::kI8, call(Intrinsic::kRound, y)); }},
      {DType::kU8,
       [](const ir::Expr& y) {
         return ir::cast(DType::kU8, call(Intrinsic::kRound, y) + ir::imm(DType::kF32, 3));
       }},
      {DType::kI8,
       [](const ir::Expr& y) { return ir::cast(DType::kI8, call(Intrinsic::kFloor, y)); }},
      {DType::kI8,
       [](const ir::Expr& y) { return ir::cast(DType::kI8, call(Intrinsic::kCeil, y)); }},
      {DType::kI8,
       [](const ir::Expr& y) {
         return ir::Binary::make(ir::BinaryOp::kMax, ir::cast(DType::kI8, y),
                                 ir::imm(DType::kI8, 5));
       }},
      {DType::kBool,
       [](const ir::Expr& y) {
         return ir::Binary::make(ir::BinaryOp::kLt, y, ir::imm(DType::kF32, 2));
       }},
  };
  for (const auto& [type, value] : cases) {
    const te::Dag dag = rounded(value);
    const Reference want = reference(dag, random_inputs(dag, 3), 0, 50, 2).value();
    ASSERT_EQ(want.before.size(), want.values.size()) << te::to_text(dag);
    EXPECT_GT(tolerance(dag, 0), 0);
    const double low = type == DType::kI8 ? -128 : 0;
    const double high = type == DType::kI8 ? 127 : type == DType::kU8 ? 255 : 1;
    for (std::size_t i = 0; i < want.values.size(); ++i) {
      EXPECT_EQ(std::clamp(std::nearbyint(want.before[i]), low, high), want.values[i])
          << want.before[i];
    }
  }
}

TEST(WorstError, AnIntegerMayBeTheNextOneAtABorder) {
  HostTensor got(DType::kI8, {2});
  got.set_int(1, 4);
  const auto error = [&](double before) {
    return worst_error({.points = {0, 1},
                        .values = {0, 3},
                        .scale = 100,
                        .before = {0, before},
                        .before_scale = 100},
                       got, 1e-5);
  };
  EXPECT_LE(error(3.5), 1);
  EXPECT_LE(error(3.4995), 1);
  EXPECT_GT(error(3.498), 1);
  EXPECT_GT(error(2.5), 1) << "the other border";
  got.set_int(1, 5);
  EXPECT_GT(error(3.5), 1) << "two steps";
}

TEST(WorstError, SpecialValuesOnlyMatchThemselves) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto error = [](double want, double got) {
    HostTensor t(DType::kF32, {2});
    t.set_float(0, 1);
    t.set_float(1, got);
    return worst_error({.points = {0, 1}, .values = {1, want}, .scale = 1}, t, 1e-3);
  };
  EXPECT_EQ(error(kNan, kNan), 0);
  EXPECT_EQ(error(kInf, kInf), 0);
  EXPECT_GT(error(1, kNan), 1);
  EXPECT_GT(error(kNan, 1), 1);
  EXPECT_GT(error(1, kInf), 1);
  EXPECT_GT(error(kInf, 1), 1);
  EXPECT_GT(error(kInf, -kInf), 1);
}

TEST(WorstError, NothingButNanVerifiesNothing) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  HostTensor t(DType::kF32, {2});
  t.set_float(0, kNan);
  t.set_float(1, kNan);
  const Reference nans{.points = {0, 1}, .values = {kNan, kNan}, .scale = 0};
  EXPECT_TRUE(is_all_nan(nans));
  EXPECT_GT(worst_error(nans, t, 1e-3), 1);
  EXPECT_FALSE(is_all_nan({.points = {0, 1}, .values = {kNan, 0}, .scale = 0}));
  EXPECT_FALSE(is_all_nan({}));
}

TEST(WorstError, AllZerosMustStayZeros) {
  HostTensor t(DType::kF32, {1});
  const Reference zeros{.points = {0}, .values = {0}, .scale = 0};
  EXPECT_EQ(worst_error(zeros, t, 1e-3), 0);
  t.set_float(0, 1e-6);
  EXPECT_GT(worst_error(zeros, t, 1e-3), 1);
}

// Larger Dags are checked on samples: the same values, with the first and the last point among
// them.
TEST(Reference, SamplesOfALargeDagEqualTheWhole) {
  const te::Dag dag = dag_of("matmul:M=101,N=103,K=1000");
  ASSERT_GT(te::flop_count(dag), 2e7);
  const std::vector<HostTensor> inputs = random_inputs(dag, 3);
  const Reference some = reference(dag, inputs, 0, 20, 4).value();
  ASSERT_EQ(some.points.size(), 22u);
  EXPECT_EQ(some.points[0], 0);
  EXPECT_EQ(some.points[1], 101 * 103 - 1);
  const float* a = inputs[0].as<float>();
  const float* b = inputs[1].as<float>();
  for (std::size_t p = 0; p < some.points.size(); ++p) {
    double sum = 0;
    for (std::int64_t k = 0; k < 1000; ++k)
      sum += double{a[some.points[p] / 103 * 1000 + k]} * b[k * 103 + some.points[p] % 103];
    EXPECT_NEAR(some.values[p], sum, 1e-3);
  }
}

TEST(RunPoints, EqualsRun) {
  for (const char* spec :
       {"matmul:M=5,N=6,K=7", "conv2d:N=1,H=6,W=7,CI=3,CO=4,KH=3,KW=3,P=1", "softmax:R=5,C=9",
        "layernorm:R=3,C=8", "reduce:R=5,C=9,op=argmax", "gather:R=7,C=3,I=5",
        "conv2d:N=1,H=6,W=6,CI=2,CO=3,KH=3,KW=3,P=1,algo=winograd2"}) {
    const te::Dag dag = dag_of(spec);
    const std::vector<HostTensor> inputs = random_inputs(dag, 9);
    const auto whole = interp::run(dag, inputs);
    ASSERT_TRUE(whole.ok()) << spec << ": " << whole.error().message;
    for (std::size_t o = 0; o < whole->size(); ++o) {
      const HostTensor& want = (*whole)[o];
      std::vector<std::int64_t> points;
      for (std::int64_t i = want.size(); i-- > 0;) points.push_back(i);
      const auto got = interp::run_points(dag, inputs, o, points);
      ASSERT_TRUE(got.ok()) << spec << ": " << got.error().message;
      for (std::size_t i = 0; i < points.size(); ++i) {
        EXPECT_EQ((*got)[i], is_float(want.dtype()) ? want.get_float(points[i])
                                                    : static_cast<double>(want.get_int(points[i])))
            << spec << " output " << o << " point " << points[i];
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernel
