// The weights and biases of layers in narrow types.
#pragma once

#include "tessera/app/quantize/calibrate.h"
#include "tessera/app/quantize/layers.h"
#include "tessera/app/quantize/ranges.h"

namespace tessera::app {

struct LayerWeights {
  HostTensor values;  // in the shape of the weight
  HostTensor scales;  // one per output, or per block (block_weights.h)
  HostTensor zeros;   // as the scales; of no shape and elements: none
  HostTensor bias;    // f32 as it should be added, corrected; of no elements: none
};

// Eight bits, symmetric, a scale per output. With the mean of each channel of x known, what
// rounding the weights adds to the mean of each output is taken off the bias. `x_scale` above 0:
// the bias fits 32-bit integers in steps of x_scale times the scale of the weights.
LayerWeights byte_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                          const Observed* x, double x_scale);

// The same in eight bits of a float.
LayerWeights short_float_weights(const Layer& layer, const HostTensor& weight,
                                 const HostTensor* bias, const Observed* x);

// What element i stands for, with a scale per output.
double weight_value(const LayerWeights& weights, std::int64_t i, std::int64_t output);

// Sets the bias: `bias`, where the channels of x are known less the mean of what is added when
// weights are what they `stand_for`.
void correct_bias(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                  const Observed* x, const std::vector<float>& stand_for, LayerWeights* out);

}  // namespace tessera::app
