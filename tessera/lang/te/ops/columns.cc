#include "tessera/lang/te/ops/columns.h"

#include <cstring>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {
namespace {

constexpr std::int64_t kDepth16 = 16;  // elements of a sum that tensor cores take at once

std::int64_t rounded(std::int64_t n) { return (n + kDepth16 - 1) / kDepth16 * kDepth16; }

std::int64_t window_elements(const std::vector<Window>& windows, std::int64_t channels) {
  std::int64_t out = channels;
  for (const Window& w : windows) out *= w.kernel;
  return out;
}

Result<void> check_applies(const OpSpec& spec) {
  const auto refuse = [&](const char* why) {
    return make_error(ErrorCode::kInvalidArgument, "{}: algo={} {}", spec.op, kColumnsAlgorithm,
                      why);
  };
  if (spec.dtype != DType::kF16 && spec.dtype != DType::kBF16) return refuse("is of f16 and bf16");
  if (spec.words.at("layout") != "nhwc") return refuse("needs layout=nhwc");
  if (spec.ints.at("G") != 1) return refuse("takes G=1 only");
  if (spec.ints.at("CI") >= kDepth16) return refuse("is for fewer than 16 channels");
  return {};
}

}  // namespace

std::int64_t column_count(const std::vector<Window>& windows, std::int64_t channels) {
  return rounded(window_elements(windows, channels));
}

Shape columns_shape(const std::vector<Window>& windows, std::int64_t images,
                    std::int64_t channels) {
  Shape out = {images};
  for (const Window& w : windows) out.push_back(w.out);
  if (channels % kDepth16 != 0) {
    out.push_back(column_count(windows, channels));
    return out;
  }
  for (const Window& w : windows) out.push_back(w.kernel);
  out.push_back(channels);
  return out;
}

ir::Buffer columns_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                         const std::vector<Window>& windows) {
  const ir::Expr zero = ir::imm(x->dtype, 0);
  const ir::Buffer padded = pad_stage(b, name + ".pad", x, false, windows, zero);
  const std::int64_t channels = x->shape.back();
  const std::size_t rank = windows.size();
  NamedAxes axes = {{"n", x->shape[0]}};
  for (const Window& w : windows) axes.emplace_back(w.out_axis(), w.out);
  if (channels % kDepth16 == 0) {
    for (const Window& w : windows) axes.emplace_back(w.kernel_axis(), w.kernel);
    axes.emplace_back("c", channels);
    return b.compute(name, axes, [&](const Indices& i) {
      Indices from = {i[0]};
      for (std::size_t s = 0; s < rank; ++s)
        from.push_back(windows[s].position(i[1 + s], i[1 + rank + s]));
      from.push_back(i.back());
      return at(padded, from);
    });
  }
  const std::int64_t count = window_elements(windows, channels);
  axes.emplace_back("k", rounded(count));
  return b.compute(name, axes, [&](const Indices& i) {
    const ir::Expr& k = i.back();
    const auto div = [](const ir::Expr& e, std::int64_t n) {
      return n == 1 ? e : ir::floor_div(e, ir::int_imm(n));
    };
    const auto mod = [](const ir::Expr& e, std::int64_t n) {
      return n == 1 ? ir::int_imm(0) : ir::floor_mod(e, ir::int_imm(n));
    };
    Indices position(rank);
    std::int64_t inner = channels;
    for (std::size_t s = rank; s-- > 0;) {
      const ir::Expr tap = div(k, inner);
      position[s] = windows[s].position(i[1 + s], s == 0 ? tap : mod(tap, windows[s].kernel));
      inner *= windows[s].kernel;
    }
    Indices from = {i[0]};
    from.insert(from.end(), position.begin(), position.end());
    from.push_back(mod(k, channels));
    const ir::Expr value = at(padded, from);
    return rounded(count) == count ? value : ir::select(ir::lt(k, ir::int_imm(count)), value, zero);
  });
}

Result<Dag> make_columns(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  TESSERA_TRY(const std::vector<Window> windows, read_windows(spec, {kHeight, kWidth}));
  TESSERA_DO(check_applies(spec));
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  const std::int64_t count = column_count(windows, ci);
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, windows[0].size, windows[1].size, ci});
  const ir::Buffer weight = b.constant("W", types.in, {co, count});
  const ir::Buffer columns = columns_stage(b, "columns", x, windows);
  const NamedAxes axes = {{"n", n}, {"oh", windows[0].out}, {"ow", windows[1].out}, {"co", co}};
  const ir::Buffer y =
      b.reduce("Y", Reducer::kSum, axes, {{"k", count}}, [&](const Indices& i, const Indices& r) {
        return to_type(types.acc, at(columns, {i[0], i[1], i[2], r[0]})) *
               to_type(types.acc, at(weight, {i[3], r[0]}));
      });
  return b.build({cast_output(b, y, types.out, axes)});
}

Shape column_weights_shape(const Shape& w) {
  std::int64_t count = 1;
  for (std::size_t d = 1; d < w.size(); ++d) count *= w[d];
  return {w[0], rounded(count)};
}

HostTensor column_weights(const HostTensor& w) {
  const Shape& shape = w.shape();
  const Shape packed = column_weights_shape(shape);
  const std::int64_t co = shape[0], ci = shape[1];
  std::int64_t taps = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) taps *= shape[d];
  HostTensor out(w.dtype(), packed);
  const std::size_t size = static_cast<std::size_t>(size_bytes(w.dtype()));
  std::memset(out.data(), 0, out.bytes());
  const auto* from = static_cast<const unsigned char*>(w.data());
  auto* to = static_cast<unsigned char*>(out.data());
  for (std::int64_t o = 0; o < co; ++o) {
    for (std::int64_t c = 0; c < ci; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        std::memcpy(to + static_cast<std::size_t>(o * packed[1] + t * ci + c) * size,
                    from + static_cast<std::size_t>((o * ci + c) * taps + t) * size, size);
      }
    }
  }
  return out;
}

}  // namespace tessera::te
