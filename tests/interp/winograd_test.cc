// Winograd convolutions give what the direct definition gives.
#include "tessera/te/ops/winograd.h"

#include <cmath>

#include "tests/interp/op_harness.h"

namespace tessera::interp {
namespace {

struct Case {
  int m;
  const char* conv;
  const char* dtype;
};

class Winograd : public ::testing::TestWithParam<Case> {};

TEST_P(Winograd, EqualsDirect) {
  const Case& c = GetParam();
  const std::string spec = fmt::format("{},dtype={}", c.conv, c.dtype);
  const OpRun direct = run_op(spec);
  const te::Dag dag = make(fmt::format("{},algo=winograd{}", spec, c.m));
  const te::OpSpec parsed = te::parse_op_spec(fmt::format("{},algo=winograd{}", spec, c.m)).value();
  const HostTensor u = te::winograd_weights(direct.inputs[1], parsed).value();
  const HostTensor got = run(dag, {direct.inputs[0], u}).value()[0];
  // The transforms amplify rounding: by their largest entries, which grow with the tile.
  const double amplification = c.m == 2 ? 4 : c.m == 4 ? 32 : 256;
  const double tolerance = amplification * testing::tolerance(got.dtype(), direct.inputs[1].size());
  EXPECT_EQ(testing::mismatch(got, direct.outputs[0], tolerance), "") << spec;
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
