#include "tessera/lang/te/ops/winograd_tiles.h"

#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/window.h"

namespace tessera::te {
namespace {

ir::Expr number(std::size_t k) { return ir::int_imm(static_cast<std::int64_t>(k)); }

// The results of a tile as sums of the products of all phases: row stride * q + s has entries for
// those of phase s only.
struct OutputMatrix {
  Matrix rows;
  std::vector<double> points;  // of its columns
  std::size_t products;        // of a phase
};

OutputMatrix output_matrix(const TileAxis& axis, const ToomCook& toom_cook) {
  const auto stride = static_cast<std::size_t>(axis.stride);
  OutputMatrix out{.rows = {}, .points = {}, .products = static_cast<std::size_t>(axis.products())};
  const auto begin = [&](std::size_t phase) { return axis.skewed ? phase : 0; };
  for (std::size_t s = 0; s < stride; ++s) {
    for (std::size_t e = 0; e < out.products; ++e)
      out.points.push_back(toom_cook.points[begin(s) + e]);
  }
  for (std::size_t r = 0; r < toom_cook.at.size() * stride; ++r) {
    std::vector<double> row(out.points.size());
    const std::size_t s = r % stride;
    for (std::size_t e = 0; e < out.products; ++e)
      row[s * out.products + e] = toom_cook.at[r / stride][begin(s) + e];
    out.rows.push_back(std::move(row));
  }
  return out;
}

class TileWriter {
 public:
  TileWriter(DagBuilder& b, const TileStages& s, const ir::Buffer& x, const ir::Buffer& u)
      : b_(b),
        s_(s),
        h_(s.height),
        w_(s.width),
        x_(x),
        u_(u),
        acc_(u->dtype),
        batch_(x->shape[0]),
        per_row_(w_.tiles()),
        per_image_(h_.tiles() * per_row_),
        tiles_((s.depth > 0 ? 1 : batch_) * per_image_),
        frames_(batch_ * s.depth),
        by_row_(make_toom_cook(h_.m, h_.taps)),
        by_column_(make_toom_cook(w_.m, w_.taps)) {}

  ir::Buffer run(DType out) {
    const ir::Buffer v = input_transform(padded());
    return output_transform(products_of(v), out);
  }

 private:
  // Small axes, the frame if there is one, the tile and a channel.
  NamedAxes axes(NamedAxes out, std::int64_t frames, const NamedAxes::value_type& channel) const {
    if (s_.depth > 0) out.emplace_back("frame", frames);
    out.emplace_back("tile", tiles_);
    out.push_back(channel);
    return out;
  }

  ir::Buffer padded() {
    std::vector<std::string> names = {"n", "h", "w", "c"};
    std::vector<std::int64_t> lo = {h_.pad_lo(), w_.pad_lo()}, hi = {h_.pad_hi(), w_.pad_hi()};
    if (s_.depth > 0) {
      names.insert(names.begin() + 1, "d");
      lo.insert(lo.begin(), s_.depth_lo);
      hi.insert(hi.begin(), s_.depth_hi);
    }
    return pad_stage(b_, s_.prefix + "pad", x_, names, 1, lo, hi, ir::imm(x_->dtype, 0));
  }

  // Stages T, V: V[eps, nu, frame, tile, ci] = (BT d B)[eps, nu] of every input tile d.
  ir::Buffer input_transform(const ir::Buffer& image) {
    const NamedAxes named =
        axes({{"eps", h_.reads()}, {"nu", w_.reads()}}, frames_, {"ci", x_->shape.back()});
    // Along an axis that is not transformed there is one element of a tile.
    const auto at_row = [](const Indices& i) { return i[0]; };
    const auto rows = [&](const Indices& i) {
      const ir::Expr column = w_.transformed() ? i[1] : ir::int_imm(0);
      return select_row(by_row_.bt, at_row(i), [&](const std::vector<double>& row) {
        return even_and_odd(row,
                            [&](std::size_t k) { return element(image, i, number(k), column); });
      });
    };
    if (!w_.transformed()) return b_.compute(s_.prefix + "V", named, rows);
    ir::Buffer t;
    if (h_.transformed()) t = b_.compute(s_.prefix + "T", named, rows);
    return b_.compute(s_.prefix + "V", named, [&](const Indices& i) {
      return select_row(by_column_.bt, i[1], [&](const std::vector<double>& row) {
        return even_and_odd(row, [&](std::size_t k) {
          if (!h_.transformed()) return element(image, i, ir::int_imm(0), number(k));
          Indices from = i;
          from[1] = number(k);
          return at(t, from);
        });
      });
    });
  }

  // Element (row, column) of the tile at i[.., frame, tile, ci].
  ir::Expr element(const ir::Buffer& image, const Indices& i, const ir::Expr& row,
                   const ir::Expr& column) const {
    const ir::Expr& tile = i[i.size() - 2];
    const ir::Expr per_image = ir::int_imm(per_image_), per_row = ir::int_imm(per_row_);
    Indices from = {ir::floor_div(tile, per_image)};
    ir::Expr in_image = ir::floor_mod(tile, per_image);
    if (s_.depth > 0) {
      const bool one = frames_ == s_.depth;
      from = {one ? ir::int_imm(0) : ir::floor_div(i[2], ir::int_imm(s_.depth)),
              one ? i[2] : ir::floor_mod(i[2], ir::int_imm(s_.depth))};
      in_image = tile;
    }
    from.push_back(inside(h_, ir::floor_div(in_image, per_row), row));
    from.push_back(inside(w_, ir::floor_mod(tile, per_row), column));
    from.push_back(i.back());
    return to_type(acc_, at(image, from));
  }
  static ir::Expr inside(const TileAxis& axis, const ir::Expr& tile, const ir::Expr& place) {
    const std::int64_t skipped = std::max<std::int64_t>(0, axis.first);
    const ir::Expr begin = scaled(tile, axis.m);
    if (const auto k = ir::as_const_int(place)) return shifted(begin, *k + skipped);
    return shifted(begin + place, skipped);
  }

  // Stage M: the products of transforms, summed over channels and the window along the depth.
  ir::Buffer products_of(const ir::Buffer& v) {
    const std::int64_t ci = v->shape.back(), co = u_->shape.back();
    NamedAxes reduce = {{"ci", ci}}, small = {{"eps", h_.products()}, {"nu", w_.products()}};
    std::int64_t frames = 0;
    if (s_.depth > 0) {
      reduce.insert(reduce.begin(), {"kd", u_->shape[2]});
      // Between two images some sums belong to none: they are not read.
      frames = frames_ - u_->shape[2] + 1;
    }
    if (s_.phased) small.insert(small.begin(), {{"ry", h_.stride}, {"rx", w_.stride}});
    return b_.reduce(s_.prefix + "M", Reducer::kSum, axes(small, frames, {"co", co}), reduce,
                     [&](const Indices& i, const Indices& r) {
                       Indices from = i;
                       Indices weight(i.begin(), i.begin() + static_cast<long>(small.size()));
                       if (s_.phased) {
                         from.erase(from.begin(), from.begin() + 2);
                         if (h_.skewed) from[0] = i[2] + i[0];
                         if (w_.skewed) from[1] = i[3] + i[1];
                       }
                       from.back() = r.back();
                       if (s_.depth > 0) from[2] = i[2] + r[0];
                       weight.insert(weight.end(), r.begin(), r.end());
                       weight.push_back(i.back());
                       return at(v, from) * at(u_, weight);
                     });
  }

  // Stages Z and the output: Y = AT M A of every tile, cropped.
  ir::Buffer output_transform(const ir::Buffer& products, DType out) {
    const OutputMatrix rows = output_matrix(h_, by_row_), columns = output_matrix(w_, by_column_);
    const std::int64_t co = products->shape.back();
    const auto combined = [](const OutputMatrix& matrix, const ir::Expr& selector,
                             const Terms& term) {
      return select_row(matrix.rows, selector, [&](const std::vector<double>& row) {
        return sums_and_differences(matrix.points, row, term);
      });
    };
    // Products number k of all phases along the height and the width, rest = [frame, tile, co].
    const auto product = [&](const Indices& k, const Indices& rest) {
      Indices from = k;
      from.insert(from.end(), rest.begin(), rest.end());
      return at(products, from);
    };
    const std::size_t x_axes = s_.phased ? 2 : 1;  // rx and nu, or nu
    // [ry, rx, eps, nu] or [eps, nu], of product k along the height.
    const auto with_row = [&](std::size_t k, const Indices& x) {
      Indices out_indices = {number(k % rows.products), x.back()};
      if (s_.phased)
        out_indices.insert(out_indices.begin(), {number(k / rows.products), x.front()});
      return out_indices;
    };
    const auto along_width = [&](std::size_t k) {
      Indices x = {number(k % columns.products)};
      if (s_.phased) x.insert(x.begin(), number(k / columns.products));
      return x;
    };
    ir::Buffer z;
    if (h_.transformed() && w_.transformed()) {
      NamedAxes small = {{"i", h_.stride * h_.m}, {"nu", w_.products()}};
      if (s_.phased) small.insert(small.begin() + 1, {"rx", w_.stride});
      const std::size_t frame = small.size();
      z = b_.compute(
          s_.prefix + "Z", axes(small, products->shape[2], {"co", co}), [&](const Indices& i) {
            const Indices x(i.begin() + 1, i.begin() + 1 + static_cast<long>(x_axes));
            const Indices rest(i.begin() + static_cast<long>(frame), i.end());
            return combined(rows, i[0],
                            [&](std::size_t k) { return product(with_row(k, x), rest); });
          });
    }
    NamedAxes y_axes = {{"n", batch_}};
    if (s_.depth > 0) y_axes.emplace_back("od", s_.depth_out);
    y_axes.insert(y_axes.end(), {{"o" + h_.name, h_.out}, {"o" + w_.name, w_.out}, {"co", co}});
    return b_.compute(s_.name, y_axes, [&](const Indices& i) {
      const ir::Expr &oh = i[i.size() - 3], &ow = i[i.size() - 2];
      const ir::Expr in_h = ir::int_imm(h_.stride * h_.m), in_w = ir::int_imm(w_.stride * w_.m);
      const auto tile_of = [](const TileAxis& axis, const ir::Expr& o, const ir::Expr& size) {
        return axis.stride * axis.m == 1 ? o : ir::floor_div(o, size);
      };
      const ir::Expr row = tile_of(h_, oh, in_h), column = tile_of(w_, ow, in_w);
      Indices rest;
      if (s_.depth > 0) {
        rest = {batch_ == 1 ? i[1] : i[0] * s_.depth + i[1], row * per_row_ + column};
      } else {
        rest = {(i[0] * h_.tiles() + row) * per_row_ + column};
      }
      rest.push_back(i.back());
      if (!w_.transformed()) {
        return to_type(out, combined(rows, ir::floor_mod(oh, in_h), [&](std::size_t k) {
                         return product(with_row(k, {ir::int_imm(0)}), rest);
                       }));
      }
      const auto term = [&](std::size_t k) {
        if (!z) return product(with_row(0, along_width(k)), rest);
        Indices from = along_width(k);
        from.insert(from.begin(), ir::floor_mod(oh, in_h));
        from.insert(from.end(), rest.begin(), rest.end());
        return at(z, from);
      };
      return to_type(out, combined(columns, ir::floor_mod(ow, in_w), term));
    });
  }

  DagBuilder& b_;
  const TileStages& s_;
  const TileAxis &h_, &w_;
  ir::Buffer x_, u_;
  DType acc_;
  std::int64_t batch_, per_row_, per_image_;
  std::int64_t tiles_;   // of all images, with depth those of a frame
  std::int64_t frames_;  // of all images with their padding
  ToomCook by_row_, by_column_;
};

}  // namespace

Result<ir::Buffer> tile_stages(DagBuilder& b, const TileStages& s, const ir::Buffer& x,
                               const ir::Buffer& u, DType out) {
  // Before the product: verify() sees only the finished shapes.
  TESSERA_TRY([[maybe_unused]] const std::int64_t fits,
              checked_elements({x->shape[0], std::max<std::int64_t>(1, s.depth), s.height.tiles(),
                                s.width.tiles()},
                               u->dtype));
  return TileWriter(b, s, x, u).run(out);
}

}  // namespace tessera::te
