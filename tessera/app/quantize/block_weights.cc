#include "tessera/app/quantize/block_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "tessera/support/ceil_div.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

// Ranges that are tried: all of the weights, and what is left of it when its ends are cut off.
constexpr int kCuts = 12;
constexpr double kSmallestShare = 0.64;

double share_of(int cut) { return 1 - (1 - kSmallestShare) * cut / (kCuts - 1); }

struct Limits {
  double low, high;
};

Limits limits_of(const Blocks& how) {
  const double count = 1 << how.bits;
  return how.symmetric ? Limits{-count / 2, count / 2 - 1} : Limits{0, count - 1};
}

double rounded(double weight, const Block& b, const Limits& limits) {
  return std::clamp(std::nearbyint(weight / b.scale) + b.zero, limits.low, limits.high);
}

double squared_error(const std::vector<float>& weights, const Block& b, const Limits& limits) {
  double sum = 0;
  for (const float w : weights) {
    const double error = (rounded(w, b, limits) - b.zero) * b.scale - w;
    sum += error * error;
  }
  return sum;
}

// The scale that is best for the integers which this one leads to.
double refined(const std::vector<float>& weights, const Block& b, const Limits& limits) {
  double both = 0, squares = 0;
  for (const float w : weights) {
    const double q = rounded(w, b, limits) - b.zero;
    both += q * w;
    squares += q * q;
  }
  return squares > 0 && both > 0 ? both / squares : b.scale;
}

class BestBlock {
 public:
  BestBlock(const std::vector<float>& weights, const Limits& limits)
      : weights_(weights), limits_(limits) {}

  void consider(Block b) {
    b.scale = static_cast<float>(b.scale);  // as it is stored
    // Blocks of zeros, and of numbers that no scale can divide.
    if (!(b.scale > double{std::numeric_limits<float>::min()})) return;
    const double error = squared_error(weights_, b, limits_);
    if (error >= error_) return;
    error_ = error;
    best_ = b;
  }
  // With scales that are better for its integers.
  Block refine() {
    for (int i = 0; i < 2; ++i) consider({refined(weights_, best_, limits_), best_.zero});
    return best_;
  }

 private:
  const std::vector<float>& weights_;
  const Limits limits_;
  Block best_;
  double error_ = std::numeric_limits<double>::infinity();
};

// Where the weights of a block lie.
struct BlockPlace {
  std::int64_t first, stride, count;
};

// Rows and columns of blocks in the shape of the scales.
struct BlockGrid {
  Shape scales;
  bool along_rows = false;  // the summed axis is the last one
  std::int64_t rows = 0, columns = 0, size = 0;

  BlockPlace place(std::int64_t block) const {
    const std::int64_t r = block / scales[1], c = block % scales[1];
    if (along_rows) return {r * columns + c * size, 1, std::min(size, columns - c * size)};
    return {r * size * columns + c, columns, std::min(size, rows - r * size)};
  }
};

BlockGrid grid_of(const Layer& layer, const Blocks& how) {
  BlockGrid g{layer.shape, layer.input_axis() == 1, layer.shape[0], layer.shape[1], how.size};
  const auto axis = static_cast<std::size_t>(layer.input_axis());
  g.scales[axis] = ceil_div(layer.shape[axis], how.size);
  return g;
}

}  // namespace

Block fit_block(const std::vector<float>& weights, const Blocks& how) {
  const Limits limits = limits_of(how);
  double low = 0, high = 0;  // 0 is always between them
  for (const float w : weights) {
    low = std::min(low, double{w});
    high = std::max(high, double{w});
  }
  BestBlock best(weights, limits);
  for (int i = 0; i < kCuts; ++i) {
    if (how.symmetric) {
      const double peak = std::max(-low, high) * share_of(i);
      best.consider({peak / limits.high, 0});
      best.consider({peak / -limits.low, 0});
      continue;
    }
    for (int j = 0; j < kCuts; ++j) {
      const double from = low * share_of(i), to = high * share_of(j);
      const double scale = (to - from) / limits.high;
      if (scale > 0)
        best.consider({scale, std::clamp(std::nearbyint(-from / scale), 0.0, limits.high)});
    }
  }
  return best.refine();
}

LayerWeights block_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                           const Observed* x, const Blocks& how) {
  const BlockGrid grid = grid_of(layer, how);
  const Limits limits = limits_of(how);
  const DType type = how.symmetric ? DType::kI8 : DType::kU8;
  LayerWeights out{HostTensor(type, layer.shape), HostTensor(DType::kF32, grid.scales), {}, {}};
  if (!how.symmetric) out.zeros = HostTensor(type, grid.scales);
  std::vector<float> stands_for(static_cast<std::size_t>(weight.size()));
  const float* weights = weight.as<float>();
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t lines = grid.scales[0];
  parallel_for(static_cast<std::size_t>(lines), threads, [&](std::size_t line) {
    std::vector<float> values;
    for (std::int64_t c = 0; c < grid.scales[1]; ++c) {
      const std::int64_t block = static_cast<std::int64_t>(line) * grid.scales[1] + c;
      const BlockPlace place = grid.place(block);
      values.clear();
      for (std::int64_t i = 0; i < place.count; ++i)
        values.push_back(weights[place.first + i * place.stride]);
      const Block b = fit_block(values, how);
      out.scales.as<float>()[block] = static_cast<float>(b.scale);
      if (!how.symmetric) out.zeros.as<std::uint8_t>()[block] = static_cast<std::uint8_t>(b.zero);
      for (std::int64_t i = 0; i < place.count; ++i) {
        const std::int64_t at = place.first + i * place.stride;
        const double q = rounded(weights[at], b, limits);
        // Integers of both types are the same byte.
        out.values.as<std::uint8_t>()[at] = static_cast<std::uint8_t>(static_cast<int>(q));
        stands_for[static_cast<std::size_t>(at)] = static_cast<float>((q - b.zero) * b.scale);
      }
    }
  });
  correct_bias(layer, weight, bias, x, stands_for, &out);
  return out;
}

PackedBlocks pack_blocks(const Layer& layer, const LayerWeights& weights, const Blocks& how) {
  const std::int64_t outputs = layer.outputs(), inputs = layer.inputs();
  const std::int64_t blocks = ceil_div(inputs, how.size), per_byte = 8 / how.bits;
  const std::int64_t row = ceil_div(blocks, per_byte);
  // Symmetric integers are written with the middle as zero point.
  const std::int64_t middle = how.symmetric ? std::int64_t{1} << (how.bits - 1) : 0;
  PackedBlocks out{HostTensor(DType::kU8, {outputs, blocks, how.size / per_byte}),
                   HostTensor(DType::kF32, {outputs * blocks}),
                   HostTensor(DType::kU8, {how.symmetric ? 0 : outputs * row})};
  const auto put = [&](HostTensor& to, std::int64_t begin, std::int64_t i, std::int64_t value) {
    std::uint8_t& byte = to.as<std::uint8_t>()[begin + i / per_byte];
    byte = static_cast<std::uint8_t>(byte | value << (i % per_byte * how.bits));
  };
  const auto at = [&](std::int64_t o, std::int64_t i, std::int64_t columns) {
    return layer.turned ? o * columns + i : i * outputs + o;
  };
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      put(out.values, o * blocks * how.size / per_byte, i,
          weights.values.get_int(at(o, i, inputs)) + middle);
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      out.scales.as<float>()[o * blocks + b] = weights.scales.as<float>()[at(o, b, blocks)];
      if (!how.symmetric) put(out.zeros, o * row, b, weights.zeros.get_int(at(o, b, blocks)));
    }
  }
  return out;
}

}  // namespace tessera::app
