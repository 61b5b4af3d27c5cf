#include "tessera/lang/te/ops/winograd.h"

#include <algorithm>

#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/winograd_tiles.h"

namespace tessera::te {
namespace {

Result<void> check_applies(const OpSpec& spec, const std::vector<Window>& win) {
  const auto refuse = [&](const std::string& rule) {
    return make_error(ErrorCode::kInvalidArgument, "{}: algo={} needs {}", spec.op,
                      spec.words.at("algo"), rule);
  };
  if (spec.words.at("layout") != "nhwc") return refuse("layout=nhwc");
  if (!has_winograd(win[0].kernel, win[1].kernel, winograd_tile(spec)))
    return refuse("a window of more than one tap and few enough for such tiles");
  if (win[0].stride != 1 || win[0].dilation != 1) return refuse("S=1 and D=1");
  if (spec.ints.at("G") != 1) return refuse("G=1");
  return {};
}

TileAxis tile_axis(const Window& w, std::int64_t m) {
  return {.name = w.axis,
          .m = w.kernel > 1 ? m : 1,
          .taps = w.kernel,
          .size = w.size,
          .first = -w.pad_lo,
          .out = w.out};
}

}  // namespace

const std::vector<ConvAlgorithm>& conv_algorithms() {
  static const std::vector<ConvAlgorithm> table = {
      {"direct", 0}, {"winograd2", 2}, {"winograd4", 4}, {"winograd6", 6}};
  return table;
}

int winograd_tile(std::string_view algorithm) {
  for (const ConvAlgorithm& a : conv_algorithms()) {
    if (algorithm == a.name) return a.tile;
  }
  return 0;
}

int winograd_tile(const OpSpec& spec) {
  const auto algorithm = spec.words.find("algo");
  return algorithm == spec.words.end() ? 0 : winograd_tile(algorithm->second);
}

std::int64_t winograd_products(std::int64_t taps, std::int64_t m) {
  return taps > 1 ? m + taps - 1 : 1;
}

bool has_winograd(std::int64_t kh, std::int64_t kw, std::int64_t m) {
  // Relative errors of F(6, 3) along both axes and F(6, 7) along one are 1.7e-5 and 1.5e-5.
  constexpr std::int64_t kMostOfBoth = 8;
  if (m != 2 && m != 4 && m != 6) return false;
  if (std::min(kh, kw) < 1 || std::max(kh, kw) < 2) return false;
  const std::int64_t most = winograd_products(std::max(kh, kw), m);
  return most <= (std::min(kh, kw) > 1 ? kMostOfBoth : kMostProducts);
}

Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u, const std::vector<Window>& windows,
                                   std::int64_t m, DType out) {
  TileStages stages{.prefix = prefix,
                    .name = name,
                    .height = tile_axis(windows[windows.size() - 2], m),
                    .width = tile_axis(windows.back(), m)};
  if (windows.size() > 2) {
    stages.depth = windows[0].padded();
    stages.depth_lo = windows[0].pad_lo;
    stages.depth_hi = windows[0].pad_hi;
    stages.depth_out = windows[0].out;
  }
  return tile_stages(b, stages, x, u, out);
}

Result<Dag> make_winograd(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  TESSERA_TRY(const std::vector<Window> win, read_windows(spec, {kHeight, kWidth}));
  TESSERA_DO(check_applies(spec, win));
  const int m = winograd_tile(spec);
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, win[0].size, win[1].size, ci});
  const ir::Buffer u =
      b.constant("U", types.acc, winograd_weights_shape({co, ci, win[0].kernel, win[1].kernel}, m));
  TESSERA_TRY(const ir::Buffer y, winograd_stages(b, "", "Y", x, u, win, m, types.out));
  return b.build({y});
}

}  // namespace tessera::te
