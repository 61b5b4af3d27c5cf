// Operands in the order in which the tiles of a contraction read them.
#pragma once

#include <string>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/share.h"

namespace tessera::space {

struct Pack {
  std::string name;  // of the tensor that the contraction reads in the end
  ir::Buffer reads;  // the tensor as the Dag knows it
  schedule::Layout layout;
  bool copies = false;     // a stage of the schedule writes it, not the caller
  bool cached = false;     // that stage is a copy made for this contraction
  std::size_t dim = 0;     // dimension that is cut into panels
  std::int64_t width = 1;  // of a panel
  int producer = -1;       // the stage that writes it, when not cached
  std::int64_t group = 1;  // elements of `group_dim` that lie side by side within a panel
  std::size_t group_dim = 0;
};

// Panels of `width` along `axis`: blocks of the reduction (block_axis >= 0), panels, the reduction,
// the elements of the panel; of width 1, rows as they are. Batch dimensions stay in front. With
// `group` > 1 that many steps of the innermost reduce axis, which must index a dimension by itself,
// lie side by side for each element of the panel.
Pack make_pack(const Context& context, const Contraction& c, const Access& access, std::size_t axis,
               std::int64_t width, int block_axis, std::int64_t block, bool copies,
               std::int64_t group = 1);

// The loops of a stage that copies a tensor in panels.
struct Panels {
  std::string name;
  Loops loops;                        // per dimension
  std::vector<std::int64_t> extents;  // per dimension
  std::size_t dim = 0;                // that is cut into panels
  std::int64_t width = 1;
  int step_dim = -1;        // another one that is cut into steps; -1: none
  bool transposes = false;  // memory is read along it: a few steps at a time are unrolled
};

// Panels, one after the other; returns the loops around one. Reading along another dimension than
// writing, all steps of a panel before the next; otherwise all panels of a group of rows, so that a
// page serves several of them.
std::vector<OuterLoop> write_panels(Writer& writer, const Panels& panels);

// Writes the layout and, for a copy, its loops; `attached`: it runs inside loops that are shared
// out already.
void write_pack(Context& context, Pack* pack, bool attached);

}  // namespace tessera::space
