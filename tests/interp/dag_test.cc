// Matrix, row-wise and data-movement operations against hand-written loops in double.
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tessera/lang/te/builder.h"
#include "tests/interp/op_harness.h"

namespace tessera::interp {
namespace {

TEST(InterpDag, Matmul) {
  const OpRun r = run_op("matmul:M=7,N=5,K=13");
  expect_output(r, 13, [&](std::int64_t e) {
    const std::int64_t i = e / 5, j = e % 5;
    double sum = 0;
    for (std::int64_t k = 0; k < 13; ++k) sum += r.in(0, i * 13 + k) * r.in(1, k * 5 + j);
    return sum;
  });
}

TEST(InterpDag, MatmulOfTransposedOperands) {
  const OpRun r = run_op("matmul:M=7,N=5,K=13,TA=1,TB=1");
  expect_output(r, 13, [&](std::int64_t e) {
    const std::int64_t i = e / 5, j = e % 5;
    double sum = 0;
    for (std::int64_t k = 0; k < 13; ++k) sum += r.in(0, k * 7 + i) * r.in(1, j * 13 + k);
    return sum;
  });
}

TEST(InterpDag, MatmulInHalfPrecisionRoundsOnce) {
  for (const char* type : {"f16", "bf16"}) {
    const OpRun r = run_op(std::string("matmul:M=3,N=5,K=17,dtype=") + type);
    for (std::int64_t e = 0; e < 15; ++e) {
      float sum = 0;
      for (std::int64_t k = 0; k < 17; ++k) {
        sum += static_cast<float>(r.in(0, e / 5 * 17 + k)) *
               static_cast<float>(r.in(1, k * 5 + e % 5));
      }
      EXPECT_EQ(r.outputs[0].get_float(e), round_float(r.outputs[0].dtype(), sum));
    }
  }
}

TEST(InterpDag, IntegerMatmulIsExactInI32) {
  for (const char* type : {"i8", "u8"}) {
    const OpRun r = run_op(std::string("matmul:M=3,N=5,K=17,dtype=") + type);
    EXPECT_EQ(r.outputs[0].dtype(), DType::kI32);
    expect_output(r, 17, [&](std::int64_t e) {
      double sum = 0;
      for (std::int64_t k = 0; k < 17; ++k) sum += r.in(0, e / 5 * 17 + k) * r.in(1, k * 5 + e % 5);
      return sum;
    });
  }
}

TEST(InterpDag, MatmulInDoubleIsBitExact) {
  const OpRun r = run_op("matmul:M=3,N=3,K=11,dtype=f64");
  for (std::int64_t e = 0; e < 9; ++e) {
    double sum = 0;
    for (std::int64_t k = 0; k < 11; ++k) sum += r.in(0, e / 3 * 11 + k) * r.in(1, k * 3 + e % 3);
    EXPECT_EQ(r.outputs[0].get_float(e), sum);
  }
}

TEST(InterpDag, Bmm) {
  const OpRun r = run_op("bmm:B=3,M=2,N=5,K=7");
  expect_output(r, 7, [&](std::int64_t e) {
    const std::int64_t b = e / 10, i = e / 5 % 2, j = e % 5;
    double sum = 0;
    for (std::int64_t k = 0; k < 7; ++k)
      sum += r.in(0, (b * 2 + i) * 7 + k) * r.in(1, (b * 7 + k) * 5 + j);
    return sum;
  });
}

TEST(InterpDag, Dense) {
  const OpRun r = run_op("dense:M=5,N=3,K=7");
  expect_output(r, 7, [&](std::int64_t e) {
    double sum = r.in(2, e % 3);
    for (std::int64_t k = 0; k < 7; ++k) sum += r.in(0, e / 3 * 7 + k) * r.in(1, e % 3 * 7 + k);
    return std::fmax(sum, 0);
  });
}

TEST(InterpDag, Softmax) {
  const OpRun r = run_op("softmax:R=5,C=11");
  expect_output(r, 11, [&](std::int64_t e) {
    double sum = 0;
    for (std::int64_t c = 0; c < 11; ++c) sum += std::exp(r.in(0, e / 11 * 11 + c));
    return std::exp(r.in(0, e)) / sum;
  });
}

TEST(InterpDag, SoftmaxInHalfPrecision) {
  const OpRun r = run_op("softmax:R=2,C=9,dtype=f16");
  expect_output(r, 9, [&](std::int64_t e) {
    double sum = 0;
    for (std::int64_t c = 0; c < 9; ++c) sum += std::exp(r.in(0, e / 9 * 9 + c));
    return std::exp(r.in(0, e)) / sum;
  });
}

TEST(InterpDag, Layernorm) {
  const OpRun r = run_op("layernorm:R=4,C=13");
  expect_output(r, 13, [&](std::int64_t e) {
    const std::int64_t row = e / 13 * 13;
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < 13; ++c) mean += r.in(0, row + c) / 13;
    for (std::int64_t c = 0; c < 13; ++c) variance += std::pow(r.in(0, row + c) - mean, 2) / 13;
    return (r.in(0, e) - mean) / std::sqrt(variance + 1e-5) * r.in(1, e % 13) + r.in(2, e % 13);
  });
}

TEST(InterpDag, Rmsnorm) {
  const OpRun r = run_op("rmsnorm:R=4,C=13");
  expect_output(r, 13, [&](std::int64_t e) {
    double squares = 0;
    for (std::int64_t c = 0; c < 13; ++c) squares += std::pow(r.in(0, e / 13 * 13 + c), 2) / 13;
    return r.in(0, e) / std::sqrt(squares + 1e-5) * r.in(1, e % 13);
  });
}

TEST(InterpDag, ReduceAlongEitherAxis) {
  const OpRun rows = run_op("reduce:R=5,C=7,op=max,axis=0");
  expect_output(rows, 1, [&](std::int64_t c) {
    double best = rows.in(0, c);
    for (std::int64_t i = 1; i < 5; ++i) best = std::fmax(best, rows.in(0, i * 7 + c));
    return best;
  });
  const OpRun columns = run_op("reduce:R=5,C=7,op=min");
  expect_output(columns, 1, [&](std::int64_t i) {
    double best = columns.in(0, i * 7);
    for (std::int64_t c = 1; c < 7; ++c) best = std::fmin(best, columns.in(0, i * 7 + c));
    return best;
  });
}

TEST(InterpDag, ReduceSumProdMean) {
  const OpRun sum = run_op("reduce:R=3,C=7,op=sum,dtype=i8");
  EXPECT_EQ(sum.outputs[0].dtype(), DType::kI32);
  const OpRun prod = run_op("reduce:R=3,C=7,op=prod");
  const OpRun mean = run_op("reduce:R=3,C=7,op=mean");
  const auto row = [](const OpRun& r, std::int64_t i, double start, auto fold) {
    double acc = start;
    for (std::int64_t c = 0; c < 7; ++c) acc = fold(acc, r.in(0, i * 7 + c));
    return acc;
  };
  expect_output(sum, 7, [&](std::int64_t i) { return row(sum, i, 0, std::plus<>()); });
  expect_output(prod, 7, [&](std::int64_t i) { return row(prod, i, 1, std::multiplies<>()); });
  expect_output(mean, 7, [&](std::int64_t i) { return row(mean, i, 0, std::plus<>()) / 7; });
}

TEST(InterpDag, ArgReductionsKeepTheFirstOfEqualValues) {
  HostTensor x(DType::kF32, {2, 5});
  const double values[] = {1, 3, 0, 3, 0, -2, -2, -2, -2, -2};
  for (std::int64_t i = 0; i < 10; ++i) x.set_float(i, values[i]);
  const auto largest = run(make("reduce:R=2,C=5,op=argmax"), {x}).value();
  EXPECT_EQ(largest[0].get_float(0), 3);
  EXPECT_EQ(largest[1].get_int(0), 1);
  EXPECT_EQ(largest[1].get_int(1), 0);
  const auto smallest = run(make("reduce:R=2,C=5,op=argmin"), {x}).value();
  EXPECT_EQ(smallest[1].get_int(0), 2);
  EXPECT_EQ(smallest[1].get_int(1), 0);
}

TEST(InterpDag, ArgmaxOfInfinitiesAndNan) {
  HostTensor x(DType::kF32, {1, 4});
  const double inf = std::numeric_limits<double>::infinity();
  const auto found = [&](const char* op, const std::array<double, 4>& values) {
    for (std::int64_t i = 0; i < 4; ++i) x.set_float(i, values[static_cast<std::size_t>(i)]);
    const auto out = run(make(fmt::format("reduce:R=1,C=4,op={}", op)), {x}).value();
    const std::int64_t at = out[1].get_int(0);
    const double best = out[0].get_float(0), want = x.get_float(at);
    EXPECT_TRUE(best == want || (std::isnan(best) && std::isnan(want))) << best;
    return at;
  };
  const double nan = std::nan("");
  EXPECT_EQ(found("argmax", {-inf, -inf, -inf, -inf}), 0);
  EXPECT_EQ(found("argmin", {inf, inf, inf, inf}), 0);
  for (const char* op : {"argmax", "argmin"}) {
    EXPECT_EQ(found(op, {nan, -inf, inf, nan}), 0) << op;
    EXPECT_EQ(found(op, {inf, -inf, nan, nan}), 2) << op;
    EXPECT_EQ(found(op, {nan, nan, nan, nan}), 0) << op;
    EXPECT_EQ(found(op, {-inf, inf, 0, nan}), 3) << op;
  }
}

TEST(InterpDag, EltwiseChain) {
  const OpRun r = run_op("eltwise:N=19,fn=add+gelu+mul+sigmoid");
  expect_output(r, 4, [&](std::int64_t e) {
    const double sum = r.in(0, e) + r.in(1, e);
    const double gelu = 0.5 * sum * (1 + std::erf(sum * std::sqrt(0.5)));
    return 1 / (1 + std::exp(-gelu * r.in(2, e)));
  });
}

TEST(InterpDag, EltwiseUnaryFunctions) {
  const std::vector<std::pair<const char*, double (*)(double)>> functions = {
      {"relu", [](double v) { return v > 0 ? v : 0; }},
      {"neg", [](double v) { return -v; }},
      {"abs", [](double v) { return std::fabs(v); }},
      {"square", [](double v) { return v * v; }},
      {"exp", [](double v) { return std::exp(v); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"erf", [](double v) { return std::erf(v); }},
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"exp+log+square+sqrt", [](double v) { return std::fabs(v); }},
  };
  for (const auto& [name, function] : functions) {
    const OpRun r = run_op(std::string("eltwise:N=23,fn=") + name);
    expect_output(r, 4, [&](std::int64_t e) { return function(r.in(0, e)); });
  }
}

TEST(InterpDag, Transpose) {
  const OpRun r = run_op("transpose:A=2,B=3,C=5,perm=201,dtype=i64");
  EXPECT_EQ(r.outputs[0].shape(), (Shape{5, 2, 3}));
  expect_output(r, 1, [&](std::int64_t e) {
    const std::int64_t c = e / 6, a = e / 3 % 2, b = e % 3;
    return r.in(0, (a * 3 + b) * 5 + c);
  });
}

TEST(InterpDag, Gather) {
  Rng rng(3);
  const HostTensor x = random_tensor(DType::kF16, {6, 3}, rng);
  HostTensor idx(DType::kI64, {4});
  for (std::int64_t i = 0; i < 4; ++i) idx.set_int(i, (i * 5 + 2) % 6);
  const HostTensor y = run(make("gather:R=6,C=3,I=4,dtype=f16"), {x, idx}).value()[0];
  for (std::int64_t e = 0; e < 12; ++e) {
    EXPECT_EQ(y.get_float(e), x.get_float((e / 3 * 5 + 2) % 6 * 3 + e % 3));
  }
}

TEST(InterpDag, GatherOutOfBoundsIsReported) {
  HostTensor idx(DType::kI64, {2});
  idx.set_int(1, 6);
  const auto result = run(make("gather:R=6,C=3,I=2"), {HostTensor(DType::kF32, {6, 3}), idx});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kRunFailed);
  EXPECT_EQ(result.error().message, "gather: op Y: out-of-bounds read of X[6, 0], shape 6x3");
}

TEST(InterpDag, EmptyReductionGivesTheIdentity) {
  te::DagBuilder b("empty");
  const ir::Buffer x = b.input("X", DType::kI32, {2, 0});
  const ir::Buffer y = b.reduce("Y", te::Reducer::kMax, {{"i", 2}}, {{"k", 0}},
                                [&](const te::Indices& i, const te::Indices& k) {
                                  return te::at(x, {i[0], k[0]});
                                });
  const auto result = run(b.build({y}), {HostTensor(DType::kI32, {2, 0})}).value();
  EXPECT_EQ(result[0].get_int(1), std::numeric_limits<std::int32_t>::min());
}

TEST(InterpDag, ReductionOverNoAxisCombinesOneValue) {
  te::DagBuilder b("scalar");
  const ir::Buffer x = b.input("X", DType::kF32, {});
  const ir::Buffer y =
      b.reduce("Y", te::Reducer::kSum, {}, {},
               [&](const te::Indices&, const te::Indices&) { return te::at(x, {}); });
  HostTensor value(DType::kF32, {});
  value.set_float(0, 2.5);
  EXPECT_EQ(run(b.build({y}), {value}).value()[0].get_float(0), 2.5);
}

TEST(InterpDag, WrongInputsAreRefused) {
  const te::Dag dag = make("matmul:M=2,N=3,K=4");
  const HostTensor a(DType::kF32, {2, 4}), b(DType::kF32, {4, 3});
  const auto refused = [&](const std::vector<HostTensor>& inputs, const std::string& message) {
    const auto result = run(dag, inputs);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().message, message);
  };
  refused({a}, "matmul: 1 inputs given, 2 needed");
  refused({a, a}, "matmul: input B is f32 2x4, f32 4x3 is needed");
  refused({HostTensor(DType::kF64, {2, 4}), b}, "matmul: input A is f64 2x4, f32 2x4 is needed");
}

TEST(InterpDag, PointsEqualTheWholeRun) {
  for (const char* spec : {"softmax:R=3,C=5", "dense:M=3,N=4,K=5",
                           "conv2d:N=1,H=5,W=5,CI=2,CO=3,KH=3,KW=3,P=1,algo=winograd2"}) {
    const te::Dag dag = make(spec);
    const OpRun r = run_op(spec);
    const std::vector<std::int64_t> points = {0, 7, 7, r.outputs[0].size() - 1};
    const std::vector<double> got = run_points(dag, r.inputs, 0, points).value();
    ASSERT_EQ(got.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(got[i], r.outputs[0].get_float(points[i])) << spec;
    }
    EXPECT_FALSE(run_points(dag, r.inputs, 0, {r.outputs[0].size()}).ok());
  }
}

TEST(InterpDag, TooLargeToInterpretIsRefused) {
  te::DagBuilder b("big");
  const ir::Buffer y = b.compute("Y", {{"i", std::int64_t{1} << 40}},
                                 [](const te::Indices&) { return ir::imm(DType::kF32, 0); });
  const auto result = run(b.build({y}), {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "big: 4.4e+12 bytes are too many to interpret");
}

}  // namespace
}  // namespace tessera::interp
