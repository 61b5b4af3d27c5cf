#include "tessera/te/ops/winograd.h"

#include <algorithm>
#include <array>
#include <functional>

#include "tessera/te/ops/element_types.h"

namespace tessera::te {
namespace {

using Matrix = std::vector<std::vector<double>>;

// y = at [ (g w) * (bt d) ]: Toom-Cook at the points 0, 1, -1, 2, -2, 1/2, -1/2 (as many as needed)
// and infinity. All entries of at and bt are dyadic, so they are exact.
struct Transforms {
  Matrix at;  // m x alpha
  Matrix g;   // alpha x 3
  Matrix bt;  // alpha x alpha
};

// Coefficients, lowest power first, of prod (x - p) over the points except number `skip`.
std::vector<double> root_polynomial(const std::vector<double>& points, std::size_t skip) {
  std::vector<double> poly = {1};
  for (std::size_t l = 0; l < points.size(); ++l) {
    if (l == skip) continue;
    poly.insert(poly.begin(), 0);
    for (std::size_t k = 0; k + 1 < poly.size(); ++k) poly[k] -= points[l] * poly[k + 1];
  }
  return poly;
}

Transforms make_transforms(std::size_t m) {
  constexpr std::size_t kTaps = 3;
  const std::size_t alpha = m + kTaps - 1;
  std::vector<double> points = {0, 1, -1, 2, -2, 0.5, -0.5};
  points.resize(alpha - 1);
  Transforms t{Matrix(m, std::vector<double>(alpha)), Matrix(alpha, std::vector<double>(kTaps)),
               Matrix(alpha, std::vector<double>(alpha))};
  for (std::size_t j = 0; j + 1 < alpha; ++j) {
    double norm = 1;
    for (std::size_t l = 0; l + 1 < alpha; ++l) norm *= l == j ? 1 : points[j] - points[l];
    // Point 0: a positive norm makes the row start with a positive coefficient.
    const double sign = j == 0 && norm < 0 ? -1 : 1;
    const std::vector<double> row = root_polynomial(points, j);
    for (std::size_t k = 0; k < row.size(); ++k) t.bt[j][k] = sign * row[k];
    double power = 1;
    for (std::size_t k = 0; k < std::max(m, kTaps); ++k, power *= points[j]) {
      if (k < m) t.at[k][j] = power;
      if (k < kTaps) t.g[j][k] = sign * power / norm;
    }
  }
  t.bt[alpha - 1] = root_polynomial(points, points.size());
  t.g[alpha - 1][kTaps - 1] = 1;
  t.at[m - 1][alpha - 1] = 1;
  return t;
}

struct Term {
  double coefficient;
  ir::Expr value;
};

// Their sum, without products by 0, 1 and -1. Starts with a term that needs no product where there
// is one, or else with a positive one: every other term is then one fused operation.
ir::Expr sum_of(std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& t) { return t.coefficient == 0; });
  TESSERA_CHECK(!terms.empty(), "winograd: a transform row is zero");
  const auto rank = [](const Term& t) {
    return t.coefficient == 1 ? 0 : t.coefficient > 0 ? 1 : 2;
  };
  const auto first = std::min_element(
      terms.begin(), terms.end(), [&](const Term& a, const Term& b) { return rank(a) < rank(b); });
  std::rotate(terms.begin(), first, first + 1);
  const auto product = [](double coefficient, const ir::Expr& value) {
    return coefficient == 1 ? value : ir::imm(value.dtype(), coefficient) * value;
  };
  ir::Expr sum = product(terms[0].coefficient, terms[0].value);
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const auto& [coefficient, value] = terms[i];
    sum = coefficient > 0 ? sum + product(coefficient, value) : sum - product(-coefficient, value);
  }
  return sum;
}

using Row = std::vector<double>;
using Terms = std::function<ir::Expr(std::size_t)>;
using Combination = ir::Expr (*)(const Row&, const Terms&);

// Rows of bt for the points p and -p differ in the sign of the odd terms: two sums serve both.
ir::Expr even_and_odd(const Row& row, const Terms& term) {
  std::array<std::vector<Term>, 2> parts;
  for (std::size_t k = row.size(); k-- > 0;) {
    if (row[k] != 0) parts[k % 2].push_back({row[k], term(k)});
  }
  if (parts[0].empty() || parts[1].empty())
    return sum_of(std::move(parts[parts[0].empty() ? 1 : 0]));
  // Both without a sign or factor that only one of the two rows has.
  std::vector<Term> sums;
  for (std::vector<Term>& part : parts) {
    const double scale = part[0].coefficient;
    for (Term& t : part) t.coefficient /= scale;
    sums.push_back({scale, sum_of(std::move(part))});
  }
  const auto& [scale, odd] = sums[1];
  if (sums[0].coefficient != 1 || scale == 1 || scale == -1) return sum_of(std::move(sums));
  // Written as a product and an addition, which become one instruction.
  return sums[0].value + ir::imm(odd.dtype(), scale) * odd;
}

// Columns of at for the points p and -p differ in sign at most: their sum and their difference
// serve all rows.
ir::Expr sums_and_differences(const Row& row, const Terms& term) {
  std::vector<Term> sums = {{row[0], term(0)}};
  std::size_t k = 1;
  for (; k + 2 < row.size(); k += 2) {
    if (row[k] != 0)
      sums.push_back({row[k], sum_of({{1, term(k)}, {row[k + 1] / row[k], term(k + 1)}})});
  }
  for (; k < row.size(); ++k) sums.push_back({row[k], term(k)});
  return sum_of(std::move(sums));
}

// Row `selector` of matrix * (term(0), term(1), ...) as select(selector == 0, .., select(selector
// == 1, ..)).
ir::Expr transform(const Matrix& matrix, Combination combine, const ir::Expr& selector,
                   const Terms& term) {
  ir::Expr chain = combine(matrix.back(), term);
  for (std::size_t r = matrix.size() - 1; r-- > 0;) {
    const ir::Expr here = ir::eq(selector, ir::int_imm(static_cast<std::int64_t>(r)));
    chain = ir::select(here, combine(matrix[r], term), chain);
  }
  return chain;
}

Result<void> check_applies(const OpSpec& spec, const std::vector<Window>& win) {
  const auto refuse = [&](const char* rule) {
    return make_error(ErrorCode::kInvalidArgument, "{}: algo={} needs {}", spec.op,
                      spec.words.at("algo"), rule);
  };
  if (spec.words.at("layout") != "nhwc") return refuse("layout=nhwc");
  if (win[0].kernel != 3 || win[1].kernel != 3) return refuse("KH=3 and KW=3");
  if (win[0].stride != 1 || win[0].dilation != 1) return refuse("S=1 and D=1");
  if (spec.ints.at("G") != 1) return refuse("G=1");
  return {};
}

struct Tiling {
  std::string prefix;  // of the stages
  std::int64_t m, alpha, rows, columns;
  std::int64_t tiles = 0;   // of all images, with depth those of a frame
  std::int64_t depth = 0;   // frames of an image with their padding; 0: images are pictures
  std::int64_t frames = 0;  // of all images

  // Two small axes, the frame if there is one, the tile and a channel.
  NamedAxes axes(const NamedAxes::value_type& first, const NamedAxes::value_type& second,
                 std::int64_t of_frames, const NamedAxes::value_type& channel) const {
    NamedAxes out = {first, second, {"tile", tiles}, channel};
    if (depth > 0) out.insert(out.begin() + 2, {"frame", of_frames});
    return out;
  }
};

// The same place of other rows of a transform.
Indices with_rows(const Indices& i, ir::Expr first, ir::Expr second) {
  Indices out = i;
  out[0] = std::move(first);
  out[1] = std::move(second);
  return out;
}

ir::Expr number(std::size_t k) { return ir::int_imm(static_cast<std::int64_t>(k)); }

// Stages pad, T, V: V[eps, nu, frame, tile, ci] = (BT d B)[eps, nu] of every input tile d.
ir::Buffer input_transform(DagBuilder& b, const ir::Buffer& x, const std::vector<Window>& win,
                           const Tiling& t, const Matrix& bt, DType acc) {
  const Window &height = win[win.size() - 2], &width = win.back();
  std::vector<std::string> names = {"n", "h", "w", "c"};
  std::vector<std::int64_t> lo = {height.pad_lo, width.pad_lo};
  // Whole tiles: the last one may reach past the padding that was asked for.
  std::vector<std::int64_t> hi = {t.rows * t.m + 2 - height.size - lo[0],
                                  t.columns * t.m + 2 - width.size - lo[1]};
  if (t.depth > 0) {
    names.insert(names.begin() + 1, "d");
    lo.insert(lo.begin(), win[0].pad_lo);
    hi.insert(hi.begin(), win[0].pad_hi);
  }
  const ir::Buffer padded =
      pad_stage(b, t.prefix + "pad", x, names, 1, lo, hi, ir::imm(x->dtype, 0));
  const NamedAxes axes =
      t.axes({"eps", t.alpha}, {"nu", t.alpha}, t.frames, {"ci", x->shape.back()});
  const ir::Expr per_image = ir::int_imm(t.rows * t.columns), per_row = ir::int_imm(t.columns);
  const ir::Buffer rows = b.compute(t.prefix + "T", axes, [&](const Indices& i) {
    const ir::Expr& tile = i[i.size() - 2];
    Indices image = {ir::floor_div(tile, per_image)};
    ir::Expr in_image = ir::floor_mod(tile, per_image);
    if (t.depth > 0) {
      const bool one = t.frames == t.depth;
      image = {one ? ir::int_imm(0) : ir::floor_div(i[2], ir::int_imm(t.depth)),
               one ? i[2] : ir::floor_mod(i[2], ir::int_imm(t.depth))};
      in_image = tile;
    }
    return transform(bt, even_and_odd, i[0], [&](std::size_t k) {
      Indices from = image;
      from.push_back(shifted(ir::floor_div(in_image, per_row) * t.m, static_cast<std::int64_t>(k)));
      from.push_back(ir::floor_mod(tile, per_row) * t.m + i[1]);
      from.push_back(i.back());
      return to_type(acc, at(padded, from));
    });
  });
  return b.compute(t.prefix + "V", axes, [&](const Indices& i) {
    return transform(bt, even_and_odd, i[1],
                     [&](std::size_t k) { return at(rows, with_rows(i, i[0], number(k))); });
  });
}

// Stage M: the products of transforms, summed over channels and the window along the depth.
ir::Buffer products_of(DagBuilder& b, const ir::Buffer& v, const ir::Buffer& u, const Tiling& t) {
  const std::int64_t ci = v->shape.back(), co = u->shape.back();
  NamedAxes reduce = {{"ci", ci}};
  std::int64_t frames = 0;
  if (t.depth > 0) {
    reduce.insert(reduce.begin(), {"kd", u->shape[2]});
    // Between two images some sums belong to none: they are not read.
    frames = t.frames - u->shape[2] + 1;
  }
  const NamedAxes axes = t.axes({"eps", t.alpha}, {"nu", t.alpha}, frames, {"co", co});
  return b.reduce(t.prefix + "M", Reducer::kSum, axes, reduce,
                  [&](const Indices& i, const Indices& r) {
                    Indices from = i;
                    from.back() = r.back();
                    Indices weight = {i[0], i[1]};
                    if (t.depth > 0) from[2] = i[2] + r[0];
                    weight.insert(weight.end(), r.begin(), r.end());
                    weight.push_back(i.back());
                    return at(v, from) * at(u, weight);
                  });
}

// Stages Z and `name`: Y = AT M A of every tile, cropped to the output.
ir::Buffer output_transform(DagBuilder& b, const std::string& name, const ir::Buffer& products,
                            const std::vector<Window>& win, const Tiling& t,
                            const Matrix& at_matrix, std::int64_t batch, DType out) {
  const std::int64_t co = products->shape.back();
  const NamedAxes z_axes = t.axes({"i", t.m}, {"nu", t.alpha}, products->shape[2], {"co", co});
  const ir::Buffer z = b.compute(t.prefix + "Z", z_axes, [&](const Indices& i) {
    return transform(at_matrix, sums_and_differences, i[0],
                     [&](std::size_t k) { return at(products, with_rows(i, number(k), i[1])); });
  });
  NamedAxes y_axes = {{"n", batch}};
  for (const Window& w : win) y_axes.emplace_back(w.out_axis(), w.out);
  y_axes.emplace_back("co", co);
  const ir::Expr m = ir::int_imm(t.m);
  return b.compute(name, y_axes, [&](const Indices& i) {
    const ir::Expr &oh = i[i.size() - 3], &ow = i[i.size() - 2];
    const ir::Expr row = ir::floor_div(oh, m), column = ir::floor_div(ow, m);
    const auto term = [&](std::size_t k) {
      Indices from = {ir::floor_mod(oh, m), number(k)};
      if (t.depth > 0) {
        from.push_back(batch == 1 ? i[1] : i[0] * t.depth + i[1]);
        from.push_back(row * t.columns + column);
      } else {
        from.push_back((i[0] * t.rows + row) * t.columns + column);
      }
      from.push_back(i.back());
      return at(z, from);
    };
    return to_type(out, transform(at_matrix, sums_and_differences, ir::floor_mod(ow, m), term));
  });
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

Result<ir::Buffer> winograd_stages(DagBuilder& b, const std::string& prefix,
                                   const std::string& name, const ir::Buffer& x,
                                   const ir::Buffer& u, const std::vector<Window>& windows,
                                   std::int64_t m, DType out) {
  const DType acc = u->dtype;
  const std::int64_t n = x->shape[0];
  const Window &height = windows[windows.size() - 2], &width = windows.back();
  Tiling t{.prefix = prefix,
           .m = m,
           .alpha = m + 2,
           .rows = (height.out + m - 1) / m,
           .columns = (width.out + m - 1) / m};
  if (windows.size() > 2) t.depth = windows[0].padded();
  // Before the product: verify() sees only the finished shapes.
  TESSERA_TRY([[maybe_unused]] const std::int64_t fits,
              checked_elements({n, std::max<std::int64_t>(1, t.depth), t.rows, t.columns}, acc));
  t.frames = n * t.depth;
  t.tiles = (t.depth > 0 ? 1 : n) * t.rows * t.columns;
  const Transforms matrices = make_transforms(static_cast<std::size_t>(m));
  const ir::Buffer v = input_transform(b, x, windows, t, matrices.bt, acc);
  const ir::Buffer products = products_of(b, v, u, t);
  return output_transform(b, name, products, windows, t, matrices.at, n, out);
}

Result<Dag> make_winograd(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  TESSERA_TRY(const std::vector<Window> win, read_windows(spec, {kHeight, kWidth}));
  TESSERA_DO(check_applies(spec, win));
  const std::int64_t m = winograd_tile(spec);
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, win[0].size, win[1].size, ci});
  const ir::Buffer u = b.constant("U", types.acc, {m + 2, m + 2, ci, co});
  TESSERA_TRY(const ir::Buffer y, winograd_stages(b, "", "Y", x, u, win, m, types.out));
  return b.build({y});
}

namespace {

void store(const double* values, std::size_t count, std::int64_t at, HostTensor& out) {
  if (out.dtype() == DType::kF32) {
    float* to = out.as<float>() + at;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(values[i]);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    out.set_float(at + static_cast<std::int64_t>(i), values[i]);
  }
}

}  // namespace

Result<HostTensor> winograd_weights(const HostTensor& w, int m) {
  const Shape& shape = w.shape();
  const std::size_t rank = shape.size();
  if (!is_float(w.dtype()) || (rank != 4 && rank != 5) || shape[rank - 2] != 3 ||
      shape[rank - 1] != 3 || (m != 2 && m != 4 && m != 6)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "winograd weights: float [co, ci, 3, 3] or [co, ci, d, 3, 3] and m = 2, 4 or "
                      "6 are needed, not {} {} with m = {}",
                      to_text(w.dtype()), tessera::to_text(shape), m);
  }
  const Matrix g = make_transforms(static_cast<std::size_t>(m)).g;
  const std::int64_t co = shape[0], ci = shape[1], alpha = m + 2;
  const std::int64_t depth = rank == 5 ? shape[2] : 1;
  const Shape whole = rank == 5 ? Shape{alpha, alpha, depth, ci, co} : Shape{alpha, alpha, ci, co};
  HostTensor u(compute_type(w.dtype()), whole);
  const auto rows = static_cast<std::size_t>(alpha);
  // Some output channels at a time: they lie side by side in the result.
  constexpr std::int64_t kBlock = 16;
  using Block = std::array<double, kBlock>;
  const float* floats = w.dtype() == DType::kF32 ? w.as<float>() : nullptr;
  std::array<Block, 9> taps{};
  std::vector<std::array<Block, 3>> half(rows);    // g w
  for (std::int64_t c = 0; c < depth * ci; ++c) {  // as they lie in the result
    for (std::int64_t first = 0; first < co; first += kBlock) {
      const auto n = static_cast<std::size_t>(std::min(kBlock, co - first));
      for (std::size_t o = 0; o < n; ++o) {
        const std::int64_t filter = (first + static_cast<std::int64_t>(o)) * ci + c % ci;
        const std::int64_t at = (filter * depth + c / ci) * 9;
        for (std::size_t k = 0; k < 9; ++k) {
          const std::int64_t i = at + static_cast<std::int64_t>(k);
          taps[k][o] = floats ? floats[i] : w.get_float(i);
        }
      }
      for (std::size_t e = 0; e < rows; ++e) {
        for (std::size_t k = 0; k < 3; ++k) {
          for (std::size_t o = 0; o < kBlock; ++o) {
            half[e][k][o] =
                g[e][0] * taps[k][o] + g[e][1] * taps[3 + k][o] + g[e][2] * taps[6 + k][o];
          }
        }
      }
      for (std::size_t e = 0; e < rows; ++e) {
        for (std::size_t f = 0; f < rows; ++f) {
          Block sum{};
          for (std::size_t o = 0; o < kBlock; ++o) {
            sum[o] = half[e][0][o] * g[f][0] + half[e][1][o] * g[f][1] + half[e][2][o] * g[f][2];
          }
          const std::int64_t at =
              (static_cast<std::int64_t>(e * rows + f) * depth * ci + c) * co + first;
          store(sum.data(), n, at, u);
        }
      }
    }
  }
  return u;
}

}  // namespace tessera::te
