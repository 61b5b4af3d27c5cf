#include "tessera/backend/codegen/llvm/workspace.h"

#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

constexpr std::int64_t kMaxStackBuffer = 64 << 10;
constexpr std::int64_t kMaxStackTotal = 256 << 10;  // worker threads may have small stacks

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Planner {
 public:
  void plan(const ir::Stmt& s, bool inside_parallel) {
    if (!s) return;
    if (const auto* loop = s.as<ir::For>()) return plan_loop(*loop, inside_parallel);
    if (const auto* block = s.as<ir::Block>()) {
      for (const ir::Stmt& child : block->stmts) plan(child, inside_parallel);
    } else if (const auto* branch = s.as<ir::If>()) {
      plan(branch->then_body, inside_parallel);
      plan(branch->else_body, inside_parallel);
    } else if (const auto* allocate = s.as<ir::Allocate>()) {
      result.slots[allocate] = place(*allocate, inside_parallel);
      plan(allocate->body, inside_parallel);
    }
  }

  Workspace result;

 private:
  void plan_loop(const ir::For& loop, bool inside_parallel) {
    if (!runs_parallel(loop, inside_parallel)) return plan(loop.body, inside_parallel);
    const std::int64_t outer_stack = stack_bytes_;
    stack_bytes_ = 0;  // the body is a function of its own
    plan(loop.body, true);
    stack_bytes_ = outer_stack;
  }

  Slot place(const ir::Allocate& allocate, bool inside_parallel) {
    const std::int64_t bytes = aligned(allocate.buffer.size() * size_bytes(allocate.buffer->dtype));
    if (allocate.buffer->scope == ir::Scope::kStack && bytes <= kMaxStackBuffer &&
        stack_bytes_ + bytes <= kMaxStackTotal) {
      stack_bytes_ += bytes;
      return {Home::kStack, 0};
    }
    std::int64_t& used = inside_parallel ? result.worker_bytes : result.shared_bytes;
    const Slot slot{inside_parallel ? Home::kWorker : Home::kShared, used};
    used += bytes;
    return slot;
  }

  std::int64_t stack_bytes_ = 0;
};

}  // namespace

bool runs_parallel(const ir::For& loop, bool inside_parallel) {
  return loop.loop_kind == ir::LoopKind::kParallel && !inside_parallel &&
         !ir::is_const_int(loop.extent, 1);
}

Workspace plan_workspace(const ir::Stmt& body) {
  Planner planner;
  planner.plan(body, false);
  return std::move(planner.result);
}

}  // namespace tessera::codegen
