// Winograd convolutions give what the direct definition gives.
#include "tessera/lang/te/ops/winograd.h"

#include <cmath>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tests/interp/op_harness.h"

namespace tessera::interp {
namespace {

struct Case {
  int m;
  const char* conv;
  const char* dtype;
};

class Winograd : public ::testing::TestWithParam<Case> {};

std::string spec_of(const Case& c, bool winograd) {
  const std::string spec = fmt::format("{},dtype={}", c.conv, c.dtype);
  return winograd ? fmt::format("{},algo=winograd{}", spec, c.m) : spec;
}

// Empty, or where the result of `dag` with the weights `u` differs from the direct convolution's.
std::string difference(const Case& c, const OpRun& direct, const te::Dag& dag,
                       const HostTensor& u) {
  const HostTensor got = run(dag, {direct.inputs[0], u}).value()[0];
  // The transforms amplify the rounding of a sum, more so in larger tiles. A wrong entry is seen
  // all the same: WrongWinograd below.
  const double amplification = c.m == 2 ? 2 : c.m == 4 ? 4 : 16;
  const Shape& w = direct.inputs[1].shape();
  const std::int64_t terms = w[1] * w[2] * w[3];
  return testing::mismatch(got, direct.outputs[0],
                           amplification * testing::tolerance(got.dtype(), terms));
}

HostTensor weights_of(const Case& c, const HostTensor& w) {
  return te::winograd_weights(w, te::parse_op_spec(spec_of(c, true)).value()).value();
}

TEST_P(Winograd, EqualsDirect) {
  const Case& c = GetParam();
  const OpRun direct = run_op(spec_of(c, false));
  EXPECT_EQ(difference(c, direct, make(spec_of(c, true)), weights_of(c, direct.inputs[1])), "")
      << spec_of(c, true);
}

constexpr Case kCases[] = {
    {2, "conv2d:N=1,H=6,W=8,CI=3,CO=2,KH=3,KW=3", "f32"},
    {2, "conv2d:N=2,H=7,W=5,CI=3,CO=2,P=1,KH=3,KW=3", "f64"},
    {4, "conv2d:N=1,H=6,W=6,CI=3,CO=2,KH=3,KW=3", "f32"},
    {4, "conv2d:N=2,H=9,W=7,CI=3,CO=2,P=1,KH=3,KW=3", "f64"},
    {4, "conv2d:N=1,H=3,W=3,CI=1,CO=1,KH=3,KW=3", "f64"},
    {6, "conv2d:N=1,H=8,W=8,CI=3,CO=2,KH=3,KW=3", "f32"},
    {6, "conv2d:N=2,H=13,W=9,CI=3,CO=2,P=1,KH=3,KW=3", "f64"},
    {4, "conv2d:N=1,H=9,W=7,CI=3,CO=2,P=2,PT=0,PR=1,KH=3,KW=3", "f64"},
    {2, "conv2d:N=1,H=7,W=5,CI=3,CO=2,P=1,KH=3,KW=3", "f16"},
    {6, "conv2d:N=1,H=7,W=7,CI=5,CO=3,P=1,KH=3,KW=3", "f32"},
    {2, "conv2d:N=2,H=5,W=9,CI=3,CO=2,KH=1,KW=7,PL=3,PR=3", "f64"},
    {4, "conv2d:N=1,H=5,W=9,CI=3,CO=2,KH=1,KW=7,PL=3,PR=3", "f32"},
    {6, "conv2d:N=2,H=11,W=3,CI=3,CO=2,KH=7,KW=1,PT=3,PB=2", "f64"},
    {4, "conv2d:N=1,H=7,W=6,CI=3,CO=2,KH=3,KW=1,PT=1,PB=1", "f32"},
    {2, "conv2d:N=2,H=4,W=7,CI=3,CO=2,KH=1,KW=3", "f64"},
    {4, "conv2d:N=1,H=9,W=7,CI=3,CO=2,KH=5,KW=5,P=2", "f32"},
    {2, "conv2d:N=2,H=8,W=7,CI=3,CO=2,KH=5,KW=5,P=2", "f64"},
    {4, "conv2d:N=2,H=8,W=7,CI=3,CO=2,KH=2,KW=2", "f64"},
    {6, "conv2d:N=1,H=8,W=7,CI=3,CO=2,KH=2,KW=2,P=1", "f64"},
    {4, "conv2d:N=1,H=8,W=9,CI=3,CO=2,KH=2,KW=4", "f64"},
    {2, "conv2d:N=1,H=8,W=9,CI=3,CO=2,KH=3,KW=7,P=1", "f64"},
    {2, "conv_transpose2d:N=2,H=3,W=5,CI=3,CO=2,KH=4,KW=4,S=2,P=1", "f64"},
    {4, "conv_transpose2d:N=2,H=5,W=4,CI=3,CO=2,KH=4,KW=4,S=2,P=1", "f32"},
    {6, "conv_transpose2d:N=1,H=7,W=4,CI=3,CO=2,KH=4,KW=4,S=2,P=1", "f64"},
    {4, "conv_transpose2d:N=1,H=5,W=4,CI=3,CO=2,KH=4,KW=4,S=2,P=2", "f64"},
    {4, "conv_transpose2d:N=1,H=5,W=4,CI=3,CO=2,KH=3,KW=3,S=2,P=1,OP=1", "f64"},
    {2, "conv_transpose2d:N=1,H=5,W=4,CI=3,CO=2,KH=3,KW=3,S=2", "f64"},
    {4, "conv_transpose2d:N=1,H=4,W=5,CI=3,CO=2,KH=3,KW=3,S=1,P=2", "f64"},
    {2, "conv_transpose2d:N=1,H=3,W=4,CI=3,CO=2,KH=6,KW=5,S=3,P=1", "f64"},
    {4, "conv_transpose2d:N=1,H=3,W=4,CI=3,CO=2,KH=6,KW=4,S=2,P=3,PR=0", "f64"},
    {2, "conv_transpose2d:N=1,H=4,W=4,CI=3,CO=2,KH=4,KW=4,S=2,P=1", "f16"},
};

INSTANTIATE_TEST_SUITE_P(Interp, Winograd, ::testing::ValuesIn(kCases), [](const auto& test) {
  return fmt::format("F{}_{}_{}", test.param.m, test.index, test.param.dtype);
});

// Multiplies the load number `which` of an expression: an entry of a transform's matrix that is
// wrong by so much.
class WrongEntry : public ir::Mutator {
 public:
  explicit WrongEntry(int which) : left_(which) {}
  bool planted() const { return left_ < 0; }

 protected:
  using Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr& e, const ir::Load&) override {
    return left_-- == 0 ? e * ir::imm(e.dtype(), 1 + kWrong) : e;
  }

 private:
  static constexpr double kWrong = 1e-3;
  int left_;
};

// One tile, so that every entry counts.
class WrongWinograd : public ::testing::TestWithParam<Case> {};

TEST_P(WrongWinograd, EveryEntryOfTheTransformsOfImagesAndResultsIsSeen) {
  const Case& c = GetParam();
  const OpRun direct = run_op(spec_of(c, false));
  const te::Dag dag = make(spec_of(c, true));
  const HostTensor u = weights_of(c, direct.inputs[1]);
  ASSERT_EQ(difference(c, direct, dag, u), "");
  int planted = 0;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const std::string& name = dag.ops[op].name;
    if (name == "pad" || name == "M") continue;
    for (int which = 0;; ++which) {
      WrongEntry wrong(which);
      te::Dag other = dag;
      other.ops[op].values[0] = wrong(dag.ops[op].values[0]);
      if (!wrong.planted()) break;
      EXPECT_NE(difference(c, direct, other, u), "") << name << ", entry " << which;
      ++planted;
    }
  }
  EXPECT_GT(planted, 2 * c.m * c.m);
}

// U is linear in the weights: what a row of taps adds to a row of U is the entry of G between them.
TEST_P(WrongWinograd, EveryEntryOfTheTransformOfWeightsIsSeen) {
  const Case& c = GetParam();
  const OpRun direct = run_op(spec_of(c, false));
  const te::Dag dag = make(spec_of(c, true));
  const HostTensor &w = direct.inputs[1], u = weights_of(c, w);
  const std::int64_t columns = w.shape()[3], rows = w.shape()[2];
  const std::int64_t across = u.shape()[1], inner = u.size() / u.shape()[0] / across;
  for (const bool by_row : {true, false}) {
    const std::int64_t taps = by_row ? rows : columns;
    if (taps == 1) continue;
    for (std::int64_t k = 0; k < taps; ++k) {
      HostTensor one(w.dtype(), w.shape());
      for (std::int64_t e = 0; e < w.size(); ++e) {
        if ((by_row ? e / columns % rows : e % columns) == k) one.set_float(e, w.get_float(e));
      }
      const HostTensor part = weights_of(c, one);
      for (std::int64_t product = 0; product < u.shape()[by_row ? 0 : 1]; ++product) {
        HostTensor wrong = u.clone();
        bool planted = false;
        for (std::int64_t e = 0; e < u.size(); ++e) {
          const std::int64_t at = by_row ? e / inner / across : e / inner % across;
          if (at != product || part.get_float(e) == 0) continue;
          wrong.set_float(e, u.get_float(e) + 1e-3 * part.get_float(e));
          planted = true;
        }
        if (planted) {
          EXPECT_NE(difference(c, direct, dag, wrong), "") << "tap " << k << ", row " << product;
        }
      }
    }
  }
}

constexpr Case kOneTile[] = {
    {2, "conv2d:N=1,H=4,W=4,CI=2,CO=2,KH=3,KW=3", "f32"},
    {4, "conv2d:N=1,H=6,W=6,CI=2,CO=2,KH=3,KW=3", "f32"},
    {6, "conv2d:N=1,H=8,W=8,CI=2,CO=2,KH=3,KW=3", "f32"},
    {4, "conv2d:N=1,H=4,W=10,CI=2,CO=2,KH=1,KW=7", "f32"},
    {4, "conv2d:N=1,H=8,W=8,CI=2,CO=2,KH=5,KW=5", "f32"},
    {6, "conv2d:N=1,H=7,W=7,CI=2,CO=2,KH=2,KW=2", "f32"},
};

INSTANTIATE_TEST_SUITE_P(Interp, WrongWinograd, ::testing::ValuesIn(kOneTile),
                         [](const auto& test) {
                           return fmt::format("F{}_{}", test.param.m, test.index);
                         });

// What the rules take unseen rounds little more than 4 x 4 tiles of 3 x 3 windows do, and nothing
// that is offered more than twice as much as 6 x 6 tiles of those.
TEST(Winograd, LongWindowsRoundAsThreeByThree) {
  const auto error = [](const std::string& conv, int m) {
    const OpRun direct = run_op("conv2d:N=1,H=13,W=13,CI=64,CO=4," + conv + ",dtype=f32");
    const std::string spec = "conv2d:N=1,H=13,W=13,CI=64,CO=4," + conv;
    const HostTensor u = te::winograd_weights(direct.inputs[1], m).value();
    const HostTensor got =
        run(make(fmt::format("{},algo=winograd{}", spec, m)), {direct.inputs[0], u}).value()[0];
    std::vector<HostTensor> exact_inputs;
    for (const HostTensor& in : direct.inputs) {
      exact_inputs.emplace_back(DType::kF64, in.shape());
      for (std::int64_t e = 0; e < in.size(); ++e)
        exact_inputs.back().set_float(e, in.get_float(e));
    }
    const HostTensor exact = run(make(spec + ",dtype=f64"), exact_inputs).value()[0];
    double difference = 0, magnitude = 0;
    for (std::int64_t e = 0; e < got.size(); ++e) {
      difference += std::pow(got.get_float(e) - exact.get_float(e), 2);
      magnitude += std::pow(exact.get_float(e), 2);
    }
    return std::sqrt(difference / magnitude);
  };
  const double four = error("KH=3,KW=3", 4), six = error("KH=3,KW=3", 6);
  EXPECT_LT(six, 2e-5);
  for (const char* conv : {"KH=1,KW=7", "KH=7,KW=1", "KH=1,KW=3", "KH=5,KW=5", "KH=2,KW=2"}) {
    EXPECT_LT(error(conv, 2), 3 * four) << conv;
    EXPECT_LT(error(conv, 4), 3 * four) << conv;
  }
  EXPECT_LT(error("KH=1,KW=7", 6), 2 * six);
  EXPECT_LT(error("KH=2,KW=2", 6), 2 * six);
}

}  // namespace
}  // namespace tessera::interp
