// Sums of products with a register tile: matrix products, batched ones, convolutions.
#pragma once

#include <optional>
#include <vector>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// The roles of the axes. `b` is the operand that varies along the vectors, `a` the other one.
struct Contraction {
  std::size_t stage = 0;
  Access a, b;
  std::vector<Access> scales = {};   // constants that operands are unpacked with
  std::size_t vector = 0;            // output axis along which vectors lie
  int row = -1;                      // output axis of the rows of the tile; -1: one row
  std::vector<std::size_t> batch;    // output axes that both operands have
  std::vector<std::size_t> rows;     // others of `a` only
  std::vector<std::size_t> columns;  // others of `b` only
  std::vector<std::size_t> units;    // of extent 1, or in no operand
  std::vector<std::size_t> reduce;   // outermost first, as the loops will be
};

// The stage that applies the epilogue: what reads the sums, element by element.
struct Nest {
  std::size_t stage = 0;
  std::vector<std::size_t> axis;         // per output axis of the contraction: that of the nest
  std::vector<std::size_t> spread = {};  // axes of the nest that compute several results of a sum
};

// The only user of the stage, if it reads each element once and has no other axes, but for a short
// first one with `spreads`.
std::optional<Nest> find_nest(const Analysis& analysis, std::size_t stage, bool spreads = false);

std::optional<Contraction> match_contraction(const Analysis& analysis, std::size_t stage,
                                             std::size_t vector);

// A contraction whose vectors lie along the last axis that is written, and the stage that writes
// it: asks whether the epilogue is computed with the sums. Nothing where the stage is not
// a contraction.
struct PlacedContraction {
  Contraction contraction;
  Nest nest;
};
std::optional<PlacedContraction> place_contraction(Context& context, std::size_t stage);

// A product of narrow elements by an instruction that adds several at once, on tile registers where
// the target has them. False, and nothing is written, where it has neither or the operands cannot
// be had in its order.
bool schedule_dots(Context& context, const Contraction& contraction, const Nest& nest);

// The same of sums within blocks, which another stage scales and adds up: that stage, its epilogue
// and the sums within a block are computed tile by tile.
bool schedule_block_dots(Context& context, const Contraction& contraction);

// Writes the loops of the contraction, its nest and the copies of its operands. False when the
// stage is none or has a shape that another family serves better.
bool schedule_contraction(Context& context, std::size_t stage);

}  // namespace tessera::space
