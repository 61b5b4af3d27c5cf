// Programs of XLA as tuning data holds them: what features of nodes are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::graphset {

using Integers = std::vector<std::int64_t>;

// One column per field, one entry per dimension of the window.
struct HloWindow {
  Integers size, stride, pad_low, pad_high, dilation, base_dilation, reversal;
};

struct HloConvolution {
  std::int64_t input_batch = 0, input_feature = 0, kernel_input = 0, kernel_output = 0;
  std::int64_t output_batch = 0, output_feature = 0;
  Integers input_spatial, kernel_spatial;
};

struct HloInstruction {
  std::string opcode;
  std::int64_t id = 0, parameter_number = 0, feature_groups = 0, batch_groups = 0, is_stable = 0;
  std::int64_t element_type = 0, tuple_elements = 0;
  Integers shape, minor_to_major, dimensions;
  HloWindow window;
  HloConvolution convolution;
  Integers slice_start, slice_limit, slice_stride, dynamic_slice, pad_low, pad_high;
  Integers operands, called;  // ids: of instructions beside it, of computations
};

struct HloComputation {
  std::string name;
  std::int64_t id = 0, root = 0;
  std::vector<HloInstruction> instructions;
};

struct HloModule {
  std::string name;
  std::vector<HloComputation> computations;
};

// kInvalidArgument: not an HloModuleProto.
Result<HloModule> parse_hlo(std::string_view bytes);

}  // namespace tessera::graphset
