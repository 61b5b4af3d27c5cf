// Tile registers: their shapes are configured where all statements below agree on them, as far
// outside as that is possible.
#include <array>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using llvm::Value;

namespace {

constexpr std::size_t kTiles = 8;
constexpr unsigned kConfigBytes = 64, kColumnsAt = 16, kRowsAt = 48;

struct TileShape {
  std::int64_t rows = 0, bytes = 0;  // 0: any
  bool operator==(const TileShape&) const = default;
};

// What the statements below a point need.
struct TileShapes {
  std::array<TileShape, kTiles> of;
  bool any = false, agree = true;

  void add(std::int64_t tile, const TileShape& shape) {
    TileShape& known = of[static_cast<std::size_t>(tile)];
    agree = agree && (known.rows == 0 || known == shape);
    known = shape;
    any = true;
  }
};

std::int64_t number(const ir::Call& call, std::size_t arg) {
  return call.args[arg].as<ir::IntImm>()->value;
}

bool is_tile_call(const ir::Call& call) {
  return call.fn >= ir::Intrinsic::kTileZero && call.fn <= ir::Intrinsic::kTileStore;
}

TileShapes shapes_of(const ir::Stmt& s) {
  TileShapes out;
  ir::for_each_expr(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::Call>();
    if (!call || !is_tile_call(*call) || call->fn == ir::Intrinsic::kTileDot) return;
    if (call->fn == ir::Intrinsic::kTileZero)
      return out.add(number(*call, 0), {number(*call, 1), number(*call, 2) * 4});
    const std::int64_t width = size_bytes(call->args[1].dtype());
    out.add(number(*call, 0), {number(*call, 3), number(*call, 4) * width});
  });
  return out;
}

bool has_parallel(const ir::Stmt& s) {
  bool found = false;
  ir::for_each_stmt(s, [&](const ir::Stmt& at) {
    const auto* loop = at.as<ir::For>();
    found = found || (loop && runs_parallel(*loop, false));
  });
  return found;
}

}  // namespace

bool is_tile_statement(const ir::Stmt& s) {
  const auto* evaluate = s.as<ir::Evaluate>();
  const auto* call = evaluate ? evaluate->value.as<ir::Call>() : nullptr;
  return call && is_tile_call(*call);
}

bool uses_tiles(const ir::Stmt& s) { return s && shapes_of(s).any; }

// True: tiles are configured from here to the end of `s`.
bool Emitter::configure_tiles(const ir::Stmt& s) {
  const bool has_tiles = target_.has_bf16_tiles || target_.has_i8_tiles;
  if (!has_tiles || frame_.tiles || is_tile_statement(s) || (!frame_.worker && has_parallel(s)))
    return false;
  const TileShapes shapes = shapes_of(s);
  if (!shapes.any || !shapes.agree) return false;
  std::array<std::uint8_t, kConfigBytes> config{};
  config[0] = 1;  // palette
  for (std::size_t t = 0; t < kTiles; ++t) {
    config[kColumnsAt + 2 * t] = static_cast<std::uint8_t>(shapes.of[t].bytes);
    config[kRowsAt + t] = static_cast<std::uint8_t>(shapes.of[t].rows);
  }
  llvm::Constant* bytes = llvm::ConstantDataArray::get(b_.getContext(), config);
  auto* place = new llvm::GlobalVariable(module_, bytes->getType(), true,
                                         llvm::GlobalValue::PrivateLinkage, bytes, "tiles");
  place->setAlignment(llvm::Align(kConfigBytes));
  ops_.native(ops_.intrinsic_named("llvm.x86.ldtilecfg"), {}, {place});
  frame_.tiles = true;
  return true;
}

// Registers that hold nothing are not saved when threads change.
void Emitter::release_tiles(const ir::Stmt& body) {
  if (uses_tiles_ && uses_tiles(body))
    ops_.native(ops_.intrinsic_named("llvm.x86.tilerelease"), {}, {});
}

void Emitter::emit_tile(const ir::Call& call) {
  const auto tile = [&](std::size_t arg) {
    return b_.getInt8(static_cast<std::uint8_t>(number(call, arg)));
  };
  const bool has_tiles = target_.has_bf16_tiles || target_.has_i8_tiles;
  if (!frame_.tiles || !has_tiles) {
    fail(ErrorCode::kUnsupported,
         has_tiles ? "tiles of several shapes between two configurations"
                   : fmt::format("{} has no tile registers", target_.name),
         {});
    return;
  }
  switch (call.fn) {
    case ir::Intrinsic::kTileZero:
      ops_.native(ops_.intrinsic_named("llvm.x86.tilezero"), {}, {tile(0)});
      return;
    case ir::Intrinsic::kTileDot:
      return emit_tile_dot(call);
    default:
      break;
  }
  const auto* load = call.args[1].as<ir::Load>();
  const auto place = place_of(load->buffer, load->indices);
  if (!place) {
    fail(ErrorCode::kUnsupported, "a tile of memory with an index that is not linear", {});
    return;
  }
  const bool loads = call.fn == ir::Intrinsic::kTileLoad;
  if (loads) tile_types_[static_cast<std::size_t>(number(call, 0))] = load->type.dtype;
  const std::int64_t step = number(call, 2) * size_bytes(load->type.dtype);
  ops_.native(
      ops_.intrinsic_named(loads ? "llvm.x86.tileloadd64" : "llvm.x86.tilestored64"), {},
      {tile(0), pointer(load->buffer, place->base), b_.getInt64(static_cast<std::uint64_t>(step))});
}

void Emitter::emit_tile_dot(const ir::Call& call) {
  const DType a = tile_types_[static_cast<std::size_t>(number(call, 1))];
  const DType b = tile_types_[static_cast<std::size_t>(number(call, 2))];
  const auto* row = target::find_matrix(target_, target::Operands::kTileRegisters, a, b);
  if (!row) {
    fail(ErrorCode::kUnsupported,
         fmt::format("{} has no products of tiles of {} and {}", target_.name, to_text(a),
                     to_text(b)),
         {});
    return;
  }
  const auto sign = [](DType t) { return t == DType::kU8 ? 'u' : 's'; };
  std::string name(row->emit[static_cast<std::size_t>(target::signs_of(a, b))]);
  if (const auto gap = name.find("{}"); gap != std::string::npos)
    name.replace(gap, 2, std::string{sign(a), sign(b)});
  std::vector<Value*> tiles;
  for (std::size_t i = 0; i < 3; ++i)
    tiles.push_back(b_.getInt8(static_cast<std::uint8_t>(number(call, i))));
  ops_.native(ops_.intrinsic_named(name), {}, tiles);
}

}  // namespace tessera::codegen
