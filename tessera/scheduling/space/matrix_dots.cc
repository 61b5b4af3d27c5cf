#include <algorithm>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/contraction_tiling.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/pack.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Products that one lane adds up.
constexpr std::int64_t kGroup = 4;
constexpr std::int64_t kManyVectors = 16;

// The widest vectors that leave no column over, where such exist: the rest of one is a loop.
int whole_lanes(int widest, std::int64_t columns) {
  constexpr int kNarrowest = 4;
  for (int lanes = widest; lanes >= kNarrowest; lanes /= 2) {
    if (columns % lanes == 0) return lanes;
  }
  return widest;
}

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// The sum adds i32(a) * i32(b) and nothing around it.
bool is_plain_product(const Stage& s) {
  const auto* product = s.op.values[0].as<ir::Binary>();
  if (!product || product->op != ir::BinaryOp::kMul) return false;
  const auto widened = [](const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    return cast && cast->type.dtype == DType::kI32 && cast->value.as<ir::Load>();
  };
  return widened(product->a) && widened(product->b);
}

// Some dimension runs along `axis` and nothing else.
bool indexed_by(const Access& access, std::size_t axis) {
  return std::any_of(access.indices.begin(), access.indices.end(),
                     [&](const Index& i) { return i.single_axis() == static_cast<int>(axis); });
}

bool plain(const Access& access) {
  return std::all_of(access.indices.begin(), access.indices.end(), [](const Index& i) {
    return i.single_axis() >= 0 || (i.terms.empty() && i.irregular.empty());
  });
}

class DotWriter {
 public:
  DotWriter(Context& context, const Contraction& c, const Nest& nest)
      : context_(context),
        product_(c),
        nest_(nest),
        stage_(context.stage(c.stage)),
        nest_stage_(context.stage(nest.stage)),
        self_(nest.stage == c.stage),
        lanes_(whole_lanes(context.lanes(DType::kI32), stage_.extent(c.vector))) {}

  // The operand as it is, or as a copy of it will be, has its groups side by side.
  bool legal() const {
    if (stage_.dtype() != DType::kI32 || !is_byte(product_.a.buffer->dtype) ||
        !is_byte(product_.b.buffer->dtype))
      return false;
    if (!target::find_matrix(context_.target, "dot4", product_.a.buffer->dtype,
                             product_.b.buffer->dtype) ||
        !is_plain_product(stage_))
      return false;
    const std::size_t k = product_.reduce.back();
    // What is left over of a vector costs more than it saves unless there are many whole ones.
    const std::int64_t columns = stage_.extent(product_.vector);
    if (columns < lanes_ || (columns % lanes_ != 0 && columns < kManyVectors * lanes_))
      return false;
    if (stage_.extent(k) < kGroup || stage_.extent(k) % kGroup != 0) return false;
    if (product_.a.buffer == product_.b.buffer || !indexed_by(product_.b, k)) return false;
    if (!(b_constant() || (plain(product_.b) && row_extent(stage_, product_) >= 4)) ||
        !indexed_by(product_.b, product_.vector))
      return false;
    return product_.a.strides[k] == 1 || packs_a();
  }

  void run() {
    choose();
    for (Pack& p : packs_) write_pack(context_, &p, false);
    write_loops();
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
  }

 private:
  bool b_constant() const { return context_.analysis.constant(product_.b.buffer); }
  bool packs_a() const {
    if (product_.row < 0) return false;
    const auto row = static_cast<std::size_t>(product_.row);
    if (!indexed_by(product_.a, product_.reduce.back()) || !indexed_by(product_.a, row))
      return false;
    return context_.analysis.constant(product_.a.buffer) || plain(product_.a);
  }
  std::string nest_axis(std::size_t axis) const { return nest_stage_.axis_name(nest_.axis[axis]); }

  void choose() {
    std::int64_t depth = 1;
    for (const std::size_t r : product_.reduce) depth *= stage_.extent(r);
    bool pack_a = product_.a.strides[product_.reduce.back()] != 1;
    if (!pack_a && packs_a() && row_extent(stage_, product_) >= 4)
      pack_a = context_.chooser.flag(stage_.op.name, "pack_a", PointKind::kCache, false);
    const TileRequest request{.rows = row_extent(stage_, product_),
                              .columns = stage_.extent(product_.vector),
                              .depth = parts_of(depth, kGroup),
                              .lanes = lanes_,
                              .packed = false};
    // Panels of one row are none.
    const RegisterTile tile = choose_tile_of(
        context_, stage_.op.name, request, choose_tile(request, context_.target),
        [&](const RegisterTile& t) {
          return t.rows * whole_vectors(t) <= limits::kDots && (t.rows > 1 || !pack_a);
        });
    rows_ = tile.rows;
    vectors_ = whole_vectors(tile);
    steps_ = choose_steps();
    if (product_.row >= 0) {
      static constexpr const char* kOrders[] = {"columns", "rows"};
      rows_outside_ =
          context_.chooser.word(stage_.op.name, "order", PointKind::kOrder, 0, kOrders) == 1;
    }
    packs_.push_back(make_pack(context_, product_, product_.b, product_.vector, columns(), -1, 0,
                               !b_constant(), kGroup));
    if (pack_a) {
      packs_.push_back(make_pack(context_, product_, product_.a,
                                 static_cast<std::size_t>(product_.row), rows_, -1, 0,
                                 !context_.analysis.constant(product_.a.buffer), kGroup));
    }
  }

  std::int64_t columns() const { return vectors_ * lanes_; }
  std::int64_t whole_vectors(const RegisterTile& tile) const {
    return std::max<std::int64_t>(
        1, std::min<std::int64_t>(tile.vectors, stage_.extent(product_.vector) / lanes_));
  }

  // Instructions along the reduction in one body: together they read a vector of `a`.
  std::int64_t choose_steps() const {
    const std::int64_t groups = stage_.extent(product_.reduce.back()) / kGroup;
    const std::int64_t preferred = groups % 4 == 0 ? 4 : groups % 2 == 0 ? 2 : 1;
    const auto refusal = [&](std::int64_t steps) {
      return steps * rows_ * vectors_ > limits::kDots ? "too many instructions in one body"
                                                      : nullptr;
    };
    return context_.chooser.number(
        stage_.op.name, "unroll", PointKind::kUnroll, preferred,
        [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 4, 8}) {
            if (groups % n == 0) out.push_back(n);
          }
          return out;
        },
        refusal);
  }

  // Loops of the nest that stand for axes of extent 1.
  Loops unit_loops() const {
    std::vector<bool> mapped(nest_stage_.rank(), false);
    for (const std::size_t a : nest_.axis) mapped[a] = true;
    Loops out;
    for (const std::size_t i : product_.units) out.push_back(nest_axis(i));
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      if (!mapped[i]) out.push_back(nest_stage_.axis_name(i));
    }
    return out;
  }

  void write_loops() {
    Writer& w = context_.writer;
    const std::string& nest = nest_stage_.op.name;
    std::vector<OuterLoop> outer;
    for (const auto* axes : {&product_.batch, &product_.columns}) {
      for (const std::size_t i : *axes) outer.push_back({nest_axis(i), stage_.extent(i)});
    }
    const Loops vector = self_ ? w.split(nest, nest_axis(product_.vector),
                                         {vectors_, static_cast<std::int64_t>(lanes_)})
                               : w.split(nest, nest_axis(product_.vector), {columns()});
    const std::int64_t extent = stage_.extent(product_.vector);
    const OuterLoop columns_loop{vector[0], parts_of(extent, columns())};
    if (!rows_outside_) outer.push_back(columns_loop);
    for (const std::size_t i : product_.rows) outer.push_back({nest_axis(i), stage_.extent(i)});
    Loops tile;
    if (product_.row >= 0) {
      const Loops row = w.split(nest, nest_axis(static_cast<std::size_t>(product_.row)), {rows_});
      outer.push_back({row[0], parts_of(row_extent(stage_, product_), rows_)});
      tile.push_back(row[1]);
      w.unroll(nest, row[1]);
    }
    if (rows_outside_) outer.push_back(columns_loop);
    Loops order = unit_loops();
    for (const OuterLoop& l : outer) order.push_back(l.name);
    if (self_) {
      const Loops groups =
          w.split(nest, stage_.axis_name(product_.reduce.back()), {steps_, kGroup});
      finish(nest, std::move(order), tile, {vector[1], vector[2]}, groups);
    } else {
      order.insert(order.end(), tile.begin(), tile.end());
      order.push_back(vector[1]);
      w.reorder(nest, order);
      w.vectorize(nest, vector[1]);
    }
    outer = share_out(context_, nest, choose_sharing(context_, stage_.op.name, stage_.iterations()),
                      outer, outer.size());
    if (!self_) attach(outer.back().name);
  }

  // The contraction computes one tile at `loop` of the nest.
  void attach(const std::string& loop) {
    Writer& w = context_.writer;
    const std::string& name = stage_.op.name;
    w.compute_at(name, nest_stage_.op.name, loop);
    const Loops vector =
        w.split(name, stage_.axis_name(product_.vector), {static_cast<std::int64_t>(lanes_)});
    const Loops groups = w.split(name, stage_.axis_name(product_.reduce.back()), {steps_, kGroup});
    Loops order, tile;
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      if (i != product_.vector && static_cast<int>(i) != product_.row)
        order.push_back(stage_.axis_name(i));
    }
    if (product_.row >= 0) {
      tile.push_back(stage_.axis_name(static_cast<std::size_t>(product_.row)));
      w.unroll(name, tile.back());
    }
    finish(name, std::move(order), tile, vector, groups);
  }

  // Appends the reduction and the tile, its last two loops one instruction.
  void finish(const std::string& name, Loops order, const Loops& tile, const Loops& vector,
              const Loops& groups) {
    Writer& w = context_.writer;
    for (std::size_t n = 0; n + 1 < product_.reduce.size(); ++n)
      order.push_back(stage_.axis_name(product_.reduce[n]));
    order.insert(order.end(), {groups[0], groups[1]});
    order.insert(order.end(), tile.begin(), tile.end());
    order.insert(order.end(), {vector[0], vector[1], groups[2]});
    w.reorder(name, order);
    w.unroll(name, groups[1]);
    w.unroll(name, vector[0]);
    w.tensorize(name, vector[1], "dot4");
  }

  Context& context_;
  const Contraction& product_;
  const Nest& nest_;
  const Stage& stage_;
  const Stage& nest_stage_;
  bool self_;
  int lanes_;
  std::int64_t rows_ = 1, vectors_ = 1, steps_ = 1;
  bool rows_outside_ = false;
  std::vector<Pack> packs_;
};

}  // namespace

bool schedule_byte_dots(Context& context, const Contraction& contraction, const Nest& nest) {
  DotWriter writer(context, contraction, nest);
  if (!writer.legal()) return false;
  writer.run();
  return true;
}

}  // namespace tessera::space
