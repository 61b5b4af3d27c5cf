// A model in float as one with narrow layers, as accurate as asked for.
#pragma once

#include "tessera/app/quantize/ranges.h"
#include "tessera/app/quantize/samples.h"
#include "tessera/app/quantize/write_layers.h"

namespace tessera::app {

// How near outputs are to those of the float model, of all samples together.
struct Accuracy {
  double cosine = 1;  // of the output that is furthest away
  double top1 = 1;    // share of the rows whose largest element is the same
};

struct Tolerance {
  enum class Measure : std::uint8_t { kCosine, kTop1 };
  Measure measure = Measure::kCosine;
  double at_least = 0.99;
  bool holds(const Accuracy& accuracy) const {
    return (measure == Measure::kCosine ? accuracy.cosine : accuracy.top1) >= at_least;
  }
};

struct QuantizeOptions {
  Scheme scheme = Scheme::kInt8;
  RangeMethod method = RangeMethod::kMinMax;
  std::vector<std::string> keep;  // layers that stay float, by the names of their nodes
  Tolerance tolerance;
  bool equalize = true, smooth = true, correct_bias = true;
  Blocks blocks = {};  // of stores_weights(); the scheme says how many bits
  BlockForm form = BlockForm::kDequantize;
};

struct CalibrationData {
  std::vector<Sample> samples;
  int random = 0;  // so many samples are drawn instead
};

struct QuantizedLayer {
  std::string name, op;
  double error = 0;  // 1 - cosine with this layer alone narrow; below 0: not measured
  enum class Kept : std::uint8_t { kNo, kAsked, kSensitive } kept = Kept::kNo;
};

struct QuantizedModel {
  onnx::Model model;
  std::vector<QuantizedLayer> layers;
  int folded = 0, equalized = 0, smoothed = 0;
  std::size_t samples = 0;
  // Of the written model as Tessera runs it; nothing without samples.
  std::optional<Accuracy> accuracy;
};

// kInvalidArgument: a name in `keep` is not that of a layer; kUnsupported: nothing to quantise, a
// model without float outputs, or of an opset that cannot hold floats of eight bits. kInt8 and kF8
// need samples. The others do without: then every layer that is not kept is narrow, and nothing is
// measured.
Result<QuantizedModel> quantize(const onnx::Model& model, const CalibrationData& data,
                                const QuantizeOptions& options, const CompileOptions& compile,
                                const QuantizeCallbacks& callbacks);

}  // namespace tessera::app
