// Sliding windows over padded images: what convolutions and pools share.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"

namespace tessera::te {

// Names of one spatial dimension of an operation spec: suffix of its axes (oh, kh) and its
// parameters.
struct SpatialDim {
  const char* axis;
  const char* size;
  const char* kernel;
  const char* pad_lo;  // overrides P
  const char* pad_hi;
};
inline constexpr SpatialDim kDepth{"d", "ID", "KD", "PF", "PK"};
inline constexpr SpatialDim kHeight{"h", "H", "KH", "PT", "PB"};
inline constexpr SpatialDim kWidth{"w", "W", "KW", "PL", "PR"};

// A stage and the names of its axes.
struct Stage {
  ir::Buffer buffer;
  NamedAxes axes;
};

struct Window {
  std::string axis;  // suffix of the names of its axes: "h" gives oh and kh
  std::int64_t size = 0, kernel = 0, stride = 1, dilation = 1, pad_lo = 0, pad_hi = 0;
  std::int64_t out = 0;  // floor rounding

  std::int64_t padded() const { return size + pad_lo + pad_hi; }
  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
  std::string out_axis() const { return "o" + axis; }
  std::string kernel_axis() const { return "k" + axis; }
  // Position in the padded input of window element k of output o.
  ir::Expr position(const ir::Expr& o, const ir::Expr& k) const;
};

// Reads size, kernel, S, P (or its overrides) and D (1 where the operation has none) of each
// dimension; kInvalidArgument when the window exceeds the padded input.
Result<std::vector<Window>> read_windows(const OpSpec& spec, const std::vector<SpatialDim>& dims);
// The S, P, D and override parameters that read_windows reads for `dims`.
std::vector<OpParam> window_params(const std::vector<SpatialDim>& dims, bool dilation);

// e * factor without a multiplication by one.
ir::Expr scaled(const ir::Expr& e, std::int64_t factor);

// e + offset without an addition of zero.
ir::Expr shifted(const ir::Expr& e, std::int64_t offset);

// Items of an image in memory order: n, spatial, channels or, channels first, n, channels, spatial.
template <class T>
std::vector<T> arrange(bool channels_first, const T& n, const std::vector<T>& spatial,
                       const std::vector<T>& channels) {
  std::vector<T> all{n};
  const auto& second = channels_first ? channels : spatial;
  const auto& third = channels_first ? spatial : channels;
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), third.begin(), third.end());
  return all;
}

// Where the spatial dimensions of an image of `channels` channel dimensions start.
inline std::size_t first_spatial(bool channels_first, std::size_t channels) {
  return channels_first ? 1 + channels : 1;
}

// Names of an image's dimensions: n, the spatial ones and c, in memory order.
std::vector<std::string> image_axis_names(bool channels_first, const std::vector<Window>& windows);

// Stage `name`: x grown by `lo` and `hi` elements of `fill` in dimensions first, first+1, ...; x
// itself when all are zero. `axis_names` has one name per dimension of x.
ir::Buffer pad_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                     const std::vector<std::string>& axis_names, std::size_t first,
                     const std::vector<std::int64_t>& lo, const std::vector<std::int64_t>& hi,
                     const ir::Expr& fill);
// ... by the padding of `windows`, for an image.
ir::Buffer pad_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                     bool channels_first, const std::vector<Window>& windows, const ir::Expr& fill);

// Stage `name`: reduces each window of `padded` to one value of type `acc`, channel by channel.
// Axes n, o*, c in memory order; reduce axes k*.
Stage window_stage(DagBuilder& b, const std::string& name, Reducer reducer,
                   const ir::Buffer& padded, bool channels_first,
                   const std::vector<Window>& windows, DType acc);

}  // namespace tessera::te
