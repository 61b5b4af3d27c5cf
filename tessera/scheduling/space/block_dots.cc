// Products of bytes in blocks, whose sums are scaled and added up: te::rounded_product_stage.
#include <algorithm>

#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/pack.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Operations in the time that a byte of the weights takes to arrive: what is worth threads.
constexpr double kOperationsOfByte = 8;
// In the time of a product of bytes: what is done with the sum of a block in each row, and with the
// weights of a block before it.
constexpr std::int64_t kScaling = 4, kUnpacking = 16;

// Tiles of rows up to which weights are asked for ahead of time, and by how many steps.
constexpr std::int64_t kFewTiles = 2, kStepsAhead = 32;

// Vectors of sums: of the block and of all blocks; of weights and of their scales.
constexpr bool fits(const target::Target& target, std::int64_t rows, std::int64_t vectors) {
  return 2 * rows * vectors + 2 * vectors <= target.vector_registers;
}

// The sum adds wide(a) * wide(b), each of one element: the instruction has no zero points.
bool multiplies_elements(const Stage& s, DType wide) {
  const auto* product = s.op.values[0].as<ir::Binary>();
  if (!product || product->op != ir::BinaryOp::kMul || s.reads.size() != 2) return false;
  const auto widened = [&](const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    bool plain = cast && cast->type.dtype == wide;
    ir::for_each_expr(e, [&](const ir::Expr& x) { plain = plain && !x.as<ir::Select>(); });
    return plain;
  };
  return widened(product->a) && widened(product->b);
}

class BlockDotWriter {
 public:
  BlockDotWriter(Context& context, const Contraction& c,
                 const target::MatrixInstruction& instruction)
      : context_(context),
        product_(c),
        instruction_(instruction),
        dots_(context.stage(c.stage)),
        lanes_(context.lanes(instruction.sums)) {}

  // One sum over the blocks alone reads the sums of the blocks, each once.
  bool legal() {
    if (dots_.output || dots_.users.size() != 1 || dots_.dtype() != instruction_.sums ||
        !multiplies_elements(dots_, instruction_.sums))
      return false;
    total_ = dots_.users[0];
    const Stage& total = context_.stage(total_);
    if (context_.done[total_] || total.op.reducer != te::Reducer::kSum ||
        total.op.reduce_axes.size() != 1 || dots_.rank() != total.rank() + 1)
      return false;
    const auto reads_each_once = [&](const Access& read) {
      for (std::size_t d = 0; d < dots_.rank(); ++d) {
        const std::size_t axis = d == 0 ? total.rank() : d - 1;
        const bool unit = dots_.extent(d) == 1 && read.indices[d].terms.empty();
        if (!unit && read.indices[d].single_axis() != static_cast<int>(axis)) return false;
      }
      return true;
    };
    for (const Access& read : total.reads) {
      if (read.buffer == dots_.op.outputs[0] && !reads_each_once(read)) return false;
    }
    const std::size_t element = dots_.axis_count() - 1;
    return product_.vector + 1 == dots_.rank() && product_.row != 0 &&
           product_.reduce.back() == element && dots_.extent(element) % instruction_.group() == 0 &&
           context_.analysis.constant(product_.b.buffer) && product_.a.strides[element] == 1 &&
           product_.b.strides[element] == 1 && dots_.extent(product_.vector) >= lanes_;
  }

  void run() {
    place();
    choose();
    write_packs();
    write_total();
    write_dots();
    for (const std::size_t done : {product_.stage, total_, nest_.stage}) context_.done[done] = true;
  }

 private:
  const Stage& total() const { return context_.stage(total_); }
  const Stage& outer() const { return context_.stage(nest_.stage); }
  bool self() const { return nest_.stage == total_; }
  std::string outer_axis(std::size_t axis) const { return outer().axis_name(nest_.axis[axis]); }
  std::int64_t columns() const { return vectors_ * lanes_; }
  std::size_t column_axis() const { return total().rank() - 1; }
  // The axis of the rows, of the total; -1: one row.
  int row_axis() const { return product_.row - 1; }
  std::int64_t row_extent() const {
    return product_.row < 0 ? 1 : dots_.extent(static_cast<std::size_t>(product_.row));
  }

  // Where the total is computed: with the epilogue, if that runs along the columns.
  void place() {
    nest_ = {.stage = total_, .axis = {}};
    for (std::size_t i = 0; i < total().rank(); ++i) nest_.axis.push_back(i);
    const auto found = find_nest(context_.analysis, total_);
    if (!found || context_.done[found->stage]) return;
    const Stage& epilogue = context_.stage(found->stage);
    for (std::size_t i = found->axis.back() + 1; i < epilogue.rank(); ++i) {
      if (epilogue.extent(i) > 1) return;
    }
    if (context_.chooser.flag(total().op.name, "fuse_epilogue", PointKind::kLocation, true))
      nest_ = *found;
  }

  // Panels do not depend on the rows, so that programs of several numbers of rows share weights.
  void choose() {
    const std::int64_t all = dots_.extent(product_.vector) / lanes_;
    const target::Target& target = context_.target;
    RegisterTile preferred{.rows = 1, .vectors = 1};
    if (limits::has_many_registers(target) && all % 2 == 0) preferred.vectors = 2;
    const std::int64_t extent = row_extent();
    const auto time = [&](std::int64_t rows) {
      const std::int64_t dots = product_time();
      const std::int64_t rest = extent % rows;
      return extent / rows * (rows * dots + kUnpacking) + (rest > 0 ? rest * dots + kUnpacking : 0);
    };
    for (std::int64_t rows = 2; rows <= extent && fits(target, rows, preferred.vectors); ++rows) {
      if (time(rows) < time(preferred.rows)) preferred.rows = rows;
    }
    const TileRequest request{.rows = extent,
                              .columns = dots_.extent(product_.vector),
                              .depth = 1,
                              .lanes = lanes_,
                              .packed = false};
    const RegisterTile tile =
        choose_tile_of(context_, total().op.name, request, preferred, [&](const RegisterTile& t) {
          return t.vectors <= all && t.rows * t.vectors * product_time() <= limits::kDots;
        });
    rows_ = tile.rows;
    vectors_ = tile.vectors;
    sharing_ = choose_sharing(context_, total().op.name,
                              dots_.iterations() + kOperationsOfByte * weight_bytes());
    // Weights that are used once come from memory as fast as they are asked for.
    const bool once = parts_of(extent, rows_) <= kFewTiles &&
                      weight_bytes() > static_cast<double>(context_.l1_bytes());
    prefetch_ = context_.chooser.number(total().op.name, "prefetch", PointKind::kCache,
                                        once ? kStepsAhead : 0, [] {
                                          return std::vector<std::int64_t>{0, 16, 32, 64};
                                        });
  }

  // Instructions of a row and a vector for a block.
  std::int64_t product_time() const {
    std::int64_t products = 1;
    for (std::size_t r = dots_.rank(); r < dots_.axis_count(); ++r) products *= dots_.extent(r);
    return products / instruction_.group() + kScaling;
  }
  double weight_bytes() const {
    const ir::Buffer& b = product_.b.buffer;
    return static_cast<double>(b.size()) * size_bytes(b->dtype);
  }

  // Panel by panel, block by block, as the loops run.
  void write_packs() {
    Contraction all = product_;
    all.batch.clear();
    all.reduce.insert(all.reduce.begin(), 0);
    packs_.push_back(
        make_pack(context_, all, all.b, all.vector, columns(), -1, 0, false, instruction_.group()));
    for (Pack& p : packs_) write_pack(context_, &p, false);
    std::vector<ir::Buffer> done;
    for (const Access& read : total().reads) {
      const ir::Buffer& shared = read.buffer;
      const bool known = std::find(done.begin(), done.end(), shared) != done.end();
      if (known || !context_.analysis.constant(shared) || shared->shape.size() != 2) continue;
      if (read.indices[0].single_axis() != static_cast<int>(column_axis())) continue;
      context_.writer.layout(shared->name, {{0, columns(), 0}, {1, 1, 0}, {0, 1, columns()}});
      done.push_back(shared);
    }
  }

  void write_total() {
    Writer& w = context_.writer;
    const std::string& name = outer().op.name;
    std::vector<bool> mapped(outer().rank(), false);
    for (const std::size_t a : nest_.axis) mapped[a] = true;
    std::vector<OuterLoop> loops;
    for (std::size_t i = 0; i < outer().rank(); ++i) {
      if (!mapped[i]) loops.push_back({outer().axis_name(i), 1});
    }
    for (std::size_t i = 0; i < column_axis(); ++i) {
      if (static_cast<int>(i) != row_axis()) loops.push_back({outer_axis(i), total().extent(i)});
    }
    const Loops column = w.split(name, outer_axis(column_axis()), {columns()});
    loops.push_back({column[0], parts_of(total().extent(column_axis()), columns())});
    Loops row;
    if (product_.row >= 0) {
      row = w.split(name, outer_axis(static_cast<std::size_t>(row_axis())), {rows_});
      loops.push_back({row[0], parts_of(row_extent(), rows_)});
    }
    Loops order = names_of(loops);
    if (self()) order.push_back(total().axis_name(total().rank()));
    if (!row.empty()) {
      order.push_back(row[1]);
      w.unroll(name, row[1]);
    }
    order.push_back(column[1]);
    w.reorder(name, order);
    w.vectorize(name, column[1]);
    loops = share_out(context_, name, sharing_, loops, loops.size());
    if (!self()) attach_total(loops.back().name);
  }

  void attach_total(const std::string& loop) {
    Writer& w = context_.writer;
    const std::string& name = total().op.name;
    w.compute_at(name, outer().op.name, loop);
    w.reorder(name, tile_loops(total(), {total().axis_name(total().rank())}, row_axis()));
    w.vectorize(name, total().axis_name(column_axis()));
    if (product_.row >= 0) w.unroll(name, total().axis_name(static_cast<std::size_t>(row_axis())));
  }

  // Loops of a stage that computes one tile: others, `between`, the row, the columns.
  static Loops tile_loops(const Stage& stage, const Loops& between, int row) {
    Loops order;
    for (std::size_t i = 0; i + 1 < stage.rank(); ++i) {
      if (static_cast<int>(i) != row) order.push_back(stage.axis_name(i));
    }
    order.insert(order.end(), between.begin(), between.end());
    if (row >= 0) order.push_back(stage.axis_name(static_cast<std::size_t>(row)));
    order.push_back(stage.axis_name(stage.rank() - 1));
    return order;
  }

  // The sums of one block for a tile.
  void write_dots() {
    Writer& w = context_.writer;
    const std::string& name = dots_.op.name;
    w.compute_at(name, total().op.name, total().axis_name(total().rank()));
    const Loops vector =
        w.split(name, dots_.axis_name(product_.vector), {static_cast<std::int64_t>(lanes_)});
    const Loops steps =
        w.split(name, dots_.axis_name(product_.reduce.back()), {instruction_.group()});
    Loops between = {steps[0]};
    for (std::size_t r = dots_.rank(); r + 1 < dots_.axis_count(); ++r)
      between.push_back(dots_.axis_name(r));
    Loops order = tile_loops(dots_, between, product_.row);
    order.pop_back();
    order.insert(order.end(), {vector[0], vector[1], steps[1]});
    w.reorder(name, order);
    for (const std::string& loop : between) w.unroll(name, loop);
    if (prefetch_ > 0) w.prefetch(name, steps[0], packs_.front().name, prefetch_);
    if (product_.row >= 0) w.unroll(name, dots_.axis_name(static_cast<std::size_t>(product_.row)));
    w.unroll(name, vector[0]);
    w.tensorize(name, vector[1], std::string(instruction_.name));
  }

  Context& context_;
  const Contraction& product_;
  const target::MatrixInstruction& instruction_;
  const Stage& dots_;      // sums of blocks
  std::size_t total_ = 0;  // the stage that adds them up
  int lanes_;
  Nest nest_;
  std::int64_t rows_ = 1, vectors_ = 1;
  std::int64_t prefetch_ = 0;  // steps ahead; 0: none
  Sharing sharing_;
  std::vector<Pack> packs_;
};

}  // namespace

bool schedule_block_dots(Context& context, const Contraction& contraction) {
  const auto* instruction =
      target::find_matrix(context.target, target::Operands::kLanes, contraction.a.buffer->dtype,
                          contraction.b.buffer->dtype);
  if (!instruction) return false;
  BlockDotWriter writer(context, contraction, *instruction);
  if (!writer.legal()) return false;
  writer.run();
  return true;
}

}  // namespace tessera::space
