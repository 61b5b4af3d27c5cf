#include <cmath>
#include <iterator>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "tessera/lang/ir/syntax.h"
#include "tessera/lang/ir/text.h"

namespace tessera::ir {
namespace {

// Gives every variable and buffer a name that no other one in scope has: its hint, then hint_1,
// hint_2, ...
class Names {
 public:
  const std::string& bind(const void* node, const std::string& hint) {
    const std::string base = clean(hint);
    std::string name = base;
    for (int i = 1; is_reserved(name) || used_.count(name); ++i)
      name = fmt::format("{}_{}", base, i);
    used_.insert(name);
    return names_[node] = name;
  }

  void release(const void* node) {
    const auto it = names_.find(node);
    if (it == names_.end()) return;
    used_.erase(it->second);
    names_.erase(it);
  }

  // Unbound ones keep the name they get at their first use.
  const std::string& use(const void* node, const std::string& hint) {
    const auto it = names_.find(node);
    return it != names_.end() ? it->second : bind(node, hint);
  }

 private:
  static std::string clean(const std::string& hint) {
    std::string name = hint.empty() ? "v" : hint;
    for (char& c : name) {
      if (!is_name_char(c)) c = '_';
    }
    return is_name_start(name[0]) ? name : "_" + name;
  }

  std::set<std::string> used_;
  std::unordered_map<const void*, std::string> names_;
};

class Printer {
 public:
  void expr(const Expr& e, int min_precedence = 0) {
    if (!e) return append("<null>");
    switch (e.kind()) {
#define TESSERA_V(name)   \
  case ExprKind::k##name: \
    return print(*e.as<name>(), min_precedence);
      TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
    }
  }

  void stmt(const Stmt& s) {
    if (!s) return line("<null>");
    switch (s.kind()) {
#define TESSERA_V(name)   \
  case StmtKind::k##name: \
    return print(*s.as<name>());
      TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
    }
  }

  void func(const Func& f) {
    append("func ");
    function_name(f.name);
    TESSERA_CHECK(f.num_outputs >= 0 && f.num_outputs <= static_cast<int>(f.params.size()),
                  "{}: output count {}", f.name, f.num_outputs);
    params(f.params.begin(), f.params.end() - f.num_outputs);
    append(" -> ");
    params(f.params.end() - f.num_outputs, f.params.end());
    body(f.body);
    append("\n");
  }

  void device(const DeviceProgram& p) {
    append("device ");
    function_name(p.name);
    params(p.params.begin(), p.params.end() - p.num_outputs);
    append(" -> ");
    params(p.params.end() - p.num_outputs, p.params.end());
    append(" {{\n");
    ++indent_;
    for (const Buffer& b : p.temporaries) declaration("temp", b);
    for (const Launch& l : p.launches) launch(l);
    --indent_;
    append("}}\n");
  }

  std::string take() { return std::move(out_); }

 private:
  void declaration(const char* word, const Buffer& b) {
    start_line();
    append("{} ", word);
    declare(b, false);
    append("\n");
  }

  void names(const std::vector<Buffer>& buffers, std::size_t begin, std::size_t end) {
    append("(");
    for (std::size_t i = begin; i < end; ++i)
      append("{}{}", i > begin ? ", " : "", names_.use(buffers[i].get(), buffers[i]->name));
    append(")");
  }

  void extents(const char* word, const std::array<Expr, 3>& vars,
               const std::array<std::int64_t, 3>& extent) {
    start_line();
    append("{}", word);
    for (std::size_t d = 0; d < 3; ++d) {
      append("{} {} in {}", d > 0 ? "," : "", names_.bind(vars[d].get(), vars[d].as<Var>()->name),
             extent[d]);
    }
  }

  void launch(const Launch& l) {
    start_line();
    append("launch ");
    function_name(l.name);
    const std::size_t inputs = l.params.size() - static_cast<std::size_t>(l.num_outputs);
    names(l.params, 0, inputs);
    append(" -> ");
    names(l.params, inputs, l.params.size());
    append(" {{\n");
    ++indent_;
    extents("grid", l.block_vars, l.grid);
    append("\n");
    extents("block", l.thread_vars, l.block);
    if (l.warp != kUsualWarp) append(", warp in {}", l.warp);
    append("\n");
    for (const Buffer& b : l.shared) declaration("shared", b);
    stmt(l.body);
    --indent_;
    line("}");
    for (const Buffer& b : l.shared) names_.release(b.get());
    for (std::size_t d = 0; d < 3; ++d) {
      names_.release(l.block_vars[d].get());
      names_.release(l.thread_vars[d].get());
    }
  }

  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void start_line() { out_.append(static_cast<std::size_t>(2 * indent_), ' '); }
  void line(const char* text) {
    start_line();
    append("{}\n", text);
  }

  void list(const std::vector<Expr>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(", ");
      expr(items[i]);
    }
  }

  void function_name(const std::string& name) {
    bool plain = !name.empty() && is_name_start(name[0]);
    for (const char c : name) plain = plain && is_name_char(c);
    if (plain) return append("{}", name);
    append("\"");
    for (const char c : name) {
      if (c == '"' || c == '\\') out_ += '\\';
      out_ += c;
    }
    append("\"");
  }

  template <class It>
  void params(It begin, It end) {
    append("(");
    for (It it = begin; it != end; ++it) {
      if (it != begin) append(", ");
      declare(*it);
    }
    append(")");
  }

  void declare(const Buffer& b, bool scope = true) {
    append("{}: {}[", names_.bind(b.get(), b->name), tessera::to_text(b->dtype));
    for (std::size_t i = 0; i < b->shape.size(); ++i)
      append("{}{}", i > 0 ? ", " : "", b->shape[i]);
    append("]");
    if (scope && b->scope != Scope::kParam) append(" {}", to_text(b->scope));
  }

  // " {", the statements indented, "}" without a line end.
  void body(const Stmt& s) {
    append(" {{\n");
    ++indent_;
    stmt(s);
    --indent_;
    start_line();
    append("}}");
  }

  void access(const Buffer& b, const std::vector<Expr>& indices) {
    append("{}[", b ? names_.use(b.get(), b->name) : "<null>");
    list(indices);
    append("]");
  }

  void print(const IntImm& n, int) {
    const DType t = n.type.dtype;
    if (t == DType::kBool) return append("{}", n.value != 0);
    if (t == DType::kI64) return append("{}", n.value);
    if (t == DType::kU64) return append("{}u64", static_cast<std::uint64_t>(n.value));
    append("{}{}", n.value, tessera::to_text(t));
  }

  void print(const FloatImm& n, int) {
    const DType t = n.type.dtype;
    const char* type = t == DType::kF32 ? "" : tessera::to_text(t);
    if (!std::isfinite(n.value)) {
      const char* dot = t == DType::kF32 ? "" : ".";
      return append("{}{}{}{}", n.value < 0 ? "-" : "", type, dot,
                    std::isnan(n.value) ? "nan" : "inf");
    }
    std::string digits = t == DType::kF64 ? fmt::format("{}", n.value)
                                          : fmt::format("{}", static_cast<float>(n.value));
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    append("{}{}", digits, type);
  }

  void print(const Var& n, int) { append("{}", names_.use(&n, n.name)); }

  void print(const Binary& n, int min_precedence) {
    const int level = precedence(n.op);
    if (level == 0) {
      append("{}(", to_text(n.op));
      expr(n.a);
      append(", ");
      expr(n.b);
      return append(")");
    }
    const bool parens = level < min_precedence;
    if (parens) append("(");
    expr(n.a, level == kComparisonPrecedence ? level + 1 : level);
    append(" {} ", to_text(n.op));
    expr(n.b, level + 1);
    if (parens) append(")");
  }

  void print(const Select& n, int) {
    append("select(");
    list({n.cond, n.on_true, n.on_false});
    append(")");
  }

  void print(const Cast& n, int) {
    append("cast<{}>(", tessera::to_text(n.type.dtype));
    expr(n.value);
    append(")");
  }

  void print(const Load& n, int) { access(n.buffer, n.indices); }

  void print(const Ramp& n, int) {
    append("ramp(");
    expr(n.base);
    append(", {}, {})", n.stride, n.type.lanes);
  }

  void print(const Broadcast& n, int) {
    append("broadcast(");
    expr(n.value);
    append(", {})", n.type.lanes);
  }

  void print(const Shuffle& n, int) {
    append("shuffle(");
    expr(n.value);
    append(", [");
    for (std::size_t i = 0; i < n.picks.size(); ++i) append("{}{}", i > 0 ? ", " : "", n.picks[i]);
    append("])");
  }

  void print(const Call& n, int) {
    append("{}", to_text(n.fn));
    if (n.fn == Intrinsic::kBitcast) append("<{}>", tessera::to_text(n.type.dtype));
    append("(");
    list(n.args);
    append(")");
  }

  void print(const For& n) {
    start_line();
    append("{} ", to_text(n.loop_kind));
    const auto* var = n.var.as<Var>();
    const std::size_t before = out_.size();
    expr(n.extent);  // outside the scope of the variable
    const std::string extent = out_.substr(before);
    out_.resize(before);
    append("{} in {}", names_.bind(n.var.get(), var ? var->name : ""), extent);
    body(n.body);
    append("\n");
    names_.release(n.var.get());
  }

  void print(const Store& n) {
    start_line();
    access(n.buffer, n.indices);
    append(" = ");
    expr(n.value);
    append("\n");
  }

  void print(const Block& n) {
    for (const Stmt& s : n.stmts) stmt(s);
  }

  void print(const If& n) {
    start_line();
    append("if ");
    expr(n.cond);
    body(n.then_body);
    if (n.else_body) {
      append(" else");
      body(n.else_body);
    }
    append("\n");
  }

  void print(const Allocate& n) {
    start_line();
    append("alloc ");
    declare(n.buffer);
    body(n.body);
    append("\n");
    names_.release(n.buffer.get());
  }

  void print(const Evaluate& n) {
    start_line();
    append("eval ");
    expr(n.value);
    append("\n");
  }

  void print(const Barrier&) { line("barrier"); }

  std::string out_;
  Names names_;
  int indent_ = 0;
};

}  // namespace

std::string to_text(const Expr& e) {
  Printer printer;
  printer.expr(e);
  return printer.take();
}

std::string to_text(const Stmt& s) {
  Printer printer;
  printer.stmt(s);
  return printer.take();
}

std::string to_text(const Func& f) {
  Printer printer;
  printer.func(f);
  return printer.take();
}

std::string to_text(const DeviceProgram& p) {
  Printer printer;
  printer.device(p);
  return printer.take();
}

}  // namespace tessera::ir
