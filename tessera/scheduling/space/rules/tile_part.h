// Multi-level tiling of a reduction whose operands are used again: products, convolutions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/rules/part.h"
#include "tessera/scheduling/space/rules/tile_layout.h"
#include "tessera/scheduling/space/rules/tile_values.h"

namespace tessera::space {

// Which tiling. `structure` has one letter per group of loops: S loops over all output axes, R over
// all reduce axes; the last group is the tile in registers.
struct Tiling {
  std::string structure = "SSRSRS";
  int fused = 0;             // groups S of the nest around the stage; 0: the stage by itself
  bool cache_write = false;  // the nest is a copy of the stage
  // Lists of a small space: fewer values, one level of blocks.
  bool small = false;
};

// Axes of the stage that has tiles, by role.
struct TileAxis {
  std::string name, nest_name;
  std::size_t axis = 0;
  std::int64_t extent = 1;
  std::size_t decision = 0;
};

// What a value of a tile's decision means for the limits.
struct TileFacts {
  std::int64_t inner = 1;   // of an axis of rows; vectors of the axis that they lie along
  std::int64_t local = 1;   // elements of what the nest takes over, along this axis
  std::int64_t copies = 1;  // of the body, where tails are copies
  bool exact = true;        // no tail
  bool whole = true;        // whole innermost tiles: the loops outside may end earlier instead
};

// An operand that may be stored in the order of the loops.
struct TileOperand {
  Access access;
  bool constant = false;
  std::size_t decision = 0;
  int panel_axis = -1;  // spatial axis whose tile is a panel of a copy
};

// Groups of loops with names, and the order of storage that they imply.
struct TileLoops {
  std::vector<Loops> spatial;  // per group S, in the order of `axes`
  std::vector<Loops> reduce;   // per group R
  Loops unrolled;              // innermost reduce loops
};

class TilePart final : public Part {
 public:
  // `nest`: the stage that reads the sums; nullopt or unused where the tiling is not fused.
  TilePart(std::shared_ptr<const Analysis> analysis, const target::Target& target,
           std::size_t stage, std::optional<Nest> nest, Tiling tiling);

  std::size_t depth_of(std::size_t stage) const override;
  void walk(std::span<std::int32_t> choice, const Place& place, Asker& asker) const override;
  std::int64_t copies(Choice choice) const override;
  std::int64_t code(Choice choice) const override;
  std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const override;

 private:
  const Stage& stage() const { return analysis_->stages[stage_]; }
  const Stage& nest() const { return analysis_->stages[fused() ? nest_.stage : stage_]; }
  bool fused() const { return tiling_.fused > 0; }
  bool in_registers() const { return tiling_.fused + 1 == spatial_groups_; }
  const std::string& outer_name() const;

  void add_axes();
  void add_reduce_axes();
  void add_operands();
  void add_operand(const Access& access);
  void add_rest();
  void update() override { add_facts(); }
  void add_facts();
  // Shrinks the preferred tile until it is legal.
  void mend_preferred();
  std::vector<std::int64_t> inner_lengths(std::size_t axis) const;

  // The choice, resolved.
  const Lengths& tile(Choice choice, std::size_t i) const {
    return values(choice, axes_[i].decision);
  }
  std::int64_t inner(Choice choice, std::size_t i) const { return tile(choice, i).back(); }
  std::int64_t reduce_length(Choice choice, std::size_t i) const;
  bool exact(Choice choice, std::size_t i) const;
  schedule::Tail tail_of(Choice choice, std::size_t i) const;
  std::int64_t copies_of(Choice choice, std::size_t i) const;
  std::vector<std::size_t> spatial_order(Choice choice, bool innermost) const;
  std::vector<std::size_t> reduce_order(Choice choice) const;
  // Per reduce axis: iterations that are unrolled; 1: none.
  Result<std::vector<std::int64_t>> unrolled(Choice choice) const;

  const TileFacts& facts(Choice choice, std::size_t i) const {
    return facts_[i][static_cast<std::size_t>(choice[axes_[i].decision])];
  }
  std::int64_t best_copies(const TileFacts& f) const {
    return may_bound_ && f.whole ? 1 : f.copies;
  }

  // Sizes of a tile, of some axes or of all.
  struct Extent {
    std::int64_t rows = 1, vectors = 1, local = 1, copies = 1;
  };
  Extent with(const Extent& tile, std::size_t axis, const TileFacts& f) const;
  // Within registers, body and code, with the least of what is decided later.
  const char* refuse_tile(const Extent& tile) const;
  const char* refuse_axis(Choice choice, std::size_t axis, std::int32_t value) const;
  const char* refuse_unroll(Choice choice) const;
  const char* refuse_parallel(Choice choice, bool bounds) const;
  const char* refuse_code(Choice choice, std::int64_t copies) const;

  // Vector operations of the innermost loop.
  std::int64_t body(Choice choice) const;
  std::int64_t code(Choice choice, std::int64_t copies) const;
  std::int64_t with_conditions(std::int64_t copies) const;

  std::vector<TileLoop> loop_list(Choice choice) const;
  void write_operands(Choice choice, Writer& writer) const;
  void write_copy(Choice choice, const TileOperand& operand, const std::string& copy,
                  Writer& writer) const;
  void split_reduce(Choice choice, Writer& writer, TileLoops* loops) const;
  void split_stage(Choice choice, Writer& writer, TileLoops* loops) const;
  void split_nest(Choice choice, Writer& writer, std::vector<Loops>* groups) const;
  Loops write_nest(Choice choice, Writer& writer) const;
  void order_stage(Choice choice, const TileLoops& loops, Writer& writer) const;
  // Shares out the leading loops; returns the name of the last one of the group.
  std::string share(Choice choice, const Loops& group, Writer& writer) const;

  std::shared_ptr<const Analysis> analysis_;
  target::Target target_;
  std::size_t stage_;
  Nest nest_;
  Tiling tiling_;
  std::string name_;  // of the stage that computes
  int spatial_groups_ = 0, reduce_groups_ = 0;
  int lanes_ = 1;
  std::vector<TileAxis> axes_;  // of extent above 1, as in the stage
  std::size_t vector_ = 0;      // index into axes_
  Loops units_, nest_units_;    // loops of one iteration
  std::vector<TileAxis> reduce_;
  std::vector<std::size_t> memory_order_;  // of reduce_: as the operand in given order lies
  std::vector<TileOperand> operands_;
  std::size_t order_ = 0, reduce_order_ = 0, unroll_ = 0, parallel_ = 0, tail_ = 0;
  std::vector<std::vector<TileFacts>> facts_;  // per axis and value
  std::vector<Extent> least_vectors_;  // of the axis of vectors: those that no other is below
  bool may_bound_ = false;             // loops that end earlier are among the tails
};

// The output axis along which vectors lie: the last one with several elements of the nest. -1:
// there is none.
int vector_axis(const Analysis& analysis, std::size_t stage, const std::optional<Nest>& nest);

}  // namespace tessera::space
