#include "tessera/backend/codegen/llvm/early_copies.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "tessera/backend/codegen/llvm/index.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {
namespace {

const ir::Call* copy_of(const ir::Stmt& s) {
  const auto* evaluate = s.as<ir::Evaluate>();
  const auto* call = evaluate ? evaluate->value.as<ir::Call>() : nullptr;
  return call && call->fn == ir::Intrinsic::kAsyncCopy ? call : nullptr;
}

bool ends(const ir::Stmt& s) {
  bool out = false;
  ir::for_each_stmt(s, [&](const ir::Stmt& each) {
    out |= each.kind() == ir::StmtKind::kBarrier || (each.as<ir::Evaluate>() && !copy_of(each));
  });
  return out;
}

std::set<ir::Buffer> used_by(const ir::Stmt& s) {
  std::set<ir::Buffer> out;
  ir::for_each_expr(s, [&](const ir::Expr& e) {
    if (const auto* load = e.as<ir::Load>()) out.insert(load->buffer);
  });
  ir::for_each_stmt(s, [&](const ir::Stmt& each) {
    if (const auto* store = each.as<ir::Store>()) out.insert(store->buffer);
  });
  return out;
}

class Splitter {
 public:
  explicit Splitter(const IsConstant& constant) : constant_(constant) {}

  // What stays of `s`; null: nothing.
  ir::Stmt rest_of(const ir::Stmt& s) {
    if (!s || ended_) return s;
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<ir::Stmt> kept;
      for (const ir::Stmt& each : block->stmts)
        if (ir::Stmt rest = rest_of(each)) kept.push_back(std::move(rest));
      return kept.empty() ? ir::Stmt() : ir::Block::make(std::move(kept));
    }
    if (const auto* allocate = s.as<ir::Allocate>()) {
      ir::Stmt rest = rest_of(allocate->body);
      return rest ? ir::Allocate::make(allocate->buffer, std::move(rest)) : rest;
    }
    ended_ = ends(s);
    if (ended_) return s;
    const std::set<ir::Buffer> used = used_by(s);
    const bool untouched = std::none_of(used.begin(), used.end(),
                                        [&](const ir::Buffer& b) { return touched_.contains(b); });
    if (untouched && copies_constants(s)) {
      early_.push_back(s);
      return {};
    }
    std::copy_if(used.begin(), used.end(), std::inserter(touched_, touched_.end()),
                 [&](const ir::Buffer& b) { return !constant_(b); });
    return s;
  }

  std::vector<ir::Stmt> early() { return std::move(early_); }

 private:
  // Or stores zeros where there is nothing to copy.
  bool copies_constants(const ir::Stmt& s) const {
    const auto all_do = [&](const std::vector<ir::Stmt>& stmts) {
      return std::all_of(stmts.begin(), stmts.end(),
                         [&](const ir::Stmt& each) { return copies_constants(each); });
    };
    if (const auto* block = s.as<ir::Block>()) return all_do(block->stmts);
    if (const auto* loop = s.as<ir::For>()) return copies_constants(loop->body);
    if (const auto* branch = s.as<ir::If>()) {
      return !contains_load(branch->cond) && copies_constants(branch->then_body) &&
             (!branch->else_body || copies_constants(branch->else_body));
    }
    if (const auto* store = s.as<ir::Store>()) {
      return store->buffer->scope == ir::Scope::kShared && !contains_load(store->value) &&
             !any_reads(store->indices);
    }
    const ir::Call* copy = copy_of(s);
    if (!copy) return false;
    const auto* to = copy->args[0].as<ir::Load>();
    const auto* from = copy->args[1].as<ir::Load>();
    // Where it reads may be what the kernel before this one computes.
    return constant_(from->buffer) && !any_reads(to->indices) && !any_reads(from->indices);
  }

  static bool any_reads(const std::vector<ir::Expr>& indices) {
    return std::any_of(indices.begin(), indices.end(), contains_load);
  }

  const IsConstant& constant_;
  std::vector<ir::Stmt> early_;
  std::set<ir::Buffer> touched_;
  bool ended_ = false;
};

}  // namespace

EarlyCopies split_early_copies(const ir::Stmt& body, const IsConstant& constant) {
  Splitter splitter(constant);
  EarlyCopies out;
  out.rest = splitter.rest_of(body);
  out.early = splitter.early();
  return out;
}

}  // namespace tessera::codegen
