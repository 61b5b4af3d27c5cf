#include "tessera/scheduling/lower/check_limits.h"

#include <algorithm>

#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/shared_places.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::lower {
namespace {

// Addresses, indices and the operands of one statement.
constexpr std::int64_t kOtherRegisters = 24;

class StackDepth final : public ir::Visitor {
 public:
  std::int64_t most = 0;

 private:
  using ir::Visitor::visit;
  void visit(const ir::Allocate& alloc) override {
    now_ += ir::buffer_bytes(alloc.buffer);
    most = std::max(most, now_);
    Visitor::visit(alloc);
    now_ -= ir::buffer_bytes(alloc.buffer);
  }
  std::int64_t now_ = 0;
};

Result<void> within(const ir::Launch& l, const char* what, std::int64_t needed,
                    std::int64_t limit) {
  if (needed <= limit) return {};
  return make_error(ErrorCode::kIllegalSchedule, "launch {} needs {} {}; the device has {}", l.name,
                    needed, what, limit);
}

Result<void> check_products(const ir::Launch& l, const LaunchLimits& limits) {
  Result<void> result;
  ir::for_each_expr(l.body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::Call>();
    if (!call || call->fn != ir::Intrinsic::kMma || !result.ok()) return;
    const DType t = call->args[1].dtype();
    const bool group = ir::is_group_product(e);
    const auto operands = group ? target::Operands::kTiles : target::Operands::kFragments;
    if (target::find_matrix(limits.device, operands, t, call->args[2].dtype())) return;
    result = make_error(ErrorCode::kIllegalSchedule,
                        "launch {} needs tensor cores for products of {} x {} in {}; the "
                        "device has none",
                        l.name, group ? "64 x 256" : "16 x 8", 32 / size_bytes(t), to_text(t));
  });
  return result;
}

}  // namespace

LaunchLimits launch_limits(const target::Target& target) {
  LaunchLimits limits;
  const target::GpuLimits& gpu = target.gpu;
  if (gpu.block_threads > 0) {
    limits.threads = gpu.block_threads;
    for (std::int64_t& most : limits.block) most = std::min(most, limits.threads);
    limits.thread_registers = target.vector_registers;
    limits.grid = target.row().grid;
  }
  if (gpu.block_shared_bytes > 0) limits.shared_bytes = gpu.block_shared_bytes;
  if (gpu.core_registers > 0) limits.registers = gpu.core_registers;
  limits.device = target;
  return limits;
}

std::int64_t shared_bytes(const ir::Launch& launch) { return ir::place_shared(launch).bytes; }

std::int64_t estimate_registers(const ir::Launch& launch) {
  StackDepth depth;
  depth(launch.body);
  return (depth.most + 3) / 4 + kOtherRegisters;
}

Result<void> check_limits(const ir::DeviceProgram& program, const LaunchLimits& limits) {
  constexpr std::array kDims = {"x", "y", "z"};
  for (const ir::Launch& l : program.launches) {
    TESSERA_DO(within(l, "threads in a block", l.threads(), limits.threads));
    for (std::size_t d = 0; d < 3; ++d) {
      const std::string threads = fmt::format("threads in dimension {}", kDims[d]);
      const std::string blocks = fmt::format("blocks in dimension {}", kDims[d]);
      TESSERA_DO(within(l, threads.c_str(), l.block[d], limits.block[d]));
      TESSERA_DO(within(l, blocks.c_str(), l.grid[d], limits.grid[d]));
    }
    TESSERA_DO(within(l, "bytes of shared memory", shared_bytes(l), limits.shared_bytes));
    const std::int64_t registers = estimate_registers(l);
    TESSERA_DO(within(l, "registers in a thread", registers, limits.thread_registers));
    TESSERA_DO(within(l, "registers in a block", registers * l.threads(), limits.registers));
    TESSERA_DO(check_products(l, limits));
  }
  return {};
}

}  // namespace tessera::lower
