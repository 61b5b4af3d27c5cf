#include "tessera/frontend/onnx/symbolic_shapes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace tessera::onnx {
namespace {

using Shaped = std::optional<SymbolicShape>;
using Integers = std::vector<std::int64_t>;

// Longer lists of integers are data, not shapes.
constexpr std::int64_t kLongestList = 64;

const std::set<std::string_view>& same_shape() {
  static const std::set<std::string_view> names = {"Abs",
                                                   "BatchNormalization",
                                                   "Cast",
                                                   "Ceil",
                                                   "Celu",
                                                   "Clip",
                                                   "Cos",
                                                   "CumSum",
                                                   "Dropout",
                                                   "Elu",
                                                   "Erf",
                                                   "Exp",
                                                   "Floor",
                                                   "Gelu",
                                                   "GroupNormalization",
                                                   "HardSigmoid",
                                                   "HardSwish",
                                                   "Identity",
                                                   "LRN",
                                                   "InstanceNormalization",
                                                   "IsNaN",
                                                   "LayerNormalization",
                                                   "LeakyRelu",
                                                   "Log",
                                                   "LogSoftmax",
                                                   "Mish",
                                                   "Neg",
                                                   "Not",
                                                   "Reciprocal",
                                                   "Relu",
                                                   "Round",
                                                   "Selu",
                                                   "Sigmoid",
                                                   "Sign",
                                                   "Sin",
                                                   "Softmax",
                                                   "Softplus",
                                                   "Softsign",
                                                   "Sqrt",
                                                   "Swish",
                                                   "Tanh",
                                                   "ThresholdedRelu",
                                                   "QuantizeLinear",
                                                   "DequantizeLinear"};
  return names;
}

const std::set<std::string_view>& broadcasting() {
  static const std::set<std::string_view> names = {
      "Add",   "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
      "Mean",  "Min", "Mod", "Mul",   "Or",      "PRelu",          "Pow",  "Sub",         "Sum",
      "Where", "Xor"};
  return names;
}

const std::set<std::string_view>& reducing() {
  static const std::set<std::string_view> names = {
      "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"};
  return names;
}

Size product(const SymbolicShape& sizes) {
  Size out = size_of(1);
  for (const Size& s : sizes) out = combine(SizeOp::kMultiply, out, s);
  return out;
}

bool same(const Size& a, const Size& b) {
  if (a == b) return true;
  if (!a || !b || a->op != b->op) return false;
  return (a->op == SizeOp::kNumber && a->number == b->number) ||
         (a->op == SizeOp::kSymbol && a->symbol == b->symbol);
}

// Drops what both lists have.
void cancel(SymbolicShape& a, SymbolicShape& b) {
  for (auto it = a.begin(); it != a.end();) {
    const auto twin =
        std::find_if(b.begin(), b.end(), [&](const Size& s) { return *it && same(*it, s); });
    if (twin == b.end()) {
      ++it;
    } else {
      b.erase(twin);
      it = a.erase(it);
    }
  }
}

SymbolicShape sizes_of(const Shape& shape) {
  SymbolicShape out;
  for (const std::int64_t d : shape) out.push_back(size_of(d));
  return out;
}

class Walk {
 public:
  Walk(const Graph& graph, const std::map<std::string, SymbolicShape>& inputs) {
    for (const auto& [name, shape] : inputs) shapes_[name] = shape;
    for (const Initializer& i : graph.initializers) {
      if (const auto* tensor = std::get_if<HostTensor>(&i.value)) define(i.name, *tensor);
    }
  }

  void visit(const Node& node) {
    if (!node.domain.empty() || node.outputs.empty()) return;
    visit_values(node);
    if (Shaped shape = result(node)) shapes_.try_emplace(node.outputs[0], std::move(*shape));
  }

  std::vector<Equation> take() { return std::move(equations_); }

 private:
  void define(const std::string& name, const HostTensor& tensor) {
    shapes_[name] = sizes_of(tensor.shape());
    if (tensor.dtype() != DType::kI64 || tensor.shape().size() > 1 || tensor.size() > kLongestList)
      return;
    SymbolicShape list;
    for (std::int64_t i = 0; i < tensor.size(); ++i) list.push_back(size_of(tensor.get_int(i)));
    values_[name] = std::move(list);
  }

  const SymbolicShape* shape(const Node& node, std::size_t i) const {
    if (i >= node.inputs.size()) return nullptr;
    const auto found = shapes_.find(node.inputs[i]);
    return found == shapes_.end() ? nullptr : &found->second;
  }
  const SymbolicShape* values(const Node& node, std::size_t i) const {
    if (i >= node.inputs.size()) return nullptr;
    const auto found = values_.find(node.inputs[i]);
    return found == values_.end() ? nullptr : &found->second;
  }
  // The integers of an attribute, or of input `i`.
  std::optional<Integers> integers(const Node& node, const char* name, std::size_t i) const {
    if (const Attribute* a = node.find(name)) {
      if (const auto* list = std::get_if<Integers>(&a->value)) return *list;
      return std::nullopt;
    }
    const SymbolicShape* list = values(node, i);
    if (list == nullptr) return std::nullopt;
    Integers out;
    for (const Size& s : *list) {
      const auto n = number_in(s);
      if (!n) return std::nullopt;
      out.push_back(*n);
    }
    return out;
  }
  static Integers integers_or(const Node& node, const char* name, Integers absent) {
    const Attribute* a = node.find(name);
    const auto* list = a ? std::get_if<Integers>(&a->value) : nullptr;
    return list ? *list : absent;
  }
  static std::int64_t integer_or(const Node& node, const char* name, std::int64_t absent) {
    const Attribute* a = node.find(name);
    const auto* value = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
    return value ? *value : absent;
  }
  static std::string word_or(const Node& node, const char* name, const char* absent) {
    const Attribute* a = node.find(name);
    const auto* value = a ? std::get_if<std::string>(&a->value) : nullptr;
    return value ? *value : absent;
  }

  void require(const Size& a, const Size& b, bool broadcast = false) {
    if (!a || !b || same(a, b) || (number_in(a) && number_in(b))) return;
    equations_.push_back({a, b, broadcast});
  }

  static std::optional<std::size_t> axis(std::int64_t axis, std::size_t rank) {
    const auto n = static_cast<std::int64_t>(rank);
    if (axis < -n || axis >= n) return std::nullopt;
    return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
  }

  // Lists of integers: what exporters compute shapes with.
  void visit_values(const Node& node) {
    const std::string& out = node.outputs[0];
    if (node.op_type == "Constant") {
      const Attribute* a = node.find("value");
      const auto* tensor = a ? std::get_if<HostTensor>(&a->value) : nullptr;
      if (tensor) define(out, *tensor);
    } else if (node.op_type == "Shape" && shape(node, 0)) {
      const SymbolicShape list = *shape(node, 0);
      const auto n = static_cast<std::int64_t>(list.size());
      const auto place = [&](std::int64_t i) {
        return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n);
      };
      const std::int64_t first = place(integer_or(node, "start", 0));
      const std::int64_t last = std::max(first, place(integer_or(node, "end", n)));
      values_[out] = {list.begin() + first, list.begin() + last};
    } else if (node.op_type == "Concat") {
      SymbolicShape joined;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (values(node, i) == nullptr) return;
        joined.insert(joined.end(), values(node, i)->begin(), values(node, i)->end());
      }
      values_[out] = std::move(joined);
    } else if (values(node, 0) == nullptr) {
      return;
    } else if (node.op_type == "Gather") {
      const SymbolicShape list = *values(node, 0);
      const SymbolicShape* at = values(node, 1);
      if (at == nullptr) return;
      SymbolicShape picked;
      for (const Size& s : *at) {
        const auto i = number_in(s) ? axis(*number_in(s), list.size()) : std::nullopt;
        picked.push_back(i ? list[*i] : nullptr);
      }
      values_[out] = std::move(picked);
    } else if (node.op_type == "Unsqueeze" || node.op_type == "Squeeze" || node.op_type == "Cast" ||
               node.op_type == "Identity") {
      values_[out] = *values(node, 0);
    } else {
      combine_values(node);
    }
  }

  void combine_values(const Node& node) {
    static const std::map<std::string_view, SizeOp> ops = {{"Add", SizeOp::kAdd},
                                                           {"Sub", SizeOp::kSubtract},
                                                           {"Mul", SizeOp::kMultiply},
                                                           {"Div", SizeOp::kDivide}};
    const auto op = ops.find(node.op_type);
    if (op == ops.end() || values(node, 1) == nullptr) return;
    const SymbolicShape &a = *values(node, 0), &b = *values(node, 1);
    if (a.size() != 1 || b.size() != 1) return;
    values_[node.outputs[0]] = {combine(op->second, a[0], b[0])};
  }

  Shaped result(const Node& node) {
    const std::string& op = node.op_type;
    if (broadcasting().contains(op)) return broadcast(node);
    if (op == "Concat") return concat(node);
    if (op == "Constant") return std::nullopt;  // its shape is known already
    const SymbolicShape* first = shape(node, 0);
    if (first == nullptr) return std::nullopt;
    const SymbolicShape x = *first;
    if (same_shape().contains(op)) return normalized(node, x);
    if (reducing().contains(op)) return reduce(node, x);
    if (op == "Conv" || op == "ConvTranspose") return convolve(node, x);
    if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") return pool(node, x);
    if (op == "GlobalAveragePool" || op == "GlobalMaxPool") return global_pool(x);
    if (op == "MatMul" || op == "Gemm") return op == "Gemm" ? gemm(node, x) : matmul(node, x);
    if (op == "Flatten") return flatten(node, x);
    if (op == "Reshape") return reshape(node, x);
    if (op == "Transpose") return transpose(node, x);
    if (op == "Squeeze" || op == "Unsqueeze") return squeeze(node, x);
    if (op == "Gather") return gather(node, x);
    if (op == "Shape") return SymbolicShape{size_of(static_cast<std::int64_t>(x.size()))};
    if (op == "LSTM" || op == "GRU" || op == "RNN") recurrent(node, x);
    return std::nullopt;
  }

  Shaped broadcast(const Node& node) {
    SymbolicShape out;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const SymbolicShape* next = shape(node, i);
      if (next == nullptr) return std::nullopt;
      SymbolicShape b = *next;
      if (b.size() > out.size()) std::swap(out, b);
      const std::size_t shift = out.size() - b.size();
      for (std::size_t k = 0; k < b.size(); ++k) {
        Size& a = out[shift + k];
        require(a, b[k], true);
        const auto n = number_in(a), m = number_in(b[k]);
        if (n == 1 || (m && *m != 1)) {
          a = b[k];
        } else if (!(m == 1 || (n && *n != 1)) && !same(a, b[k])) {
          a = nullptr;  // two symbols: either may be 1
        }
      }
    }
    return out;
  }

  Shaped concat(const Node& node) {
    SymbolicShape out;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const SymbolicShape* next = shape(node, i);
      if (next == nullptr) return std::nullopt;
      if (i == 0) {
        out = *next;
        continue;
      }
      const auto at = axis(integer_or(node, "axis", 0), out.size());
      if (!at || next->size() != out.size()) return std::nullopt;
      for (std::size_t k = 0; k < out.size(); ++k) {
        if (k == *at) {
          out[k] = combine(SizeOp::kAdd, out[k], (*next)[k]);
        } else {
          require(out[k], (*next)[k]);
        }
      }
    }
    return out;
  }

  Shaped normalized(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* scale = shape(node, 1);
    if (scale == nullptr || scale->size() != 1) return x;
    if ((node.op_type == "BatchNormalization" || node.op_type == "InstanceNormalization") &&
        x.size() > 1) {
      require(x[1], (*scale)[0]);
    } else if (node.op_type == "LayerNormalization" && !x.empty()) {
      require(x.back(), (*scale)[0]);
    }
    return x;
  }

  Shaped reduce(const Node& node, const SymbolicShape& x) {
    const bool given =
        node.find("axes") != nullptr || (node.inputs.size() > 1 && !node.inputs[1].empty());
    Integers all(x.size());
    std::iota(all.begin(), all.end(), 0);
    const auto axes = given ? integers(node, "axes", 1) : std::optional(all);
    if (!axes) return std::nullopt;
    std::vector<bool> dropped(x.size(), false);
    for (const std::int64_t a : *axes) {
      const auto at = axis(a, x.size());
      if (!at) return std::nullopt;
      dropped[*at] = true;
    }
    const bool keep = integer_or(node, "keepdims", 1) != 0;
    SymbolicShape out;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!dropped[i]) out.push_back(x[i]);
      if (dropped[i] && keep) out.push_back(size_of(1));
    }
    return out;
  }

  // Positions of a window of `kernel` along spatial axis `k`. Numbers come from the file: all of
  // this is arithmetic that cannot overflow.
  static Size positions(const Node& node, std::size_t k, std::size_t spatial, const Size& in,
                        const Size& kernel) {
    const Integers strides = integers_or(node, "strides", Integers(spatial, 1));
    const Integers dilations = integers_or(node, "dilations", Integers(spatial, 1));
    const Integers pads = integers_or(node, "pads", Integers(2 * spatial, 0));
    if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial) {
      return nullptr;
    }
    const Size stride = size_of(strides[k]), one = size_of(1);
    const Size last = combine(SizeOp::kSubtract, stride, one);
    const std::string mode = word_or(node, "auto_pad", "NOTSET");
    if (mode.starts_with("SAME")) {
      return combine(SizeOp::kDivide, combine(SizeOp::kAdd, in, last), stride);
    }
    Size room = in;
    if (mode != "VALID") {
      room = combine(SizeOp::kAdd, room,
                     combine(SizeOp::kAdd, size_of(pads[k]), size_of(pads[spatial + k])));
    }
    const Size reach =
        combine(SizeOp::kMultiply, combine(SizeOp::kSubtract, kernel, one), size_of(dilations[k]));
    room = combine(SizeOp::kSubtract, room, combine(SizeOp::kAdd, reach, one));
    if (integer_or(node, "ceil_mode", 0) != 0) room = combine(SizeOp::kAdd, room, last);
    return combine(SizeOp::kAdd, combine(SizeOp::kDivide, room, stride), one);
  }

  Shaped convolve(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* w = shape(node, 1);
    if (w == nullptr || w->size() != x.size() || x.size() < 3) return std::nullopt;
    const bool transposed = node.op_type == "ConvTranspose";
    const Size groups = size_of(integer_or(node, "group", 1));
    require(x[1], transposed ? (*w)[0] : combine(SizeOp::kMultiply, (*w)[1], groups));
    SymbolicShape out{x[0], transposed ? combine(SizeOp::kMultiply, (*w)[1], groups) : (*w)[0]};
    for (std::size_t i = 2; i < x.size(); ++i) {
      out.push_back(transposed ? nullptr : positions(node, i - 2, x.size() - 2, x[i], (*w)[i]));
    }
    return out;
  }

  Shaped pool(const Node& node, const SymbolicShape& x) {
    const Integers kernel = integers_or(node, "kernel_shape", {});
    if (x.size() < 3 || kernel.size() != x.size() - 2) return std::nullopt;
    SymbolicShape out{x[0], x[1]};
    for (std::size_t i = 2; i < x.size(); ++i) {
      out.push_back(positions(node, i - 2, kernel.size(), x[i], size_of(kernel[i - 2])));
    }
    return out;
  }

  static Shaped global_pool(SymbolicShape x) {
    for (std::size_t i = 2; i < x.size(); ++i) x[i] = size_of(1);
    return x;
  }

  Shaped matmul(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* w = shape(node, 1);
    if (w == nullptr || x.size() < 2 || w->size() < 2) return std::nullopt;
    require(x.back(), (*w)[w->size() - 2]);
    SymbolicShape out = w->size() > x.size() ? *w : x;
    out[out.size() - 2] = x[x.size() - 2];
    out.back() = w->back();
    for (std::size_t i = 0; i + 2 < std::min(x.size(), w->size()); ++i) {
      const Size &a = x[x.size() - 3 - i], &b = (*w)[w->size() - 3 - i];
      require(a, b, true);
      out[out.size() - 3 - i] = number_in(a) == 1 ? b : a;
    }
    return out;
  }

  Shaped gemm(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* w = shape(node, 1);
    if (w == nullptr || x.size() != 2 || w->size() != 2) return std::nullopt;
    const bool flip_x = integer_or(node, "transA", 0) != 0;
    const bool flip_w = integer_or(node, "transB", 0) != 0;
    require(x[flip_x ? 0 : 1], (*w)[flip_w ? 1 : 0]);
    return SymbolicShape{x[flip_x ? 1 : 0], (*w)[flip_w ? 0 : 1]};
  }

  static Shaped flatten(const Node& node, const SymbolicShape& x) {
    const std::int64_t given = integer_or(node, "axis", 1);
    const std::int64_t at = given < 0 ? given + static_cast<std::int64_t>(x.size()) : given;
    if (at < 0 || at > static_cast<std::int64_t>(x.size())) return std::nullopt;
    return SymbolicShape{product({x.begin(), x.begin() + at}), product({x.begin() + at, x.end()})};
  }

  Shaped reshape(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* target = values(node, 1);
    if (target == nullptr) return std::nullopt;
    const bool keeps = integer_or(node, "allowzero", 0) == 0;
    SymbolicShape out = *target;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (number_in(out[i]) == 0 && keeps) out[i] = i < x.size() ? x[i] : nullptr;
      if (number_in(out[i]) == -1) open = i;
    }
    SymbolicShape before = x, after = out;
    if (open) after.erase(after.begin() + static_cast<std::ptrdiff_t>(*open));
    cancel(before, after);
    if (open) {
      out[*open] = combine(SizeOp::kDivide, product(before), product(after));
    } else {
      require(product(before), product(after));
    }
    return out;
  }

  static Shaped transpose(const Node& node, const SymbolicShape& x) {
    Integers reversed(x.size());
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    const Integers perm = integers_or(node, "perm", reversed);
    if (perm.size() != x.size()) return std::nullopt;
    SymbolicShape out;
    for (const std::int64_t p : perm) {
      const auto at = axis(p, x.size());
      if (!at) return std::nullopt;
      out.push_back(x[*at]);
    }
    return out;
  }

  Shaped squeeze(const Node& node, const SymbolicShape& x) {
    const auto axes = integers(node, "axes", 1);
    if (!axes) return std::nullopt;
    const bool adds = node.op_type == "Unsqueeze";
    const std::size_t rank = adds ? x.size() + axes->size() : x.size();
    std::vector<bool> named(rank, false);
    for (const std::int64_t a : *axes) {
      const auto at = axis(a, rank);
      if (!at || named[*at]) return std::nullopt;
      named[*at] = true;
    }
    SymbolicShape out;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      if (adds) {
        out.push_back(named[i] ? size_of(1) : x[next++]);
      } else if (!named[i]) {
        out.push_back(x[i]);
      } else {
        require(x[i], size_of(1));
      }
    }
    return out;
  }

  Shaped gather(const Node& node, const SymbolicShape& x) {
    const SymbolicShape* at = shape(node, 1);
    const auto k = axis(integer_or(node, "axis", 0), x.size());
    if (at == nullptr || !k) return std::nullopt;
    SymbolicShape out(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(*k));
    out.insert(out.end(), at->begin(), at->end());
    out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(*k) + 1, x.end());
    return out;
  }

  // Y: sequence, directions, batch, hidden.
  void recurrent(const Node& node, const SymbolicShape& x) {
    const SymbolicShape *w = shape(node, 1), *r = shape(node, 2);
    if (w == nullptr || r == nullptr || x.size() != 3 || w->size() != 3 || r->size() != 3) return;
    require(x[2], (*w)[2]);
    for (const std::size_t i : {std::size_t{5}, std::size_t{6}}) {
      const SymbolicShape* state = shape(node, i);
      if (state == nullptr || state->size() != 3 || integer_or(node, "layout", 0) != 0) continue;
      require((*state)[0], (*w)[0]);
      require((*state)[1], x[1]);
      if (i == 5 || node.op_type == "LSTM") require((*state)[2], (*r)[2]);
    }
    if (integer_or(node, "layout", 0) != 0) return;
    shapes_[node.outputs[0]] = {x[0], (*w)[0], x[1], (*r)[2]};
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      shapes_[node.outputs[i]] = {(*w)[0], x[1], (*r)[2]};
    }
  }

  std::unordered_map<std::string, SymbolicShape> shapes_, values_;
  std::vector<Equation> equations_;
};

}  // namespace

std::vector<Equation> collect_equations(const Graph& graph,
                                        const std::map<std::string, SymbolicShape>& inputs) {
  Walk walk(graph, inputs);
  for (const Node& node : graph.nodes) walk.visit(node);
  return walk.take();
}

}  // namespace tessera::onnx
