// Layers as the PyTorch exporter writes them. Weights are scaled so that every convolution and
// every linear layer gives values of variance 1 for the distribution its input is known to have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/frontend/zoo/model_builder.h"

namespace tessera::zoo {

// Kernel, stride, padding (both sides) and dilation, one number per spatial dimension.
struct Window {
  std::vector<std::int64_t> kernel, stride, pad, dilation;
};
Window square(std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0);
// Stride 1, padding that keeps the size: 1x7, 7x1 and the like; kernels are odd.
Window same(std::int64_t kernel_h, std::int64_t kernel_w);

struct ConvSpec {
  std::int64_t out;
  Window window;
  std::int64_t group = 1;
  bool bias = false;
  double norm_gain = 1;  // standard deviation that a BatchNormalization after it gives
};

enum class Act { kNone, kRelu, kRelu6, kHardSwish, kSilu };

Value conv(ModelBuilder& b, const Value& x, const std::string& name, const ConvSpec& spec);
Value conv_transpose(ModelBuilder& b, const Value& x, const std::string& name,
                     const ConvSpec& spec);
// Gives values with the standard deviation `gain`.
Value batch_norm(ModelBuilder& b, const Value& x, const std::string& name, double epsilon = 1e-5,
                 double gain = 1);
// One dimension of the output; refuses a window larger than the padded input, naming the layer.
std::int64_t window_size(ModelBuilder& b, const std::string& name, std::int64_t in,
                         const Window& window, std::size_t d, bool ceil_mode = false);

Value max_pool(ModelBuilder& b, const Value& x, const Window& window, bool ceil_mode = false);
Value average_pool(ModelBuilder& b, const Value& x, const Window& window,
                   bool count_include_pad = true);
Value global_average_pool(ModelBuilder& b, const Value& x);

Value activate(ModelBuilder& b, const Value& x, Act act);
Value relu(ModelBuilder& b, const Value& x);
Value sigmoid(ModelBuilder& b, const Value& x);
Value hard_sigmoid(ModelBuilder& b, const Value& x);
Value tanh(ModelBuilder& b, const Value& x);
Value gelu_erf(ModelBuilder& b, const Value& x);
Value gelu_tanh(ModelBuilder& b, const Value& x);

Value add(ModelBuilder& b, const Value& x, const Value& y);
Value sub(ModelBuilder& b, const Value& x, const Value& y);
Value mul(ModelBuilder& b, const Value& x, const Value& y);
Value div(ModelBuilder& b, const Value& x, const Value& y);

Value concat(ModelBuilder& b, const std::vector<Value>& parts, std::int64_t axis);
Value flatten(ModelBuilder& b, const Value& x);  // keeps the first dimension
Value reshape(ModelBuilder& b, const Value& x, const Shape& shape);
Value transpose(ModelBuilder& b, const Value& x, const std::vector<std::int64_t>& perm);
Value slice(ModelBuilder& b, const Value& x, std::int64_t axis, std::int64_t begin,
            std::int64_t end);
// Equal parts along `axis`.
std::vector<Value> split(ModelBuilder& b, const Value& x, std::int64_t parts, std::int64_t axis);
Value unsqueeze(ModelBuilder& b, const Value& x, std::int64_t axis);
Value gather(ModelBuilder& b, const Value& table, const Value& indices, std::int64_t axis);

// Gemm with a weight [out, in], as nn.Linear on rank 2.
Value linear(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out);
// MatMul with a weight [in, out], and Add of a bias, as nn.Linear on higher ranks.
Value dense(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out,
            bool bias = true);
Value matmul(ModelBuilder& b, const Value& x, const Value& y, Moments moments);
Value softmax(ModelBuilder& b, const Value& x);  // over the last dimension
Value reduce_mean(ModelBuilder& b, const Value& x, std::vector<std::int64_t> axes, bool keep);

// Random scale around `gain` or shift around 0 of a normalisation.
Value norm_scale(ModelBuilder& b, const std::string& name, std::int64_t size, double gain = 1);
Value norm_shift(ModelBuilder& b, const std::string& name, std::int64_t size, double gain = 1);
Value layer_norm(ModelBuilder& b, const Value& x, const std::string& name, double epsilon);
// The same in nine nodes, as exporters below opset 17 write it.
Value layer_norm_decomposed(ModelBuilder& b, const Value& x, const std::string& name,
                            double epsilon);

}  // namespace tessera::zoo
