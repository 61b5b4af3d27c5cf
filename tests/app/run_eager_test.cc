// Node by node: operators whose inference needs values that their code does not know.
#include "tessera/app/compile/run_eager.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/onnx/node_model.h"

namespace tessera::app {
namespace {

using onnx::testing::attr;
using onnx::testing::counting;
using onnx::testing::float_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;

// NonZero makes the model data-dependent; the image beside it is resized.
onnx::Model resize_model(const std::string& mode, const Shape& image) {
  return make_model(
      make_graph({value_info("x", DType::kF32, image)},
                 {make_node("NonZero", {"x"}, {"found"}),
                  make_node("Resize", {"x", "", "scales"}, {"y"}, {attr("mode", mode)})},
                 {"found", "y"}, {{"scales", float_tensor({4}, {1, 1, 2, 2})}}));
}

class RunEager : public ::testing::TestWithParam<double> {
 protected:
  Result<std::vector<HostTensor>> run(const onnx::Model& model, const HostTensor& x) {
    NodeEvaluator evaluator(target::host(), device_, GetParam());
    return run_eager(model, {{"x", x}}, evaluator);
  }
  runtime::CpuDevice device_{{.threads = 1}};
};

// Half pixels: 0.75 and 0.25 of the two neighbours, the border repeated.
TEST_P(RunEager, LinearResize) {
  const HostTensor x = float_tensor({1, 1, 2, 2}, {1, 2, 3, 4});
  const auto y = run(resize_model("linear", {1, 1, 2, 2}), x);
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ((*y)[0].shape(), (Shape{4, 4}));
  const HostTensor want = float_tensor({1, 1, 4, 4}, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5,
                                                      2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  EXPECT_EQ(tessera::testing::mismatch((*y)[1], want, 1e-6), "");
}

// Keys' cubic with a = -0.75 at distance d.
double cubic(double d) {
  d = std::abs(d);
  if (d <= 1) return (1.25 * d - 2.25) * d * d + 1;
  return d < 2 ? ((-0.75 * d + 3.75) * d - 6) * d + 3 : 0;
}

TEST_P(RunEager, CubicResize) {
  const HostTensor x = counting({1, 1, 5, 5});
  const auto y = run(resize_model("cubic", {1, 1, 5, 5}), x);
  ASSERT_TRUE(y.ok()) << y.error().message;
  HostTensor want(DType::kF32, {1, 1, 10, 10});
  for (std::int64_t i = 0; i < 100; ++i) {
    const double row = (static_cast<double>(i / 10) - 0.5) / 2;
    const double column = (static_cast<double>(i % 10) - 0.5) / 2;
    double sum = 0;
    for (int r = -3; r < 8; ++r) {
      for (int c = -3; c < 8; ++c) {
        const double pixel = x.get_float(std::clamp(r, 0, 4) * 5 + std::clamp(c, 0, 4));
        sum += pixel * cubic(row - r) * cubic(column - c);
      }
    }
    want.set_float(i, sum);
  }
  EXPECT_EQ(tessera::testing::mismatch((*y)[1], want, 1e-5), "");
}

// Interpreted as small nodes are, and compiled as large ones are.
INSTANTIATE_TEST_SUITE_P(Both, RunEager, ::testing::Values(kWorthCompiling, 0.0));

}  // namespace
}  // namespace tessera::app
