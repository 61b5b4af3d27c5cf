// Traversal: Visitor reads every node, Mutator rebuilds and keeps the same handle where nothing
// changed.
#pragma once

#include <functional>
#include <vector>

#include "tessera/lang/ir/expr.h"
#include "tessera/lang/ir/stmt.h"

namespace tessera::ir {

// Override visit() for the kinds of interest; call Visitor::visit(node) to continue below it.
class Visitor {
 public:
  virtual ~Visitor() = default;
  void operator()(const Expr& e);
  void operator()(const Stmt& s);

 protected:
#define TESSERA_V(name) virtual void visit(const name& node);
  TESSERA_EXPR_KINDS(TESSERA_V)
  TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
};

// Override rewrite() for the kinds of interest; call Mutator::rewrite(handle, node) to rebuild
// children. A null Stmt removes the statement from its block.
class Mutator {
 public:
  virtual ~Mutator() = default;
  Expr operator()(const Expr& e);
  Stmt operator()(const Stmt& s);

 protected:
#define TESSERA_V(name) virtual Expr rewrite(const Expr& e, const name& node);
  TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
#define TESSERA_V(name) virtual Stmt rewrite(const Stmt& s, const name& node);
  TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V

  // Rewrites every element; returns whether any changed.
  bool rewrite_all(const std::vector<Expr>& in, std::vector<Expr>* out);
};

// Calls fn on every expression below (pre-order), including e itself.
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& fn);
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& fn);
// Calls fn on every statement below (pre-order).
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& fn);

bool uses_var(const Expr& e, const Expr& var);
bool uses_var(const Stmt& s, const Expr& var);
bool reads_buffer(const Expr& e, const Buffer& b);

}  // namespace tessera::ir
