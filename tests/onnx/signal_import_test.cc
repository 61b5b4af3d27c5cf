#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

HostTensor f32(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kF32, shape, v);
}

HostTensor scalar(std::int64_t v) { return int_tensor({}, {v}); }

HostTensor run(const OneNode& node, const std::vector<Operand>& operands) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? y->at(0) : HostTensor();
}

auto near(const std::vector<double>& want) { return Pointwise(::testing::DoubleNear(1e-5), want); }

TEST(WindowImport, PeriodicAndSymmetric) {
  EXPECT_THAT(values_of(run({.op = "HannWindow"}, {known(scalar(4))})), near({0, 0.5, 1, 0.5}));
  const OneNode symmetric = {.op = "HannWindow", .attributes = {attr("periodic", 0)}};
  EXPECT_THAT(values_of(run(symmetric, {known(scalar(3))})), near({0, 1, 0}));
  EXPECT_THAT(values_of(run(symmetric, {known(scalar(1))})), near({1}));
  EXPECT_EQ(run(symmetric, {known(scalar(0))}).shape(), Shape{0});
  const HostTensor wide = run({.op = "BlackmanWindow", .attributes = {attr("output_datatype", 11)}},
                              {known(scalar(2))});
  EXPECT_EQ(wide.dtype(), DType::kF64);
  EXPECT_THAT(values_of(wide), near({0, 1}));
  EXPECT_THAT(refusal({.op = "HannWindow"}, {scalar(4)}), HasSubstr("follows from data"));
  EXPECT_THAT(refusal({.op = "HannWindow"}, {known(scalar(-1))}), HasSubstr("size is -1"));
  EXPECT_THAT(refusal({.op = "HannWindow"}, {known(scalar(std::int64_t{1} << 40))}),
              HasSubstr("size is"));
}

TEST(MelWeightImport, RefusesBandsThatAreNone) {
  const auto mel = [](double low, double high) {
    return refusal({.op = "MelWeightMatrix"},
                   {known(scalar(2)), known(scalar(8)), known(scalar(100)), known(f32({}, {low})),
                    known(f32({}, {high}))});
  };
  EXPECT_THAT(mel(40, 10), HasSubstr("a band from 40 to 10 Hz"));
  EXPECT_THAT(mel(std::nan(""), 10), HasSubstr("a band"));
  // Filters above the spectrogram are cut off.
  EXPECT_EQ(mel(0, 1e6), "no error");
}

TEST(DftImport, LengthCutsAndPads) {
  const HostTensor x = f32({1, 4, 1}, {1, 2, 3, 4});
  EXPECT_THAT(values_of(run({.op = "DFT"}, {x})), near({10, 0, -2, 2, -2, 0, -2, -2}));
  EXPECT_THAT(values_of(run({.op = "DFT"}, {x, known(scalar(2))})), near({3, 0, -1, 0}));
  EXPECT_THAT(values_of(run({.op = "DFT", .attributes = {attr("onesided", 1)}},
                            {f32({1, 2, 1}, {1, 2}), known(scalar(4))})),
              near({3, 0, 1, -2, -1, 0}));
}

TEST(DftImport, AxisIsAnInputFrom20) {
  const HostTensor x = f32({2, 2, 1}, {1, 2, 3, 5});
  EXPECT_THAT(values_of(run({.op = "DFT", .opset = 20}, {x})), near({3, 0, -1, 0, 8, 0, -2, 0}));
  EXPECT_THAT(values_of(run({.op = "DFT", .opset = 20}, {x, omitted(), known(scalar(0))})),
              near({4, 0, 7, 0, -2, 0, -3, 0}));
  EXPECT_THAT(refusal({.op = "DFT", .opset = 20}, {x, omitted(), known(scalar(-1))}),
              HasSubstr("parts of the numbers"));
}

TEST(DftImport, InverseOfComplexNumbers) {
  const HostTensor x = f32({1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2});
  const OneNode inverse = {.op = "DFT", .attributes = {attr("inverse", 1)}};
  EXPECT_THAT(values_of(run(inverse, {x})), near({1, 0, 2, 0, 3, 0, 4, 0}));
  EXPECT_THAT(refusal({.op = "DFT"}, {f32({1, 1, 3}, {0, 0, 0})}), HasSubstr("size 1 or 2"));
  EXPECT_THAT(refusal({.op = "DFT"}, {f32({1, 0, 1}, {})}), HasSubstr("no sample"));
  EXPECT_THAT(refusal({.op = "DFT"}, {f32({3}, {1, 2, 3})}), HasSubstr("floats"));
}

// A real signal, its one-sided spectrum and back, of even and odd length.
TEST(DftImport, OneSidedInverseGivesTheRealSignal) {
  for (const std::int64_t n : {4, 5, 9}) {
    for (const std::int64_t opset : {17, 20}) {
      std::vector<double> signal;
      for (std::int64_t i = 0; i < n; ++i)
        signal.push_back(std::sin(1.3 * static_cast<double>(i)) + 0.5);
      const HostTensor spectrum =
          run({.op = "DFT", .opset = opset, .attributes = {attr("onesided", 1)}},
              {f32({1, n, 1}, signal)});
      ASSERT_EQ(spectrum.shape(), (Shape{1, n / 2 + 1, 2}));
      const OneNode inverse = {
          .op = "DFT", .opset = opset, .attributes = {attr("inverse", 1), attr("onesided", 1)}};
      const HostTensor back = run(inverse, {spectrum, known(scalar(n))});
      EXPECT_EQ(back.shape(), (Shape{1, n, 1}));
      EXPECT_THAT(values_of(back), near(signal));
      // The length is even where it is not given.
      if (n % 2 == 0) {
        EXPECT_THAT(values_of(run(inverse, {spectrum})), near(signal));
      }
    }
  }
}

// Missing bins are zero, bins beyond the length are not read; only real parts of the first and the
// last bin count.
TEST(DftImport, OneSidedInverseOfOtherLengths) {
  const OneNode inverse = {.op = "DFT", .attributes = {attr("inverse", 1), attr("onesided", 1)}};
  const HostTensor x = f32({1, 3, 2}, {8, 7, 4, 4, 6, 5});
  // numpy.fft.irfft([8+7j, 4+4j, 6+5j], n)
  EXPECT_THAT(values_of(run(inverse, {x})), near({5.5, -1.5, 1.5, 2.5}));
  EXPECT_THAT(values_of(run(inverse, {x, known(scalar(2))})), near({6, 2}));
  EXPECT_THAT(values_of(run(inverse, {x, known(scalar(6))})),
              near({4.66666667, -1.59807621, -0.0446582, 2, -0.62200847, 3.59807621}));
  EXPECT_THAT(refusal(inverse, {f32({1, 1, 2}, {1, 0})}), HasSubstr("no sample"));
}

TEST(StftImport, FramesOverlap) {
  const HostTensor x = f32({1, 5, 1}, {1, 2, 3, 4, 5});
  const HostTensor y = run({.op = "STFT"}, {x, known(scalar(1)), omitted(), known(scalar(2))});
  EXPECT_EQ(y.shape(), (Shape{1, 4, 2, 2}));
  EXPECT_THAT(values_of(y), near({3, 0, -1, 0, 5, 0, -1, 0, 7, 0, -1, 0, 9, 0, -1, 0}));
  EXPECT_THAT(values_of(run({.op = "STFT"}, {f32({1, 5}, {1, 2, 3, 4, 5}), known(scalar(1)),
                                             omitted(), known(scalar(2))})),
              near(values_of(y)))
      << "without the last axis";
  // A window that is only known at run time; the last sample is in no frame.
  EXPECT_THAT(values_of(run({.op = "STFT", .attributes = {attr("onesided", 0)}},
                            {x, known(scalar(2)), f32({2}, {1, 2})})),
              near({5, 0, -3, 0, 11, 0, -5, 0}));
  EXPECT_THAT(refusal({.op = "STFT"}, {x, known(scalar(0)), omitted(), known(scalar(2))}),
              HasSubstr("frame_step is 0"));
  EXPECT_THAT(refusal({.op = "STFT"}, {x, known(scalar(1)), omitted(), known(scalar(9))}),
              HasSubstr("frames of 9 in 5 samples"));
  EXPECT_THAT(refusal({.op = "STFT"}, {x, known(scalar(1))}), HasSubstr("neither window"));
}

OneNode ngrams(const char* mode, std::vector<std::int64_t> columns) {
  return {.op = "TfIdfVectorizer",
          .opset = 9,
          .attributes = {attr("mode", std::string(mode)), attr("min_gram_length", 1),
                         attr("max_gram_length", 2), attr("max_skip_count", 1),
                         attr("ngram_counts", std::vector<std::int64_t>{0, 2}),
                         attr("ngram_indexes", std::move(columns)),
                         attr("pool_int64s", std::vector<std::int64_t>{1, 2, 1, 2}),
                         attr("weights", std::vector<float>{2, 3, 5})}};
}

TEST(TfIdfImport, WeighsByModeAndColumn) {
  const HostTensor x = int_tensor({5}, {1, 2, 2, 9, 1});
  // The pair (1, 2) occurs next to each other and with one token between.
  EXPECT_THAT(values_of(run(ngrams("TF", {0, 1, 2}), {x})), ElementsAre(2, 2, 2));
  EXPECT_THAT(values_of(run(ngrams("IDF", {0, 1, 3}), {x})), ElementsAre(2, 3, 0, 5));
  EXPECT_THAT(values_of(run(ngrams("TFIDF", {2, 1, 0}), {x})), ElementsAre(10, 6, 4));
  EXPECT_EQ(run(ngrams("TF", {0, 1, 2}), {int_tensor({2, 0}, {})}).shape(), (Shape{2, 3}));
  EXPECT_THAT(refusal(ngrams("TF", {0, 1}), {x}), HasSubstr("columns for more n-grams"));
  EXPECT_THAT(refusal(ngrams("TF", {0, 1, -1}), {x}), HasSubstr("column -1"));
  EXPECT_THAT(refusal(ngrams("?", {0, 1, 2}), {x}), HasSubstr("mode"));
  EXPECT_THAT(refusal(ngrams("TF", {0, 1, 2}), {f32({1}, {1})}), HasSubstr("token ids"));
}

TEST(TrainingImport, FirstUpdateAndErrors) {
  const std::string domain = "ai.onnx.preview.training";
  const OneNode momentum = {
      .op = "Momentum",
      .attributes = {attr("alpha", 0.5F), attr("beta", 0.25F), attr("norm_coefficient", 0.0F),
                     attr("mode", std::string("standard"))},
      .outputs = 2,
      .domain = domain};
  const auto step = [&](std::int64_t t) {
    const auto y = run_node(
        momentum, {f32({}, {0.5}), scalar(t), f32({1}, {1}), f32({1}, {4}), f32({1}, {2})});
    EXPECT_TRUE(y.ok()) << y.error().message;
    return y.ok() ? std::vector{values_of(y->at(0))[0], values_of(y->at(1))[0]}
                  : std::vector<double>{};
  };
  EXPECT_THAT(step(0), ElementsAre(-1.5, 5));
  EXPECT_THAT(step(1), ElementsAre(0, 2));
  const HostTensor one = f32({1}, {1});
  EXPECT_THAT(refusal(momentum, {f32({}, {1}), scalar(0), one, one, one, one}),
              HasSubstr("4 tensors do not make 3 groups"));
  EXPECT_THAT(refusal(momentum, {f32({2}, {1, 1}), scalar(0), one, one, one}),
              HasSubstr("input 0 is not a scalar"));
}

}  // namespace
}  // namespace tessera::onnx::testing
