#include "tessera/lang/interp/tiles.h"

#include "tessera/lang/interp/program.h"

namespace tessera::interp {
namespace {

using ir::BinaryOp;

std::int64_t number(const Node& node, std::size_t arg) { return node.args[arg]->value.i; }

Tile& tile(const Node& node, std::size_t arg, Frame& frame) {
  return frame.tiles[static_cast<std::size_t>(number(node, arg))];
}

void fail(Frame& frame, const std::string& why) {
  if (!frame.error) frame.error = make_error(ErrorCode::kRunFailed, "{}", why);
}

// Calls fn(element of memory, position in the tile) for every element; false: some are outside.
template <class F>
bool for_each_element(const Node& node, Frame& frame, const F& fn) {
  const Node& place = *node.args[1];
  const std::optional<std::int64_t> first = element_of(place.slot, place.args, 0, "tile", frame);
  if (!first) return false;
  const Memory& memory = *frame.memory[place.slot];
  const std::int64_t step = number(node, 2), rows = number(node, 3), columns = number(node, 4);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t element = *first + r * step + c;
      if (element >= memory.data.size()) {
        fail(frame, fmt::format("row {} of a tile ends behind {}", r, memory.buffer->name));
        return false;
      }
      fn(element, static_cast<std::size_t>(r * columns + c));
    }
  }
  return true;
}

void load(const Node& node, Frame& frame) {
  const Node& place = *node.args[1];
  const Memory& memory = *frame.memory[place.slot];
  Tile& t = tile(node, 0, frame);
  t = {number(node, 3), number(node, 4), place.dtype, {}};
  t.elements.resize(static_cast<std::size_t>(t.rows * t.columns));
  for_each_element(node, frame, [&](std::int64_t element, std::size_t at) {
    if (!memory.defined.empty() && memory.defined[static_cast<std::size_t>(element)] == 0)
      fail(frame, fmt::format("read of undefined element {} of {}", element, memory.buffer->name));
    t.elements[at] = memory.get(element);
  });
}

void store(const Node& node, Frame& frame) {
  const Tile& t = tile(node, 0, frame);
  if (t.rows != number(node, 3) || t.columns != number(node, 4))
    return fail(frame, "tile is stored in another shape than it has");
  Memory& memory = *frame.memory[node.args[1]->slot];
  for_each_element(node, frame, [&](std::int64_t element, std::size_t at) {
    memory.set(element, t.elements[at]);
  });
}

void dot(const Node& node, Frame& frame) {
  Tile& sums = tile(node, 0, frame);
  const Tile &a = tile(node, 1, frame), &b = tile(node, 2, frame);
  const std::int64_t group = 4 / size_bytes(a.dtype);
  if (sums.rows == 0 || size_bytes(a.dtype) != size_bytes(b.dtype) || a.rows != sums.rows ||
      b.columns != sums.columns * group || a.columns != b.rows * group)
    return fail(frame, "tiles of a product do not fit together");
  const DType type = is_float(a.dtype) ? DType::kF32 : DType::kI32;
  for (std::int64_t i = 0; i < sums.rows; ++i) {
    for (std::int64_t j = 0; j < sums.columns; ++j) {
      Scalar& sum = sums.elements[static_cast<std::size_t>(i * sums.columns + j)];
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const std::int64_t right = k / group * b.columns + j * group + k % group;
        const Scalar product =
            binary(BinaryOp::kMul, type,
                   convert(a.dtype, type, a.elements[static_cast<std::size_t>(i * a.columns + k)]),
                   convert(b.dtype, type, b.elements[static_cast<std::size_t>(right)]));
        sum = binary(BinaryOp::kAdd, type, sum, product);
      }
    }
  }
}

}  // namespace

void run_tile(const Node& node, Frame& frame) {
  switch (node.fn) {
    case ir::Intrinsic::kTileZero: {
      const std::int64_t rows = number(node, 1), columns = number(node, 2);
      tile(node, 0, frame) = {rows, columns, DType::kI32,
                              std::vector<Scalar>(static_cast<std::size_t>(rows * columns))};
      return;
    }
    case ir::Intrinsic::kTileLoad:
      return load(node, frame);
    case ir::Intrinsic::kTileStore:
      return store(node, frame);
    default:
      return dot(node, frame);
  }
}

}  // namespace tessera::interp
