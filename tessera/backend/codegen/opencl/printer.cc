#include "tessera/backend/codegen/opencl/printer.h"

#include <cmath>
#include <map>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "tessera/backend/codegen/lane.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/shared_places.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/support/float_format.h"

namespace tessera::codegen {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Intrinsic;

bool is_small_float(DType t) { return compute_type(t) != t; }

// The type of a value; short floats are rounded floats.
std::string value_type(DType t) {
  if (is_small_float(t)) return "float";
  switch (t) {
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kBool:
      return "int";
    case DType::kI8:
      return "char";
    case DType::kI16:
      return "short";
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "long";
    case DType::kU8:
      return "uchar";
    case DType::kU16:
      return "ushort";
    case DType::kU32:
      return "uint";
    case DType::kU64:
      return "ulong";
    default:
      return "";
  }
}

std::string memory_type(DType t) {
  if (t == DType::kBool) return "uchar";
  if (!is_small_float(t)) return value_type(t);
  return size_bytes(t) == 1 ? "uchar" : "ushort";
}

std::string unsigned_type(DType t) {
  const std::string name = value_type(t);
  return is_signed_int(t) ? "u" + name : name;
}

// Rounds a float to the type it stands for.
std::string rounded(DType t, const std::string& value) {
  return is_small_float(t) ? fmt::format("tsr_{}({})", to_text(t), value) : value;
}

std::string bracketed(bool brackets, const std::string& text) {
  return brackets ? "(" + text + ")" : text;
}

std::string float_text(DType t, double v) {
  if (std::isnan(v)) return t == DType::kF64 ? "((double)NAN)" : "NAN";
  if (std::isinf(v)) {
    return fmt::format("({}{}INFINITY)", v < 0 ? "-" : "", t == DType::kF64 ? "(double)" : "");
  }
  return bracketed(v < 0, fmt::format("{:a}{}", v, t == DType::kF64 ? "" : "f"));
}

std::string int_text(DType t, std::int64_t v) {
  if (t == DType::kBool) return v != 0 ? "1" : "0";
  if (t == DType::kU64) return fmt::format("{}UL", static_cast<std::uint64_t>(v));
  if (t == DType::kI64 && v == INT64_MIN) return "(-9223372036854775807L - 1)";
  if (t == DType::kI64) return bracketed(v < 0, fmt::format("{}L", v));
  return fmt::format("(({}){}L)", value_type(t), v);
}

const char* math_name(Intrinsic fn) {
  switch (fn) {
    case Intrinsic::kRound:
      return "rint";
    case Intrinsic::kAbs:
      return "fabs";
    default:
      return ir::to_text(fn);
  }
}

class KernelPrinter {
 public:
  KernelPrinter(const ir::Launch& launch, const std::string& name) : launch_(launch), name_(name) {}

  Result<std::string> print() {
    head();
    indent_ = 1;
    stmt(launch_.body);
    out_ += "}\n";
    if (!failure_.empty())
      return make_error(ErrorCode::kUnsupported, "{}: {} in OpenCL C", launch_.name, failure_);
    return std::move(out_);
  }

 private:
  struct Place {
    std::string name, space;
  };

  void line(const std::string& text) {
    out_.append(static_cast<std::size_t>(2 * indent_), ' ');
    out_ += text + "\n";
  }

  std::string fresh(const std::string& hint) {
    std::string name;
    for (const char c : hint) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      name += plain ? c : '_';
    }
    return fmt::format("v{}_{}", next_++, name);
  }

  std::string fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
    return "0";
  }

  void head() {
    const auto& b = launch_.block;
    std::string arguments;
    const std::size_t inputs =
        launch_.params.size() - static_cast<std::size_t>(launch_.num_outputs);
    for (std::size_t i = 0; i < launch_.params.size(); ++i) {
      const ir::Buffer& p = launch_.params[i];
      const std::string name = fresh(p->name);
      places_[p.get()] = {name, "__global"};
      arguments += fmt::format("{}__global {}{}* restrict {}", i == 0 ? "" : ", ",
                               i < inputs ? "const " : "", memory_type(p->dtype), name);
    }
    out_ += fmt::format("__kernel __attribute__((reqd_work_group_size({}, {}, {})))\n", b[0], b[1],
                        b[2]);
    out_ += fmt::format("void {}({}) {{\n", name_, arguments);
    indent_ = 1;
    declare_shared();
    ir::for_each_expr(launch_.body, [&](const Expr& e) {
      if (!is_shuffle(e) || exchanges_.contains(value_type(e.dtype()))) return;
      const std::string name = fresh("exchange");
      exchanges_[value_type(e.dtype())] = name;
      line(fmt::format("__local {} {}[{}];", value_type(e.dtype()), name, launch_.threads()));
    });
    if (!exchanges_.empty()) {
      line(
          fmt::format("const int tsr_thread = (int)((get_local_id(2) * {} + get_local_id(1)) * {} "
                      "+ get_local_id(0));",
                      b[1], b[0]));
    }
    for (int d = 0; d < 3; ++d) {
      bind(launch_.block_vars[static_cast<std::size_t>(d)], fmt::format("get_group_id({})", d));
      bind(launch_.thread_vars[static_cast<std::size_t>(d)], fmt::format("get_local_id({})", d));
    }
  }

  void bind(const Expr& var, const std::string& value) {
    if (!var) return;
    const std::string name = fresh(var.as<ir::Var>()->name);
    vars_[var.get()] = name;
    line(fmt::format("const long {} = (long){};", name, value));
  }

  void declare_shared() {
    const ir::SharedPlaces places = ir::place_shared(launch_);
    if (!places.overlap) {
      for (const ir::Buffer& s : launch_.shared) declare(s, "__local");
      return;
    }
    const std::string all = fresh("shared");
    line(fmt::format("__local uchar {}[{}] __attribute__((aligned(128)));", all, places.bytes));
    for (std::size_t i = 0; i < launch_.shared.size(); ++i) {
      const ir::Buffer& b = launch_.shared[i];
      const std::string name = fresh(b->name), type = "__local " + memory_type(b->dtype) + "*";
      places_[b.get()] = {name, "__local"};
      line(fmt::format("{} const {} = ({})({} + {});", type, name, type, all, places.offsets[i]));
    }
  }

  void declare(const ir::Buffer& b, const std::string& space) {
    const std::string name = fresh(b->name);
    places_[b.get()] = {name, space};
    line(fmt::format("{} {} {}[{}] __attribute__((aligned(16)));",
                     space == "__private" ? "" : space, memory_type(b->dtype), name,
                     std::max<std::int64_t>(b.size(), 1)));
  }

  void stmt(const ir::Stmt& s) {
    if (!s || !failure_.empty()) return;
    switch (s.kind()) {
      case ir::StmtKind::kBlock:
        for (const ir::Stmt& child : s.as<ir::Block>()->stmts) stmt(child);
        return;
      case ir::StmtKind::kFor:
        return loop(*s.as<ir::For>());
      case ir::StmtKind::kIf:
        return branch(*s.as<ir::If>());
      case ir::StmtKind::kAllocate: {
        const auto* allocate = s.as<ir::Allocate>();
        line("{");
        ++indent_;
        declare(allocate->buffer, "__private");
        stmt(allocate->body);
        --indent_;
        return line("}");
      }
      case ir::StmtKind::kStore:
        return store(*s.as<ir::Store>());
      case ir::StmtKind::kEvaluate:
        return evaluate(s.as<ir::Evaluate>()->value);
      case ir::StmtKind::kBarrier:
        return line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
    }
  }

  void loop(const ir::For& f) {
    if (f.loop_kind != ir::LoopKind::kSerial && f.loop_kind != ir::LoopKind::kUnrolled) {
      fail(fmt::format("{} loop", ir::to_text(f.loop_kind)));
      return;
    }
    const std::string name = fresh(f.var.as<ir::Var>()->name);
    const std::string extent = whole(f.extent);
    vars_[f.var.get()] = name;
    if (f.loop_kind == ir::LoopKind::kUnrolled) line("#pragma unroll");
    line(fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", name, extent));
    ++indent_;
    stmt(f.body);
    --indent_;
    line("}");
  }

  void branch(const ir::If& f) {
    line(fmt::format("if ({}) {{", whole(f.cond)));
    ++indent_;
    ++branches_;
    stmt(f.then_body);
    --indent_;
    if (f.else_body) {
      line("} else {");
      ++indent_;
      stmt(f.else_body);
      --indent_;
    }
    --branches_;
    line("}");
  }

  // Asynchronous copies are made at once; there is nothing to wait for then.
  void evaluate(const Expr& e) {
    const auto* call = e.as<ir::Call>();
    if (call && call->fn == Intrinsic::kAsyncWait && call->args.size() > 1)
      return line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
    if (!call || call->fn != Intrinsic::kAsyncCopy) return;
    const auto* to = call->args[0].as<ir::Load>();
    const ir::Stmt copy = ir::Store::make(to->buffer, to->indices, call->args[1]);
    store(*copy.as<ir::Store>());
  }

  std::string index(const ir::Buffer& b, const std::vector<Expr>& indices) {
    std::string text;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const std::string i = expr(indices[d]);
      text = d == 0 ? i : fmt::format("({} * {}L + {})", text, b->shape[d], i);
    }
    return text.empty() ? "0" : text;
  }

  // First of a run of neighbours, or null.
  static const ir::Ramp* dense(const std::vector<Expr>& indices) {
    const auto* ramp = indices.empty() ? nullptr : indices.back().as<ir::Ramp>();
    return ramp && ramp->stride == 1 ? ramp : nullptr;
  }

  std::string address(const ir::Buffer& b, std::vector<Expr> indices, const ir::Ramp& ramp) {
    indices.back() = ramp.base;
    return fmt::format("{} + {}", places_[b.get()].name, index(b, indices));
  }

  void store(const ir::Store& s) {
    const int lanes = s.value.lanes();
    begin(s.value);
    if (lanes == 1) {
      const std::string value = expr(s.value);
      return line(store_text(s.buffer, index(s.buffer, s.indices), value));
    }
    const auto* from = s.value.as<ir::Load>();
    const ir::Ramp *to_run = dense(s.indices), *from_run = from ? dense(from->indices) : nullptr;
    const bool copies = to_run && from_run && from->buffer->dtype == s.buffer->dtype &&
                        (lanes == 2 || lanes == 4 || lanes == 8 || lanes == 16);
    if (copies) {
      const std::string source = address(from->buffer, from->indices, *from_run);
      return line(fmt::format("vstore{0}(vload{0}(0, {1}), 0, {2});", lanes, source,
                              address(s.buffer, s.indices, *to_run)));
    }
    // All lanes are read before the first is written.
    std::vector<std::string> values, at;
    for (int lane = 0; lane < lanes; ++lane) {
      const auto value = lane_of(s.value, lane);
      std::vector<Expr> indices = s.indices;
      for (Expr& i : indices) i = i.lanes() == 1 ? i : lane_of(i, lane).value_or(Expr());
      if (!value || !indices.back()) {
        fail("a product of vectors");
        return;
      }
      values.push_back(fresh("lane"));
      begin(*value);
      const std::string text = expr(*value);
      line(fmt::format("const {} {} = {};", value_type(value->dtype()), values.back(), text));
      at.push_back(index(s.buffer, indices));
      keep_alive_.push_back(*value);
    }
    for (std::size_t i = 0; i < values.size(); ++i) line(store_text(s.buffer, at[i], values[i]));
  }

  std::string store_text(const ir::Buffer& b, const std::string& index, const std::string& value) {
    const Place& place = places_[b.get()];
    if (b->dtype == DType::kF16) {
      return fmt::format("vstore_half_rte({}, {}, ({} half*){});", value, index, place.space,
                         place.name);
    }
    if (is_small_float(b->dtype))
      return fmt::format("{}[{}] = tsr_{}_bits({});", place.name, index, to_text(b->dtype), value);
    return fmt::format("{}[{}] = {};", place.name, index, value);
  }

  // Parts of a statement that are used more than once get a name; not those that may not be
  // evaluated at all.
  void begin(const Expr& e) {
    uses_.clear();
    names_.clear();
    ir::for_each_expr(e, [&](const Expr& part) {
      if (is_shuffle(part) && !names_.contains(part.get())) exchange(part);
    });
    count(e);
  }

  static bool is_shuffle(const Expr& e) {
    const auto* call = e.as<ir::Call>();
    return call && call->fn == Intrinsic::kShuffleXor;
  }

  // OpenCL 1.2 has no exchange of registers: it goes through local memory, and all threads take
  // part.
  void exchange(const Expr& shuffle) {
    if (branches_ > 0) {
      fail("shuffle_xor in a branch");
      return;
    }
    const auto& args = shuffle.as<ir::Call>()->args;
    const std::string type = value_type(shuffle.dtype()), memory = exchanges_[type];
    const std::string name = fresh("other"), value = expr(args[0]), mask = expr(args[1]);
    line(fmt::format("{}[tsr_thread] = {};", memory, value));
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    line(fmt::format("const {} {} = {}[tsr_thread ^ (int){}];", type, name, memory, mask));
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    names_[shuffle.get()] = name;
  }

  std::string whole(const Expr& e) {
    begin(e);
    return expr(e);
  }

  void count(const Expr& e) {
    if (++uses_[e.get()] > 1) return;
    if (const auto* select = e.as<ir::Select>()) return count(select->cond);
    if (const auto* binary = e.as<ir::Binary>()) {
      count(binary->a);
      count(binary->b);
    } else if (const auto* cast = e.as<ir::Cast>()) {
      count(cast->value);
    } else if (const auto* call = e.as<ir::Call>()) {
      for (const Expr& arg : call->args) count(arg);
    }
  }

  std::string expr(const Expr& e) {
    if (const auto known = names_.find(e.get()); known != names_.end()) return known->second;
    const auto uses = uses_.find(e.get());
    const bool shared = lazy_ == 0 && uses != uses_.end() && uses->second > 1 && e.lanes() == 1 &&
                        (e.as<ir::Binary>() || e.as<ir::Call>() || e.as<ir::Cast>());
    const std::string text = node(e);
    if (!shared) return text;
    const std::string name = fresh("t");
    line(fmt::format("const {} {} = {};", value_type(e.dtype()), name, text));
    return names_[e.get()] = name;
  }

  std::string node(const Expr& e) {
    if (e.lanes() != 1) return fail("a vector");
    switch (e.kind()) {
      case ir::ExprKind::kIntImm:
        return int_text(e.dtype(), e.as<ir::IntImm>()->value);
      case ir::ExprKind::kFloatImm:
        return float_text(e.dtype(), e.as<ir::FloatImm>()->value);
      case ir::ExprKind::kVar: {
        const auto found = vars_.find(e.get());
        return found != vars_.end() ? found->second : fail("a variable that is not bound");
      }
      case ir::ExprKind::kBinary:
        return binary(*e.as<ir::Binary>());
      case ir::ExprKind::kSelect: {
        const auto* s = e.as<ir::Select>();
        const std::string cond = expr(s->cond);
        ++lazy_;
        const std::string a = expr(s->on_true), b = expr(s->on_false);
        --lazy_;
        return fmt::format("({} ? {} : {})", cond, a, b);
      }
      case ir::ExprKind::kCast:
        return cast(e.as<ir::Cast>()->value, e.dtype());
      case ir::ExprKind::kLoad:
        return load(*e.as<ir::Load>());
      case ir::ExprKind::kCall:
        return call(*e.as<ir::Call>());
      case ir::ExprKind::kShuffle: {
        const auto* shuffle = e.as<ir::Shuffle>();
        const auto lane = lane_of(shuffle->value, shuffle->picks[0]);
        if (!lane) return fail("a product of vectors");
        keep_alive_.push_back(*lane);
        return expr(*lane);
      }
      case ir::ExprKind::kRamp:
      case ir::ExprKind::kBroadcast:
        break;
    }
    return fail("a vector");
  }

  std::string load(const ir::Load& l) {
    const auto found = places_.find(l.buffer.get());
    if (found == places_.end()) return fail("a buffer that is not in scope");
    const Place& place = found->second;
    const std::string at = index(l.buffer, l.indices);
    const DType t = l.buffer->dtype;
    if (t == DType::kF16)
      return fmt::format("vload_half({}, (const {} half*){})", at, place.space, place.name);
    const std::string value = fmt::format("{}[{}]", place.name, at);
    if (t == DType::kBool) return fmt::format("({} != 0)", value);
    return is_small_float(t) ? fmt::format("tsr_{}_float({})", to_text(t), value) : value;
  }

  std::string binary(const ir::Binary& n) {
    const DType t = n.a.dtype();
    const std::string a = expr(n.a), b = expr(n.b);
    const auto infix = [&](const char* op) { return fmt::format("({} {} {})", a, op, b); };
    // Numbers wrap: signed ones would be undefined beyond their range.
    const auto wrapping = [&](const char* op) {
      if (is_float(t)) return rounded(t, infix(op));
      if (t == DType::kBool) return infix(op[0] == '+' ? "|" : op[0] == '-' ? "^" : "&");
      const std::string u = unsigned_type(t);
      return fmt::format("(({0})(({1}){2} {3} ({1}){4}))", value_type(t), u, a, op, b);
    };
    const auto named = [&](const char* op) {
      const std::string type = value_type(t);
      return fmt::format("tsr_{}_{}({}, {})", op, type, a, b);
    };
    switch (n.op) {
      case BinaryOp::kAdd:
        return wrapping("+");
      case BinaryOp::kSub:
        return wrapping("-");
      case BinaryOp::kMul:
        return wrapping("*");
      case BinaryOp::kDiv:
        return is_float(t) ? rounded(t, infix("/")) : named("div");
      case BinaryOp::kMod:
        return is_float(t) ? rounded(t, fmt::format("fmod({}, {})", a, b)) : named("mod");
      case BinaryOp::kFloorDiv:
        return named("floordiv");
      case BinaryOp::kFloorMod:
        return named("floormod");
      case BinaryOp::kMin:
        return is_float(t) ? named("min") : fmt::format("min({}, {})", a, b);
      case BinaryOp::kMax:
        return is_float(t) ? named("max") : fmt::format("max({}, {})", a, b);
      case BinaryOp::kAnd:
        return infix("&");
      case BinaryOp::kOr:
        return infix("|");
      case BinaryOp::kXor:
        return infix("^");
      case BinaryOp::kShl:
        return fmt::format("(({0})(({1}){2} << ({3} & {4})))", value_type(t), unsigned_type(t), a,
                           b, size_bytes(t) * 8 - 1);
      case BinaryOp::kShr:
        return fmt::format("(({0})({1} >> ({2} & {3})))", value_type(t), a, b,
                           size_bytes(t) * 8 - 1);
      case BinaryOp::kEq:
        return infix("==");
      case BinaryOp::kNe:
        return infix("!=");
      case BinaryOp::kLt:
        return infix("<");
      case BinaryOp::kLe:
        return infix("<=");
    }
    return fail("an operation");
  }

  std::string cast(const Expr& value, DType to) {
    const DType from = value.dtype();
    const std::string v = expr(value);
    if (from == to) return v;
    if (to == DType::kBool) return fmt::format("({} != 0)", v);
    if (is_float(from) && !is_float(to))
      return fmt::format("convert_{}_sat({})", value_type(to), v);
    if (is_float(to)) return rounded(to, fmt::format("convert_{}({})", value_type(to), v));
    return fmt::format("(({}){})", value_type(to), v);
  }

  std::string call(const ir::Call& c) {
    if (c.fn == Intrinsic::kPrefetch) return "0L";
    const DType t = c.args.empty() ? c.type.dtype : c.args[0].dtype();
    const auto arg = [&](std::size_t i) { return expr(c.args[i]); };
    switch (c.fn) {
      case Intrinsic::kNot:
        return fmt::format("({}{})", t == DType::kBool ? "!" : "~", arg(0));
      case Intrinsic::kIsNan:
        return is_float(t) ? fmt::format("(isnan({}) != 0)", arg(0)) : "0";
      case Intrinsic::kIsInf:
        return is_float(t) ? fmt::format("(isinf({}) != 0)", arg(0)) : "0";
      case Intrinsic::kBitcast:
        if (is_small_float(t) || is_small_float(c.type.dtype))
          return fail("bitcast of f16 or bf16");
        return fmt::format("as_{}({})", value_type(c.type.dtype), arg(0));
      case Intrinsic::kAbs:
        if (!is_float(t)) return fmt::format("(({})abs({}))", value_type(t), arg(0));
        break;
      case Intrinsic::kDot4:
      case Intrinsic::kDot2:
      case Intrinsic::kMma2x8:
      case Intrinsic::kMma2x4:
      case Intrinsic::kTileZero:
      case Intrinsic::kTileLoad:
      case Intrinsic::kTileDot:
      case Intrinsic::kTileStore:
      case Intrinsic::kShuffleXor:
      case Intrinsic::kAsyncCopy:
      case Intrinsic::kAsyncCommit:
      case Intrinsic::kAsyncWait:
      case Intrinsic::kProductsWait:
      case Intrinsic::kMatrixRows:
      case Intrinsic::kMatrixColumns:
      case Intrinsic::kMma:
        return fail(ir::to_text(c.fn));
      default:
        break;
    }
    if (!is_float(t)) return fail(fmt::format("{} of {}", ir::to_text(c.fn), to_text(t)));
    std::string text = fmt::format("{}(", math_name(c.fn));
    for (std::size_t i = 0; i < c.args.size(); ++i) text += (i == 0 ? "" : ", ") + arg(i);
    return rounded(t, text + ")");
  }

  const ir::Launch& launch_;
  const std::string& name_;
  std::string out_, failure_;
  int indent_ = 0, next_ = 0;
  int lazy_ = 0;                                  // > 0 inside a side of a select
  int branches_ = 0;                              // around the statement
  std::map<std::string, std::string> exchanges_;  // local memory, by the type of its values
  std::unordered_map<const ir::ExprNode*, std::string> vars_, names_;
  std::unordered_map<const ir::ExprNode*, int> uses_;
  std::unordered_map<const ir::BufferNode*, Place> places_;
  std::vector<Expr> keep_alive_;  // maps above hold bare nodes
};

// encode() and decode() of float_format.h for the type.
std::string conversions_of(DType t) {
  const FloatFormat& f = float_format(t);
  const char* name = to_text(t);
  std::string to_bits, to_float;
  const std::uint32_t half = (1U << (f.shift() - 1)) - 1;
  if (!f.has_range_of_f32()) {
    to_bits =
        fmt::format("  if (m < {0}u) return s | (as_uint(as_float(m) + as_float({1}u)) - {1}u);\n",
                    f.rebias() + 0x800000U, f.subnormal_one());
    to_float = fmt::format(
        "  if (m >= {}u) return as_float(s | {});\n"
        "  if (m < {}u) return as_float(s | as_uint((float)m * {:a}f));\n",
        f.overflow(),
        f.infinities ? fmt::format("0x7f800000u | m << {}", f.shift()) : "0x7fc00000u",
        1U << f.fraction_bits(), f.smallest());
  }
  return fmt::format(
      "{0} tsr_{1}_bits(float x) {{\n"
      "  const uint m = as_uint(x) & 0x7fffffffu, s = (as_uint(x) ^ m) >> {2};\n"
      "  if (m > 0x7f800000u) return s | {3}u{4};\n{5}"
      "  return s | min((m + {6}u + (m >> {7} & 1u)) >> {7}, {8}u);\n"
      "}}\n"
      "float tsr_{1}_float(uint b) {{\n"
      "  const uint m = b & {9}u, s = (b ^ m) << {2};\n{10}"
      "  return as_float(s | ((m << {7}) + {11}u));\n"
      "}}\n"
      "float tsr_{1}(float x) {{ return tsr_{1}_float(tsr_{1}_bits(x)); }}\n",
      memory_type(t), name, 32 - f.bits, f.nan(),
      f.infinities ? fmt::format(" | (m & 0x7fffffu) >> {}", f.shift()) : "", to_bits,
      half - f.rebias(), f.shift(), f.overflow(), f.sign() - 1, to_float, f.rebias());
}

}  // namespace

Result<std::string> print_opencl(const ir::Launch& launch, const std::string& name) {
  return KernelPrinter(launch, name).print();
}

bool uses_f64(const ir::Launch& launch) {
  bool found = false;
  for (const ir::Buffer& b : launch.params) found = found || b->dtype == DType::kF64;
  ir::for_each_expr(launch.body, [&](const Expr& e) { found = found || e.dtype() == DType::kF64; });
  return found;
}

std::string opencl_prelude(bool has_f64) {
  std::string text;
  if (has_f64) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  text +=
      "float tsr_f16(float x) {\n"
      "  ushort h;\n"
      "  vstore_half_rte(x, 0, (half*)&h);\n"
      "  return vload_half(0, (const half*)&h);\n"
      "}\n" +
      conversions_of(DType::kBF16) + conversions_of(DType::kF8E4M3) +
      conversions_of(DType::kF8E5M2) +
      "#define TSR_FLOAT(T) \\\n"
      "  T tsr_min_##T(T a, T b) { return isnan(a) ? a : isnan(b) ? b : fmin(a, b); } \\\n"
      "  T tsr_max_##T(T a, T b) { return isnan(a) ? a : isnan(b) ? b : fmax(a, b); }\n"
      "TSR_FLOAT(float)\n";
  if (has_f64) text += "TSR_FLOAT(double)\n";
  text +=
      "#define TSR_UNSIGNED(T) \\\n"
      "  T tsr_div_##T(T a, T b) { return b == 0 ? 0 : a / b; } \\\n"
      "  T tsr_mod_##T(T a, T b) { return b == 0 ? 0 : a % b; } \\\n"
      "  T tsr_floordiv_##T(T a, T b) { return tsr_div_##T(a, b); } \\\n"
      "  T tsr_floormod_##T(T a, T b) { return tsr_mod_##T(a, b); }\n"
      "#define TSR_SIGNED(T, U) \\\n"
      "  T tsr_div_##T(T a, T b) { return b == 0 ? 0 : b == -1 ? (T)(-(U)a) : a / b; } \\\n"
      "  T tsr_mod_##T(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; } \\\n"
      "  T tsr_floordiv_##T(T a, T b) { \\\n"
      "    const T q = tsr_div_##T(a, b), r = tsr_mod_##T(a, b); \\\n"
      "    return q - (r != 0 && (r ^ b) < 0 ? 1 : 0); \\\n"
      "  } \\\n"
      "  T tsr_floormod_##T(T a, T b) { \\\n"
      "    const T r = tsr_mod_##T(a, b); \\\n"
      "    return r != 0 && (r ^ b) < 0 ? r + b : r; \\\n"
      "  }\n";
  for (const char* t : {"char", "short", "int", "long"})
    text += fmt::format("TSR_UNSIGNED(u{0})\nTSR_SIGNED({0}, u{0})\n", t);
  return text;
}

}  // namespace tessera::codegen
