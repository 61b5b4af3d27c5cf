// The weights and biases of layers as integers.
#pragma once

#include "tessera/app/quantize/calibrate.h"
#include "tessera/app/quantize/layers.h"
#include "tessera/app/quantize/ranges.h"

namespace tessera::app {

struct LayerWeights {
  HostTensor integers;  // i8 in the shape of the weight
  HostTensor scales;    // one per output
  HostTensor bias;      // f32 as it should be added, corrected; of no elements: none
};

// Eight bits, symmetric, a scale per output. With the mean of each channel of x known, what
// rounding the weights adds to the mean of each output is taken off the bias. `x_scale` above 0:
// the bias fits 32-bit integers in steps of x_scale times the scale of the weights.
LayerWeights byte_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                          const Observed* x, double x_scale);

// What element i of the integers stands for.
double weight_value(const LayerWeights& weights, std::int64_t i, std::int64_t output);

}  // namespace tessera::app
