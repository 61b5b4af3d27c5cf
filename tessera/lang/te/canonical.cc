#include "tessera/lang/te/canonical.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "tessera/lang/ir/visitor.h"
#include "tessera/support/hash.h"

namespace tessera::te {
namespace {

using ir::Expr;

constexpr std::size_t kLongestName = 60;
// Buffers that so many rounds of looking at what they are made of and read by do not tell apart
// keep their order.
constexpr int kRounds = 4;

bool is_commutative(ir::BinaryOp op) {
  using enum ir::BinaryOp;
  switch (op) {
    case kAdd:
    case kMul:
    case kMin:
    case kMax:
    case kAnd:
    case kOr:
    case kXor:
      return true;
    default:
      return false;
  }
}

// The buffers that expressions read, each looked at once: transforms are long sums.
class Reads {
 public:
  const std::set<ir::Buffer>& of(const Expr& e) {
    const auto known = known_.try_emplace(e.get());
    std::set<ir::Buffer>& buffers = known.first->second;
    if (!known.second) return buffers;
    if (const auto* binary = e.as<ir::Binary>()) {
      buffers = of(binary->a);
      for (const ir::Buffer& b : of(binary->b)) buffers.insert(b);
      return buffers;
    }
    ir::for_each_expr(e, [&](const Expr& x) {
      if (const auto* load = x.as<ir::Load>()) buffers.insert(load->buffer);
    });
    return buffers;
  }

 private:
  std::map<const ir::ExprNode*, std::set<ir::Buffer>> known_;
};

bool have_common(const std::set<ir::Buffer>& a, const std::set<ir::Buffer>& b) {
  return std::any_of(a.begin(), a.end(), [&](const ir::Buffer& x) { return b.contains(x); });
}

using Colours = std::map<ir::Buffer, std::uint64_t>;

// Where the text of an operation names the colour of a buffer.
struct Spot {
  std::size_t at;
  ir::Buffer buffer;
};

// The text of an expression without names: axes by position, buffers by colour.
class Signature {
 public:
  Signature(const Op& op, const Colours& colours, Reads& reads) : colours_(colours), reads_(reads) {
    int n = 0;
    for (const auto* axes : {&op.axes, &op.reduce_axes}) {
      for (const Axis& a : *axes) axes_[a.var.get()] = n++;
    }
    for (const Expr& value : op.values) roots_.insert(value.get());
  }

  std::string operator()(const Expr& e) const {
    std::string text;
    write(e, text);
    return text;
  }

  // Where operands commute, the order of `before` decides, whatever is written.
  void write(const Expr& e, std::string& out, std::vector<Spot>* spots = nullptr) const {
    const auto to = std::back_inserter(out);
    switch (e.kind()) {
      case ir::ExprKind::kIntImm: {
        const fmt::format_int value(e.as<ir::IntImm>()->value);
        out += to_text(e.dtype());
        out += ':';
        out.append(value.data(), value.size());
        return;
      }
      case ir::ExprKind::kFloatImm:
        fmt::format_to(to, "{}:{}", to_text(e.dtype()), e.as<ir::FloatImm>()->value);
        return;
      case ir::ExprKind::kVar: {
        const auto it = axes_.find(e.get());
        if (it == axes_.end()) {
          out += e.as<ir::Var>()->name;
        } else {
          const fmt::format_int number(it->second);
          out += it->second < 10 ? "#0" : "#";
          out.append(number.data(), number.size());
        }
        return;
      }
      case ir::ExprKind::kBinary: {
        const auto* b = e.as<ir::Binary>();
        const bool swap = swapped(*b);
        out += ir::to_text(b->op);
        return write_list({swap ? b->b : b->a, swap ? b->a : b->b}, out, spots);
      }
      case ir::ExprKind::kSelect: {
        const auto* s = e.as<ir::Select>();
        out += "select";
        return write_list({s->cond, s->on_true, s->on_false}, out, spots);
      }
      case ir::ExprKind::kCast:
        out += to_text(e.dtype());
        return write_list({e.as<ir::Cast>()->value}, out, spots);
      case ir::ExprKind::kLoad: {
        const auto* load = e.as<ir::Load>();
        if (spots) spots->push_back({out.size(), load->buffer});
        out += to_hex(colours_.at(load->buffer));
        return write_list(load->indices, out, spots, "[]");
      }
      case ir::ExprKind::kCall: {
        const auto* call = e.as<ir::Call>();
        fmt::format_to(to, "{}:{}", ir::to_text(call->fn), to_text(e.dtype()));
        return write_list(call->args, out, spots);
      }
      default:
        out += "vector";  // verify() refuses vectors
    }
  }

  // What an operator writes by itself (a transform of one tensor) stays; operands of the graph are
  // different tensors, or a tensor and a number.
  bool swapped(const ir::Binary& node) const { return may_swap(node) && before(node.b, node.a); }
  bool may_swap(const ir::Binary& node) const {
    if (!is_commutative(node.op)) return false;
    const std::set<ir::Buffer>&a = reads_.of(node.a), &b = reads_.of(node.b);
    const bool number = a.empty() != b.empty() && roots_.contains(&node);
    const bool tensors = !a.empty() && !b.empty() && !have_common(a, b);
    return number || tensors;
  }

 private:
  void write_list(const std::vector<Expr>& list, std::string& out, std::vector<Spot>* spots,
                  const char* brackets = "()") const {
    out += brackets[0];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ',';
      write(list[i], out, spots);
    }
    out += brackets[1];
  }

  // What is computed comes before what is given, that before constants, numbers last. Then the
  // operand that runs along the earlier axes, as products are written.
  bool before(const Expr& a, const Expr& b) const {
    const auto place_a = place(a), place_b = place(b);
    return place_a != place_b ? place_a < place_b : (*this)(a) < (*this)(b);
  }

  std::pair<int, std::string> place(const Expr& e) const {
    int rank = 3;
    std::string indices;
    ir::for_each_expr(e, [&](const Expr& x) {
      const auto* load = x.as<ir::Load>();
      if (!load) return;
      rank = std::min(rank, static_cast<int>(colours_.at(load->buffer) >> 62));
      for (std::size_t i = 0; i < load->indices.size(); ++i) {
        if (i > 0) indices += ',';
        write(load->indices[i], indices);
      }
      indices += ';';
    });
    return {rank, std::move(indices)};
  }

  const Colours& colours_;
  Reads& reads_;
  std::map<const ir::ExprNode*, int> axes_;
  std::set<const ir::ExprNode*> roots_;  // values of the operation
};

// Colours say what a buffer is made of and what reads it; their highest two bits its rank.
class Painter {
 public:
  Painter(const Dag& dag, Reads& reads) : dag_(dag), reads_(reads) {
    for (const Input& in : dag.inputs) {
      rank_[in.buffer] = in.constant ? 2 : 1;
    }
    for (const Op& op : dag.ops) {
      for (const ir::Buffer& out : op.outputs) rank_[out] = 0;
    }
    for (const auto& [buffer, rank] : rank_) {
      paint(buffer, fmt::format("{} [{}] {}", to_text(buffer->dtype), fmt::join(buffer->shape, ","),
                                dag.is_output(buffer)));
    }
  }

  Colours run() {
    for (int round = 0; round < kRounds; ++round) {
      for (const Op& op : dag_.ops) look_up(op);
      look_down();
    }
    return std::move(colours_);
  }

 private:
  void paint(const ir::Buffer& buffer, const std::string& text) {
    colours_[buffer] = (hash_bytes(text) >> 2) | (rank_.at(buffer) << 62);
  }

  struct Written {
    std::string text;
    std::vector<Spot> spots;
  };

  Written write(const Op& op) {
    Written out;
    std::string& text = out.text = to_text(op.reducer);
    for (const auto* axes : {&op.axes, &op.reduce_axes}) {
      text += " /";
      for (const Axis& a : *axes) text += fmt::format(" {}", a.extent);
    }
    const Signature signature(op, colours_, reads_);
    for (const Expr& value : op.values) {
      text += " | ";
      signature.write(value, text, &out.spots);
    }
    return out;
  }

  // As the colours are now. Where operands keep their order, they alone change between rounds.
  const Written& describe(const Op& op) {
    const auto [it, added] = written_.try_emplace(&op);
    if (added || !keeps_order(op)) return it->second = write(op);
    for (const Spot& spot : it->second.spots) {
      const std::string colour = to_hex(colours_.at(spot.buffer));
      it->second.text.replace(spot.at, colour.size(), colour);
    }
    return it->second;
  }

  void look_up(const Op& op) {
    const std::string& text = describe(op).text;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      paint(op.outputs[i], fmt::format("{} {:x} {}", i, colours_.at(op.outputs[i]), text));
    }
  }

  void look_down() {
    std::map<ir::Buffer, std::vector<std::string>> uses;
    for (const Op& op : dag_.ops) {
      const std::string made = fmt::format("{:x} ", colours_.at(op.outputs[0]));
      if (keeps_order(op)) {
        note_uses(op, made, uses);
        continue;
      }
      std::set<ir::Buffer> read;
      for (const Expr& value : op.values) {
        const std::set<ir::Buffer>& buffers = reads_.of(value);
        read.insert(buffers.begin(), buffers.end());
      }
      for (const ir::Buffer& b : read) {
        const std::uint64_t colour = std::exchange(colours_.at(b), rank_.at(b) << 62);
        uses[b].push_back(made + describe(op).text);
        colours_.at(b) = colour;
      }
    }
    Colours next = colours_;
    for (auto& [buffer, list] : uses) {
      std::sort(list.begin(), list.end());
      const std::string text = fmt::format("{:x} {}", colours_.at(buffer), fmt::join(list, " ; "));
      next[buffer] = (hash_bytes(text) >> 2) | (rank_.at(buffer) << 62);
    }
    colours_ = std::move(next);
  }

  // Whatever the colours, its operands stay where they are written.
  bool keeps_order(const Op& op) {
    const auto [it, added] = keeps_order_.try_emplace(&op, true);
    bool& keeps = it->second;
    if (!added) return keeps;
    const Signature signature(op, colours_, reads_);
    for (const Expr& value : op.values) {
      ir::for_each_expr(value, [&](const Expr& e) {
        const auto* b = e.as<ir::Binary>();
        if (b && keeps && signature.may_swap(*b)) keeps = false;
      });
    }
    return keeps;
  }

  // One text with the colour of each buffer blanked in turn.
  void note_uses(const Op& op, const std::string& made,
                 std::map<ir::Buffer, std::vector<std::string>>& uses) {
    const Written& written = describe(op);
    std::map<ir::Buffer, std::vector<std::size_t>> places;
    for (const Spot& spot : written.spots) places[spot.buffer].push_back(made.size() + spot.at);
    for (const auto& [buffer, list] : places) {
      std::string marked = made + written.text;
      const std::string colour = to_hex(rank_.at(buffer) << 62);
      for (const std::size_t at : list) marked.replace(at, colour.size(), colour);
      uses[buffer].push_back(std::move(marked));
    }
  }

  const Dag& dag_;
  Reads& reads_;
  std::map<const Op*, bool> keeps_order_;
  std::map<const Op*, Written> written_;
  std::map<ir::Buffer, std::uint64_t> rank_;  // 0: computed, 1: given, 2: constant
  Colours colours_;
};

// Swaps operands that commute.
class Reorder final : public ir::Mutator {
 public:
  explicit Reorder(const Signature& signature) : signature_(signature) {}

 private:
  using ir::Mutator::rewrite;
  Expr rewrite(const Expr& e, const ir::Binary& node) override {
    if (!signature_.swapped(node)) return Mutator::rewrite(e, node);
    return ir::Binary::make(node.op, (*this)(node.b), (*this)(node.a));
  }
  const Signature& signature_;
};

class Replace final : public ir::Mutator {
 public:
  explicit Replace(const std::map<ir::Buffer, ir::Buffer>& buffers) : buffers_(buffers) {}

 private:
  using ir::Mutator::rewrite;
  Expr rewrite(const Expr& e, const ir::Load& load) override {
    const Expr same = Mutator::rewrite(e, load);
    const auto it = buffers_.find(load.buffer);
    return it == buffers_.end() ? same : ir::Load::make(it->second, same.as<ir::Load>()->indices);
  }
  const std::map<ir::Buffer, ir::Buffer>& buffers_;
};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_numbered_input(std::string_view name) {
  return name.starts_with("p") && is_digits(name.substr(1));
}

// "add_2.max" is of stage "add_2", a further "add".
std::string stage_of(const std::string& name) { return name.substr(0, name.find('.')); }

std::string base_of(const std::string& stage) {
  const std::size_t bar = stage.rfind('_');
  const bool numbered = bar != std::string::npos && is_digits(stage.substr(bar + 1));
  return numbered ? stage.substr(0, bar) : stage;
}

class Canonicalizer {
 public:
  explicit Canonicalizer(const Dag& dag) : dag_(dag), colours_(Painter(dag, reads_).run()) {}

  Canonical run() {
    for (const Op& op : dag_.ops) {
      const Signature signature(op, colours_, reads_);
      Op& sorted = sorted_.emplace_back(op);
      for (Expr& value : sorted.values) value = Reorder(signature)(value);
      for (const ir::Buffer& out : op.outputs) producer_[out] = sorted_.size() - 1;
    }
    for (std::size_t i = 0; i < dag_.inputs.size(); ++i) input_[dag_.inputs[i].buffer] = i;
    for (const ir::Buffer& out : dag_.outputs) visit(out);
    for (const Op& op : dag_.ops) visit(op.outputs[0]);  // what no output needs
    for (std::size_t i = 0; i < dag_.inputs.size(); ++i) visit_input(i);
    name_inputs();
    name_stages();
    replace();
    return std::move(out_);
  }

 private:
  void visit(const ir::Buffer& buffer) {
    const auto it = producer_.find(buffer);
    if (it == producer_.end()) {
      if (const auto input = input_.find(buffer); input != input_.end()) visit_input(input->second);
      return;
    }
    if (!visited_.insert(it->second).second) return;
    const Op& op = sorted_[it->second];
    for (const Expr& value : op.values) {
      ir::for_each_expr(value, [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) visit(load->buffer);
      });
    }
    order_.push_back(it->second);
  }

  void visit_input(std::size_t i) {
    if (visited_inputs_.insert(i).second) out_.inputs.push_back(i);
  }

  // Names that someone chose stay, and so does their order.
  void name_inputs() {
    numbered_ = std::all_of(dag_.inputs.begin(), dag_.inputs.end(),
                            [](const Input& in) { return is_numbered_input(in.buffer->name); });
    if (!numbered_) std::sort(out_.inputs.begin(), out_.inputs.end());
    for (std::size_t i = 0; i < out_.inputs.size() && numbered_; ++i) {
      note(dag_.inputs[out_.inputs[i]].buffer->name, fmt::format("p{}", i));
    }
  }

  void name_stages() {
    out_.dag.name = dag_.name;
    if (!numbered_) return;
    std::map<std::string, std::string> known;
    std::map<std::string, int> count;
    std::string name;
    for (const std::size_t n : order_) {
      const std::string stage = stage_of(sorted_[n].name), base = base_of(stage);
      if (known.contains(stage)) continue;
      const int number = ++count[base];
      known[stage] = number == 1 ? base : fmt::format("{}_{}", base, number);
      note(stage, known[stage]);
      if (name.size() > kLongestName) continue;
      name += (name.empty() ? "" : "+") + base;
      if (name.size() > kLongestName) name += "+...";
    }
    if (!name.empty()) out_.dag.name = name;
  }

  void note(const std::string& old, const std::string& name) {
    if (old != name) out_.renamed[old] = name;
  }

  void replace() {
    std::map<ir::Buffer, ir::Buffer> buffers;
    const auto renamed = [&](const ir::Buffer& b) {
      const std::string name = rename(b->name, out_.renamed);
      if (name == b->name) return b;
      return buffers[b] = ir::Buffer::make(name, b->dtype, b->shape, b->scope);
    };
    for (const std::size_t i : out_.inputs) {
      out_.dag.inputs.push_back({renamed(dag_.inputs[i].buffer), dag_.inputs[i].constant});
    }
    for (const std::size_t n : order_) {
      Op op = sorted_[n];
      op.name = rename(op.name, out_.renamed);
      for (ir::Buffer& out : op.outputs) out = renamed(out);
      for (Expr& value : op.values) value = Replace(buffers)(value);
      out_.dag.ops.push_back(std::move(op));
    }
    for (const ir::Buffer& out : dag_.outputs) {
      const auto it = buffers.find(out);
      out_.dag.outputs.push_back(it == buffers.end() ? out : it->second);
    }
  }

  const Dag& dag_;
  Reads reads_;
  Colours colours_;
  std::vector<Op> sorted_;
  std::map<ir::Buffer, std::size_t> producer_;
  std::map<ir::Buffer, std::size_t> input_;
  std::set<std::size_t> visited_, visited_inputs_;
  std::vector<std::size_t> order_;
  bool numbered_ = false;  // names follow from the structure; else someone chose them
  Canonical out_;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

double points_of(const Op& op) {
  double points = 1;
  for (const auto* axes : {&op.axes, &op.reduce_axes}) {
    for (const Axis& a : *axes) points *= static_cast<double>(a.extent);
  }
  return points;
}

}  // namespace

Canonical canonicalize(const Dag& dag) { return Canonicalizer(dag).run(); }

std::string rename(std::string_view text, const std::map<std::string, std::string>& renamed) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string word(text.substr(at, end - at));
    // Behind a dot is a part of a stage (softmax.max), or an input that a decision is about.
    const bool whole = at == 0 || text[at - 1] != '.' || is_numbered_input(word);
    const auto it = whole ? renamed.find(word) : renamed.end();
    out += it == renamed.end() ? word : it->second;
    at = end;
  }
  return out;
}

std::string reduction_of(const Dag& dag) {
  const Op* largest = nullptr;
  for (const Op& op : dag.ops) {
    if (op.reducer == Reducer::kNone) continue;
    if (!largest || points_of(op) > points_of(*largest)) largest = &op;
  }
  if (!largest) return to_text(canonicalize(dag).dag);
  Colours shapes;
  std::string text = to_text(largest->reducer);
  for (const auto* axes : {&largest->axes, &largest->reduce_axes}) {
    text += " /";
    for (const Axis& a : *axes) text += fmt::format(" {}", a.extent);
  }
  for (const Expr& value : largest->values) {
    ir::for_each_expr(value, [&](const Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (!load) return;
      shapes[load->buffer] = hash_bytes(fmt::format("{} [{}]", to_text(load->buffer->dtype),
                                                    fmt::join(load->buffer->shape, ",")));
    });
  }
  Reads reads;
  const Signature signature(*largest, shapes, reads);
  for (const Expr& value : largest->values) text += " | " + signature(value);
  return text;
}

}  // namespace tessera::te
