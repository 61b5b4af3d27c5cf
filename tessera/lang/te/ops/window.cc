#include "tessera/lang/te/ops/window.h"

#include <algorithm>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {
namespace {

std::int64_t given(const OpSpec& spec, const char* name, std::int64_t otherwise) {
  const auto it = spec.ints.find(name);
  return it == spec.ints.end() ? otherwise : it->second;
}

}  // namespace

ir::Expr scaled(const ir::Expr& e, std::int64_t factor) { return factor == 1 ? e : e * factor; }

ir::Expr shifted(const ir::Expr& e, std::int64_t offset) {
  if (offset == 0) return e;
  return offset > 0 ? e + offset : e - (-offset);
}

ir::Expr Window::position(const ir::Expr& o, const ir::Expr& k) const {
  return scaled(o, stride) + scaled(k, dilation);
}

Result<std::vector<Window>> read_windows(const OpSpec& spec, const std::vector<SpatialDim>& dims) {
  std::vector<Window> windows;
  const std::int64_t pad = spec.ints.at("P");
  for (const SpatialDim& dim : dims) {
    Window w{.axis = dim.axis,
             .size = spec.ints.at(dim.size),
             .kernel = spec.ints.at(dim.kernel),
             .stride = spec.ints.at("S"),
             .dilation = given(spec, "D", 1),
             .pad_lo = given(spec, dim.pad_lo, pad),
             .pad_hi = given(spec, dim.pad_hi, pad)};
    if (w.reach() > w.padded()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: {}={} covers {} elements but the padded input {} has only {}", spec.op,
                        dim.kernel, w.kernel, w.reach(), dim.size, w.padded());
    }
    w.out = (w.padded() - w.reach()) / w.stride + 1;
    windows.push_back(w);
  }
  return windows;
}

std::vector<OpParam> window_params(const std::vector<SpatialDim>& dims, bool dilation) {
  std::vector<OpParam> params = {{"S", 1, "stride"}, {"P", 0, "padding on every side", 0}};
  if (dilation) params.push_back({"D", 1, "dilation"});
  for (const SpatialDim& dim : dims) {
    params.push_back({dim.pad_lo, kDerived, "padding before, instead of P", 0});
    params.push_back({dim.pad_hi, kDerived, "padding after, instead of P", 0});
  }
  return params;
}

std::vector<std::string> image_axis_names(bool channels_first, const std::vector<Window>& windows) {
  std::vector<std::string> spatial;
  for (const Window& w : windows) spatial.push_back(w.axis);
  return arrange<std::string>(channels_first, "n", spatial, {"c"});
}

ir::Buffer pad_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                     const std::vector<std::string>& axis_names, std::size_t first,
                     const std::vector<std::int64_t>& lo, const std::vector<std::int64_t>& hi,
                     const ir::Expr& fill) {
  const auto is_zero = [](std::int64_t v) { return v == 0; };
  if (std::all_of(lo.begin(), lo.end(), is_zero) && std::all_of(hi.begin(), hi.end(), is_zero))
    return x;
  NamedAxes axes;
  for (std::size_t d = 0; d < axis_names.size(); ++d) axes.emplace_back(axis_names[d], x->shape[d]);
  for (std::size_t s = 0; s < lo.size(); ++s) axes[first + s].second += lo[s] + hi[s];
  return b.compute(name, axes, [&](const Indices& i) {
    Indices from = i;
    ir::Expr inside;
    const auto require = [&](const ir::Expr& cond) {
      inside = inside ? ir::logical_and(inside, cond) : cond;
    };
    for (std::size_t s = 0; s < lo.size(); ++s) {
      const ir::Expr& p = i[first + s];
      if (lo[s] > 0) require(ir::ge(p, ir::int_imm(lo[s])));
      if (hi[s] > 0) require(ir::lt(p, ir::int_imm(x->shape[first + s] + lo[s])));
      if (lo[s] > 0) from[first + s] = p - lo[s];
    }
    return ir::select(inside, at(x, from), fill);
  });
}

ir::Buffer pad_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                     bool channels_first, const std::vector<Window>& windows,
                     const ir::Expr& fill) {
  std::vector<std::int64_t> lo, hi;
  for (const Window& w : windows) {
    lo.push_back(w.pad_lo);
    hi.push_back(w.pad_hi);
  }
  return pad_stage(b, name, x, image_axis_names(channels_first, windows),
                   first_spatial(channels_first, 1), lo, hi, fill);
}

Stage window_stage(DagBuilder& b, const std::string& name, Reducer reducer,
                   const ir::Buffer& padded, bool channels_first,
                   const std::vector<Window>& windows, DType acc) {
  const std::size_t c = channels_first ? 1 : 1 + windows.size();
  const std::size_t o = first_spatial(channels_first, 1);
  NamedAxes spatial, reduce;
  for (const Window& w : windows) {
    spatial.emplace_back(w.out_axis(), w.out);
    reduce.emplace_back(w.kernel_axis(), w.kernel);
  }
  Stage stage;
  stage.axes = arrange<NamedAxes::value_type>(channels_first, {"n", padded->shape[0]}, spatial,
                                              {{"c", padded->shape[c]}});
  stage.buffer =
      b.reduce(name, reducer, stage.axes, reduce, [&](const Indices& i, const Indices& r) {
        Indices position;
        for (std::size_t s = 0; s < windows.size(); ++s) {
          position.push_back(windows[s].position(i[o + s], r[s]));
        }
        return to_type(acc, at(padded, arrange<ir::Expr>(channels_first, i[0], position, {i[c]})));
      });
  return stage;
}

}  // namespace tessera::te
