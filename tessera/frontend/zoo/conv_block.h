// Blocks that exist in two forms: float (Conv, BatchNormalization, activation) and quantised, where
// every operator stands between QuantizeLinear and DequantizeLinear and normalisation is folded, as
// post-training quantisers write it. A value with a scale selects the quantised form, so a network
// is quantised by quantising its input.
#pragma once

#include <string>

#include "tessera/frontend/zoo/layers.h"

namespace tessera::zoo {

// QuantizeLinear to u8 and back, with a range of five deviations around the mean.
Value quantize(ModelBuilder& b, const Value& x);
// The same if `like` is quantised, else `x`.
Value quantize_like(ModelBuilder& b, const Value& x, const Value& like);

Value conv_bn(ModelBuilder& b, const Value& x, const std::string& conv_name,
              const std::string& bn_name, const ConvSpec& spec, Act act, double epsilon = 1e-5);
// act(x + y).
Value residual(ModelBuilder& b, const Value& x, const Value& y, Act act);
// x times a gate for each channel, computed from the channel averages through `squeezed` values:
// `act` and then `gate` follow the two 1x1 convolutions.
Value squeeze_excite(ModelBuilder& b, const Value& x, const std::string& name,
                     std::int64_t squeezed, Act act, Value (*gate)(ModelBuilder&, const Value&));
// Global average, Flatten and the final linear layer.
Value classify(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t classes);
// linear() with int8 weights where `x` is quantised.
Value classifier(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out);

// DynamicQuantizeLinear of `x`, MatMulInteger with an int8 weight, rescaling and bias, as dynamic
// quantisers write a linear layer.
Value linear_dynamic(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out);

}  // namespace tessera::zoo
