// Winograd convolutions give what the direct definition gives.
#include "tessera/te/ops/winograd.h"

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
  const std::string spec = fmt::format("conv2d:{},KH=3,KW=3,dtype={}", c.conv, c.dtype);
  const OpRun direct = run_op(spec);
  const te::Dag dag = make(fmt::format("{},algo=winograd{}", spec, c.m));
  const HostTensor u = te::winograd_weights(direct.inputs[1], c.m).value();
  const HostTensor got = run(dag, {direct.inputs[0], u}).value()[0];
  // The transforms amplify rounding: by their largest entries, which grow with the tile.
  const double amplification = c.m == 2 ? 4 : c.m == 4 ? 32 : 256;
  const double tolerance =
      amplification * testing::tolerance(got.dtype(), 9 * direct.inputs[0].shape()[3]);
  EXPECT_EQ(testing::mismatch(got, direct.outputs[0], tolerance), "") << spec;
}

constexpr Case kCases[] = {
    {2, "N=1,H=6,W=8,CI=3,CO=2", "f32"},      {2, "N=2,H=7,W=5,CI=3,CO=2,P=1", "f64"},
    {4, "N=1,H=6,W=6,CI=3,CO=2", "f32"},      {4, "N=2,H=9,W=7,CI=3,CO=2,P=1", "f64"},
    {4, "N=1,H=3,W=3,CI=1,CO=1", "f64"},      {6, "N=1,H=8,W=8,CI=3,CO=2", "f32"},
    {6, "N=2,H=13,W=9,CI=3,CO=2,P=1", "f64"}, {4, "N=1,H=9,W=7,CI=3,CO=2,P=2,PT=0,PR=1", "f64"},
    {2, "N=1,H=7,W=5,CI=3,CO=2,P=1", "f16"},  {6, "N=1,H=7,W=7,CI=5,CO=3,P=1", "f32"},
};

INSTANTIATE_TEST_SUITE_P(Interp, Winograd, ::testing::ValuesIn(kCases), [](const auto& test) {
  return fmt::format("F{}_{}_{}", test.param.m, test.index, test.param.dtype);
});

}  // namespace
}  // namespace tessera::interp
