#include "tessera/lang/te/ops/winograd_transposed.h"

#include <algorithm>

#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_tiles.h"

namespace tessera::te {
namespace {

TileAxis tile_axis(const TransposedWindow& w, std::int64_t m) {
  const PhasedAxis phases(w);
  return {.name = w.axis,
          .m = m,
          .taps = phases.reach,
          .size = w.size,
          .first = phases.first(),
          .out = w.out,
          .stride = w.stride,
          .skewed = phases.skewed};
}

}  // namespace

PhasedAxis::PhasedAxis(const TransposedWindow& w)
    : stride(w.stride),
      kernel(w.kernel),
      pad_lo(w.pad_lo),
      taps((w.kernel + w.stride - 1) / w.stride),
      reach(taps + (w.pad_lo % w.stride != 0 ? 1 : 0)),
      skewed(w.stride == 2 && w.pad_lo % 2 != 0) {}

std::int64_t PhasedAxis::products(std::int64_t m) const {
  return winograd_products(reach, m) - (skewed ? 1 : 0);
}

std::int64_t PhasedAxis::tap(std::int64_t s, std::int64_t j) const {
  const std::int64_t t = s + pad_lo;  // meets tap t % stride first, u strides later t % stride + u
  const std::int64_t u = t / stride - pad_lo / stride + taps - 1 - j;
  const std::int64_t k = t % stride + u * stride;
  return u >= 0 && u < taps && k < kernel ? k : -1;
}

bool has_winograd(const std::vector<TransposedWindow>& windows, std::int64_t m) {
  if (windows.size() != 2) return false;
  std::int64_t reach[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    const PhasedAxis phases(windows[i]);
    if (windows[i].dilation != 1 || phases.taps < 2) return false;
    reach[i] = phases.reach;
  }
  return has_winograd(reach[0], reach[1], m);
}

Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u,
                                   const std::vector<TransposedWindow>& windows, std::int64_t m,
                                   DType out) {
  const TileStages stages{.prefix = prefix,
                          .name = name,
                          .height = tile_axis(windows[0], m),
                          .width = tile_axis(windows[1], m),
                          .phased = true};
  return tile_stages(b, stages, x, u, out);
}

}  // namespace tessera::te
