// Algorithms of a convolution: which it has, and which one is taken without measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/plan/point.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {
struct TransposedWindow;
}

namespace tessera::plan {

// What the rules go by where nothing was measured.
struct Rules {
  // The transforms of Winograd pay when its batched product is long enough in both channel counts
  // and the map fills its tiles.
  bool winograd = true;
  std::int64_t winograd_min_channels = 32;
  std::int64_t winograd_min_size = 7;
  // Of convolutions with depth, frame by frame.
  bool winograd_depth = false;
  // Of windows other than 3x3, and of transposed convolutions.
  bool winograd_windows = false;
  bool winograd_transposed = false;
  // Operations in the time of a byte from memory (target::flops_per_byte): of small maps, the
  // longer weights of Winograd may take longer to read than they save. 0: reading is free.
  double flops_per_byte = 0;
  // 1x1 convolutions become products of two matrices: one schedule family instead of two.
  bool pointwise_as_product = true;
  // Contractions of one input share a kernel; their results are then slices of one buffer.
  bool merge_contractions = false;
  // Contractions read slices of their operands in place, with no copy of them made.
  bool slices_in_place = false;
  // Products prepare concatenations that only they read in their kernels, convolutions transposes.
  bool moves_inside = false;
  // A product, its softmax over at most so many columns and the product that uses it share a
  // kernel. 0: never.
  std::int64_t attention_keys = 0;
  // Products of f32 with constant weights of at least so many multiplications, with enough rows for
  // each weight and columns for each part that is made, take both operands in three parts of bf16,
  // unless the plan decides otherwise. 0: none can.
  std::int64_t split_products = 0;
  std::int64_t split_rows = 128, split_columns = 512;
  // The machine multiplies bytes: products that may round to them do.
  bool rounded_products = false;
  // Kernels are recorded, and how they follow each other is decided.
  bool records_launches = false;
};

// A convolution of maps [n, sizes.., channels].
struct Convolution {
  Shape in, out;
  Shape window, strides, dilations, before, after;  // by axis of the map
  std::int64_t groups = 1;
  // `out` is what becomes of `in` when it is the result of a convolution; `before` and `after` are
  // cropped, and a negative `after` is added.
  bool transposed = false;
  bool channels_last = false;
  // f32 throughout with constant weights: f16 and integers do not survive the scaling of Winograd.
  bool transformable = false;
};

// The point that decides how it is computed; nullopt: there is one way only. Keys are
// "conv n1 h56 w56 ci64 co64 k3x3 s1 p1,1,1,1 g1", with depth "conv n1 d16 h56 .. k3x3x3 ..", and
// "conv_transpose n1 h8 w8 ci256 co128 k4x4 s2,2 p1,1,1,1". Values are direct and those of Winograd
// that the window has.
std::optional<Point> algorithm_point(const Convolution& conv, const Rules& rules);

// kDirect and Winograd by tile; the names are those of `algo` of te::OpSpec.
const std::vector<std::string>& convolution_algorithms();

// The key of a convolution that has several algorithms, whatever computes it.
std::string algorithm_key(const Convolution& conv);

// What the rules prefer for a convolution that has several.
const std::string& preferred_algorithm(const Convolution& conv, const Rules& rules);

// Of a transposed convolution of pictures.
std::vector<te::TransposedWindow> transposed_windows(const Convolution& conv);

// How much an algorithm rounds, compared with others: 0 is direct.
int rounding(const std::string& algorithm);

}  // namespace tessera::plan
