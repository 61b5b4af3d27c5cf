#include "tessera/learn/graphset/node_features.h"

#include <algorithm>
#include <array>

namespace tessera::graphset {
namespace {

constexpr std::size_t kDims = 6, kSpatial = 4, kEnds = 2;

// PrimitiveType by the place of its column: invalid, pred, s8 ... f64, bf16, c64, c128, tuple,
// opaque, token.
constexpr std::array<std::int64_t, 19> kElementTypes = {0,  1,  2,  3,  4,  5,  6,  7,  8, 9,
                                                        10, 11, 12, 16, 15, 18, 13, 14, 17};

class Row {
 public:
  explicit Row(std::vector<float>* out) : out_(out) {}

  void number(std::int64_t x) { out_->push_back(static_cast<float>(x)); }

  void list(const Integers& x, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) number(i < x.size() ? x[i] : 0);
  }

  // Also the sum and the product of all of it, as wrapping 64-bit numbers; of nothing it is 1.
  void summed(const Integers& x, std::size_t size) {
    list(x, size);
    std::uint64_t sum = 0, product = 1;
    for (const std::int64_t v : x) {
      sum += static_cast<std::uint64_t>(v);
      product *= static_cast<std::uint64_t>(v);
    }
    number(static_cast<std::int64_t>(sum));
    number(static_cast<std::int64_t>(product));
  }

 private:
  std::vector<float>* out_;
};

}  // namespace

void append_node_features(const HloInstruction& i, bool is_root, std::vector<float>* out) {
  Row row(out);
  row.number(is_root ? 1 : 0);
  row.number(0);  // reserved: bits of an element
  for (const std::int64_t type : kElementTypes) row.number(i.element_type == type ? 1 : 0);
  row.summed(i.shape, kDims);
  row.number(i.tuple_elements);
  row.number(i.parameter_number);
  row.list(i.dimensions, kDims);
  const HloWindow& w = i.window;
  for (const Integers* column :
       {&w.size, &w.stride, &w.pad_low, &w.pad_high, &w.dilation, &w.base_dilation}) {
    row.summed(*column, kDims);
  }
  row.list(w.reversal, kDims);
  const auto reversed = std::count(w.reversal.begin(), w.reversal.end(), 1);
  row.number(reversed);
  row.number(static_cast<std::int64_t>(w.reversal.size()) - reversed);
  const HloConvolution& c = i.convolution;
  row.number(c.input_batch);
  row.number(c.input_feature);
  row.list(c.input_spatial, kSpatial);
  row.number(c.kernel_input);
  row.number(c.kernel_output);
  row.list(c.kernel_spatial, kSpatial);
  row.number(c.output_batch);
  row.number(c.output_feature);
  row.number(i.feature_groups);
  row.number(i.batch_groups);
  for (const Integers* column : {&i.slice_start, &i.slice_stride, &i.slice_limit, &i.dynamic_slice,
                                 &i.pad_low, &i.pad_high}) {
    row.summed(*column, kEnds);
  }
  row.number(i.is_stable);
  row.list(i.minor_to_major, kDims);
}

}  // namespace tessera::graphset
