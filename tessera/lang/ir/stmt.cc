#include "tessera/lang/ir/stmt.h"

#include <array>

#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

constexpr std::array kLoopNames = {"for",      "parallel", "vectorize", "unroll",
                                   "block_x",  "block_y",  "block_z",   "thread_x",
                                   "thread_y", "thread_z", "vthread"};

}  // namespace

void destroy(const StmtNode* node) {
  switch (node->kind) {
#define TESSERA_V(name)                    \
  case StmtKind::k##name:                  \
    delete static_cast<const name*>(node); \
    break;
    TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
  }
}

const char* to_text(LoopKind kind) { return kLoopNames[static_cast<std::size_t>(kind)]; }

Stmt For::make(Expr var, Expr extent, LoopKind loop_kind, Stmt body) {
  TESSERA_CHECK(var.as<Var>() && var.type() == Type(), "loop variable is not an i64 Var");
  TESSERA_CHECK(extent && extent.type() == Type(), "extent of loop {} is not a scalar i64",
                var.as<Var>()->name);
  TESSERA_CHECK(body, "loop {} has no body", var.as<Var>()->name);
  return Stmt(new For(std::move(var), std::move(extent), loop_kind, std::move(body)));
}

Stmt For::make(Expr var, std::int64_t extent, LoopKind loop_kind, Stmt body) {
  return make(std::move(var), IntImm::make(DType::kI64, extent), loop_kind, std::move(body));
}

Stmt Store::make(Buffer buffer, std::vector<Expr> indices, Expr value) {
  const Typing t = access_typing(buffer, indices);
  TESSERA_CHECK(!t.error, "store to {}: {}", buffer ? buffer->name : "?", t.error);
  TESSERA_CHECK(value && value.type() == t.type, "store of {} to {} of {}",
                value ? to_text(value.type()) : "nothing", buffer->name, to_text(t.type));
  return Stmt(new Store(std::move(buffer), std::move(indices), std::move(value)));
}

Stmt Block::make(std::vector<Stmt> stmts) {
  bool flat = true;
  for (const Stmt& s : stmts) flat = flat && s && s.kind() != StmtKind::kBlock;
  if (!flat) {
    std::vector<Stmt> out;
    for (Stmt& s : stmts) {
      if (!s) continue;
      if (const auto* block = s.as<Block>()) {
        out.insert(out.end(), block->stmts.begin(), block->stmts.end());
      } else {
        out.push_back(std::move(s));
      }
    }
    stmts = std::move(out);
  }
  if (stmts.size() == 1) return stmts[0];
  return Stmt(new Block(std::move(stmts)));
}

Stmt If::make(Expr cond, Stmt then_body, Stmt else_body) {
  TESSERA_CHECK(cond && cond.type() == (Type{DType::kBool, 1}),
                "condition of if is not a scalar bool");
  TESSERA_CHECK(then_body, "if has no body");
  return Stmt(new If(std::move(cond), std::move(then_body), std::move(else_body)));
}

Stmt Allocate::make(Buffer buffer, Stmt body) {
  TESSERA_CHECK(buffer && buffer->scope != Scope::kParam, "a parameter cannot be allocated");
  TESSERA_CHECK(body, "allocation of {} has no body", buffer->name);
  return Stmt(new Allocate(std::move(buffer), std::move(body)));
}

Stmt Evaluate::make(Expr value) {
  TESSERA_CHECK(value, "evaluate: missing value");
  return Stmt(new Evaluate(std::move(value)));
}

Stmt Barrier::make() { return Stmt(new Barrier()); }

}  // namespace tessera::ir
