#include "tessera/lang/ir/visitor.h"

namespace tessera::ir {
namespace {

// children(node, fn): fn on each expression and statement directly below; binders are not children.
template <class F>
void children(const IntImm&, F&&) {}
template <class F>
void children(const FloatImm&, F&&) {}
template <class F>
void children(const Var&, F&&) {}
template <class F>
void children(const Binary& n, F&& fn) {
  fn(n.a), fn(n.b);
}
template <class F>
void children(const Select& n, F&& fn) {
  fn(n.cond), fn(n.on_true), fn(n.on_false);
}
template <class F>
void children(const Cast& n, F&& fn) {
  fn(n.value);
}
template <class F>
void children(const Load& n, F&& fn) {
  for (const Expr& e : n.indices) fn(e);
}
template <class F>
void children(const Ramp& n, F&& fn) {
  fn(n.base);
}
template <class F>
void children(const Broadcast& n, F&& fn) {
  fn(n.value);
}
template <class F>
void children(const Shuffle& n, F&& fn) {
  fn(n.value);
}
template <class F>
void children(const Call& n, F&& fn) {
  for (const Expr& e : n.args) fn(e);
}
template <class F>
void children(const For& n, F&& fn) {
  fn(n.extent), fn(n.body);
}
template <class F>
void children(const Store& n, F&& fn) {
  for (const Expr& e : n.indices) fn(e);
  fn(n.value);
}
template <class F>
void children(const Block& n, F&& fn) {
  for (const Stmt& s : n.stmts) fn(s);
}
template <class F>
void children(const If& n, F&& fn) {
  fn(n.cond), fn(n.then_body);
  if (n.else_body) fn(n.else_body);
}
template <class F>
void children(const Allocate& n, F&& fn) {
  fn(n.body);
}
template <class F>
void children(const Evaluate& n, F&& fn) {
  fn(n.value);
}

template <class F>
void children(const Barrier&, F&&) {}

template <class F>
void dispatch(const Expr& e, F&& fn) {
  switch (e.kind()) {
#define TESSERA_V(name)   \
  case ExprKind::k##name: \
    return fn(static_cast<const name&>(*e.get()));
    TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
  }
}

template <class F>
void dispatch(const Stmt& s, F&& fn) {
  switch (s.kind()) {
#define TESSERA_V(name)   \
  case StmtKind::k##name: \
    return fn(static_cast<const name&>(*s.get()));
    TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
  }
}

// Pre-order walk; stops as soon as on_expr returns true and then returns true itself.
template <class E, class S>
struct Search {
  E on_expr;
  S on_stmt;

  bool operator()(const Expr& e) {
    if (on_expr(e)) return true;
    return below(e);
  }
  bool operator()(const Stmt& s) {
    if (on_stmt(s)) return true;
    return below(s);
  }

  template <class H>
  bool below(const H& handle) {
    bool found = false;
    dispatch(handle, [&](const auto& node) {
      children(node, [&](const auto& child) { found = found || (*this)(child); });
    });
    return found;
  }
};

template <class E, class S>
Search<E, S> make_search(E on_expr, S on_stmt) {
  return {on_expr, on_stmt};
}

constexpr auto kNoStmt = [](const Stmt&) { return false; };

}  // namespace

void Visitor::operator()(const Expr& e) {
  dispatch(e, [this](const auto& node) { visit(node); });
}

void Visitor::operator()(const Stmt& s) {
  dispatch(s, [this](const auto& node) { visit(node); });
}

#define TESSERA_V(name) \
  void Visitor::visit(const name& node) { children(node, *this); }
TESSERA_EXPR_KINDS(TESSERA_V)
TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V

void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& fn) {
  make_search([&](const Expr& x) { return fn(x), false; }, kNoStmt)(e);
}

void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& fn) {
  make_search([&](const Expr& x) { return fn(x), false; }, kNoStmt)(s);
}

void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& fn) {
  fn(s);
  dispatch(s, [&](const auto& node) {
    children(node, [&](const auto& child) {
      if constexpr (std::is_same_v<std::decay_t<decltype(child)>, Stmt>) for_each_stmt(child, fn);
    });
  });
}

bool uses_var(const Expr& e, const Expr& var) {
  return make_search([&](const Expr& x) { return x.same_as(var); }, kNoStmt)(e);
}

bool uses_var(const Stmt& s, const Expr& var) {
  return make_search([&](const Expr& x) { return x.same_as(var); }, kNoStmt)(s);
}

bool reads_buffer(const Expr& e, const Buffer& b) {
  return make_search(
      [&](const Expr& x) {
        const auto* load = x.as<Load>();
        return load && load->buffer.same_as(b);
      },
      kNoStmt)(e);
}

}  // namespace tessera::ir
