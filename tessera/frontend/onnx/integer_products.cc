#include "tessera/frontend/onnx/integer_products.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "tessera/support/planted.h"

namespace tessera::onnx {
namespace {

constexpr std::int64_t kFloatNumber = 1;  // TensorProto.FLOAT

// What DequantizeLinear reads.
struct Quantised {
  std::string bytes, zero;           // names; zero: "" where omitted
  const HostTensor* scale;           // a number, or one for each element along `axis`
  std::int64_t axis = 0;             // as the file gives it
  const HostTensor* data = nullptr;  // of constants
  bool floats = false;               // of 8 bits
  std::int64_t largest = 0;          // absolute value of a byte less its zero point
  std::vector<const Node*> moves;    // what only gives the values another shape, the last first
};

bool only_moves(const Node& node) {
  return node.op_type == "Flatten" || node.op_type == "Reshape" || node.op_type == "Squeeze" ||
         node.op_type == "Unsqueeze" || node.op_type == "Identity";
}

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

bool is_zero(const HostTensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (t.get_float(i) != 0) return false;
  }
  return true;
}

std::int64_t integer(const Node& node, std::string_view name, std::int64_t absent) {
  const Attribute* a = node.find(name);
  const auto* value = a ? std::get_if<std::int64_t>(&a->value) : nullptr;
  return value ? *value : absent;
}

bool is_one(const Node& node, std::string_view name) {
  const Attribute* a = node.find(name);
  const auto* value = a ? std::get_if<float>(&a->value) : nullptr;
  return !a || (value && *value == 1);
}

class Rewriter {
 public:
  Rewriter(Graph& graph, const IntegerProducts& how) : graph_(graph), how_(how) {
    for (const Initializer& i : graph.initializers) {
      names_.insert(i.name);
      if (const auto* t = std::get_if<HostTensor>(&i.value)) constants_[i.name] = *t;
    }
    // What is given from outside is none, whatever default the file has for it.
    for (const ValueInfo& input : graph.inputs) constants_.erase(input.name);
    for (const Node& node : graph.nodes) {
      for (const std::string& name : node.outputs) names_.insert(name);
      if (node.outputs.empty()) continue;
      if (node.domain == "com.microsoft" && node.op_type == "DequantizeLinear")
        followed_[node.outputs[0]] = &node;
      if (!node.domain.empty()) continue;
      if (node.op_type == "DequantizeLinear" || (only_moves(node) && !node.inputs.empty()))
        followed_[node.outputs[0]] = &node;
      const Attribute* value = node.op_type == "Constant" ? node.find("value") : nullptr;
      if (const auto* t = value ? std::get_if<HostTensor>(&value->value) : nullptr)
        constants_[node.outputs[0]] = *t;
    }
  }

  Result<void> run() {
    std::vector<Node> out;
    for (const Node& node : graph_.nodes) {
      made_.clear();
      if (rewrite(node)) {
        TESSERA_DO(offer(node, &out));
      } else {
        out.push_back(node);
      }
    }
    graph_.nodes = std::move(out);
    return {};
  }

 private:
  // Both ways to compute the node, or the one that is decided for.
  Result<void> offer(const Node& node, std::vector<Node>* out) {
    const std::string key = "integer " + (node.name.empty() ? node.outputs[0] : node.name);
    bool bytes = true, floats = true;
    if (how_.decide) {
      TESSERA_TRY(bytes, how_.decide(key, pays_));
      floats = !bytes;
    }
    std::vector<std::string> ways;
    if (floats) {
      out->push_back(node);
      out->back().outputs = {fresh(node.outputs[0] + ".floats")};
      ways.push_back(out->back().outputs[0]);
    }
    if (bytes) {
      out->insert(out->end(), made_.begin(), made_.end());
      ways.push_back(made_.back().outputs[0]);
    }
    Node either{.name = node.name, .op_type = "Either"};
    either.domain = kOwnDomain;
    either.inputs = {pays_ ? ways.back() : ways.front(), pays_ ? ways.front() : ways.back()};
    either.outputs = node.outputs;
    either.attributes = {{"key", key, ""},
                         {"bytes_first", std::int64_t{pays_ ? 1 : 0}, ""},
                         {"only",
                          std::int64_t{bytes && floats ? 0
                                       : bytes         ? 1
                                                       : 2},
                          ""}};
    out->push_back(std::move(either));
    return {};
  }

  const HostTensor* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : &found->second;
  }

  std::optional<Quantised> quantised(const std::string& name) const {
    std::vector<const Node*> moves;
    auto found = followed_.find(name);
    while (found != followed_.end() && only_moves(*found->second) &&
           moves.size() < graph_.nodes.size()) {
      moves.push_back(found->second);
      found = followed_.find(found->second->inputs[0]);
    }
    if (found == followed_.end() || only_moves(*found->second)) return std::nullopt;
    const Node& node = *found->second;
    // The zero point tells the type of the data.
    if (node.inputs.size() < 3 || integer(node, "block_size", 0) != 0) return std::nullopt;
    const HostTensor* zero = constant(node.inputs[2]);
    Quantised q{.bytes = node.inputs[0],
                .zero = node.inputs[2],
                .scale = constant(node.inputs[1]),
                .axis = integer(node, "axis", 1),
                .data = constant(node.inputs[0]),
                .moves = std::move(moves)};
    if (!zero || !q.scale || q.scale->dtype() != DType::kF32) return std::nullopt;
    q.floats = is_float(zero->dtype());
    const bool multiplied =
        q.floats ? how_.short_floats && size_bytes(zero->dtype()) == 1 && is_zero(*zero)
                 : is_byte(zero->dtype());
    if (!multiplied) return std::nullopt;
    q.largest = zero->dtype() == DType::kI8 && is_zero(*zero) ? 128 : 255;
    return q;
  }

  // Both operands; the scale of the right one has one number, or one for each along axis `channel`.
  struct Operands {
    Quantised left, right;
  };
  std::optional<Operands> operands(const Node& node, std::int64_t channel) const {
    const auto left = quantised(node.inputs[0]), right = quantised(node.inputs[1]);
    if (!left || !right || !right->data || !right->moves.empty() || left->scale->size() != 1 ||
        left->floats != right->floats)
      return std::nullopt;
    const auto rank = static_cast<std::int64_t>(right->data->shape().size());
    const std::int64_t axis = right->axis < 0 ? right->axis + rank : right->axis;
    if (right->scale->size() != 1 && axis != channel) return std::nullopt;
    return Operands{*left, *right};
  }

  // Sums of so many products stay within 32 bits, whatever the bytes are.
  static bool fits(const Operands& x, std::int64_t elements) {
    if (x.left.floats) return true;
    const std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    return elements <= limit / (x.left.largest * x.right.largest);
  }

  // What a position sums.
  void judge(const Operands& x, std::int64_t elements, std::int64_t groups = 1) {
    pays_ = !x.left.floats && elements % how_.depth == 0 && (how_.depth == 1 || groups == 1);
  }

  bool rewrite(const Node& node) {
    if (!node.domain.empty() || node.inputs.size() < 2 || node.outputs.size() != 1) return false;
    if (node.op_type == "Conv") return rewrite_conv(node);
    if (node.op_type == "Gemm") return rewrite_gemm(node);
    return node.op_type == "MatMul" && rewrite_matmul(node);
  }

  // The bytes of the left operand in the shape that the product takes.
  std::string left_bytes(const Node& node, const Quantised& left) {
    std::string at = left.bytes;
    for (auto move = left.moves.rbegin(); move != left.moves.rend(); ++move) {
      std::vector<std::string> inputs = (*move)->inputs;
      inputs[0] = at;
      at = add(node, (*move)->op_type, std::move(inputs), (*move)->attributes);
    }
    return at;
  }

  bool rewrite_conv(const Node& node) {
    const auto x = operands(node, 0);
    if (!x || x->right.data->shape().size() < 3) return false;
    // Few channels are summed along the rows of a window.
    const Shape& window = x->right.data->shape();
    if (!fits(*x, elements(window) / std::max<std::int64_t>(window[0], 1))) return false;
    const bool rows = window.size() == 4 && window[1] < how_.depth && window[3] > 1;
    judge(*x, rows ? how_.depth : window[1], integer(node, "group", 1));
    Shape column(x->right.data->shape().size(), 1);
    column[1] = -1;
    const std::string sums =
        multiply(node, *x, "Conv", x->right.bytes, x->left.zero, node.attributes);
    finish(node, sums, scale(*x, column), bias(node, column));
    return true;
  }

  bool rewrite_gemm(const Node& node) {
    const bool turned = integer(node, "transB", 0) != 0;
    const auto x = operands(node, turned ? 0 : 1);
    if (!x || integer(node, "transA", 0) != 0 || !is_one(node, "alpha") || !is_one(node, "beta"))
      return false;
    const Shape& shape = x->right.data->shape();
    if (shape.size() != 2 || !fits(*x, shape[turned ? 1 : 0])) return false;
    judge(*x, shape[turned ? 1 : 0]);
    std::string right = x->right.bytes;
    if (turned) right = add(node, "Transpose", {right}, {Attribute{"perm", Shape{1, 0}, ""}});
    const std::string sums = multiply(node, *x, "MatMul", right, x->left.zero);
    finish(node, sums, scale(*x, {-1}), bias(node, {}));
    return true;
  }

  bool rewrite_matmul(const Node& node) {
    const auto x = operands(node, 1);
    if (!x || x->right.data->shape().size() != 2) return false;
    if (!fits(*x, x->right.data->shape()[0])) return false;
    judge(*x, x->right.data->shape()[0]);
    const std::string sums =
        multiply(node, *x, "MatMul", x->right.bytes, planted(3) ? "" : x->left.zero);
    finish(node, sums, scale(*x, {-1}), "");
    return true;
  }

  // The product itself: of integers by the operator for them, less their zero points.
  std::string multiply(const Node& node, const Operands& x, const std::string& op,
                       const std::string& right, const std::string& left_zero,
                       const std::vector<Attribute>& attributes = {}) {
    const std::string left = left_bytes(node, x.left);
    if (x.left.floats) return add(node, op, {left, right}, attributes);
    return add(node, op + "Integer", {left, right, left_zero, x.right.zero}, attributes);
  }

  // Sums in f32, times the scale, plus the bias: the last of what is made.
  void finish(const Node& node, const std::string& sums, const std::string& scale,
              const std::string& bias) {
    const std::string wide = add(node, "Cast", {sums}, {{"to", kFloatNumber, ""}});
    const std::string scaled = add(node, "Mul", {wide, scale}, {});
    if (!bias.empty()) add(node, "Add", {scaled, bias}, {});
  }

  // The product of the scales: a number, or shaped as `column` (-1: where the channels are).
  std::string scale(const Operands& x, Shape column) {
    const HostTensor& right = *x.right.scale;
    for (std::int64_t& n : column) n = n < 0 ? right.size() : n;
    HostTensor out(DType::kF32, right.size() == 1 ? Shape{} : column);
    for (std::int64_t i = 0; i < right.size(); ++i)
      out.set_float(i, right.get_float(i) * x.left.scale->get_float(0));
    return add_constant(x.right.bytes + ".scales", std::move(out));
  }

  // Input 2 shaped as `column`, or as it is where that is empty; "" where there is none.
  std::string bias(const Node& node, const Shape& column) {
    if (node.inputs.size() < 3 || node.inputs[2].empty() || column.empty())
      return node.inputs.size() < 3 ? "" : node.inputs[2];
    HostTensor shape(DType::kI64, {static_cast<std::int64_t>(column.size())});
    for (std::size_t i = 0; i < column.size(); ++i) shape.as<std::int64_t>()[i] = column[i];
    return add(node, "Reshape",
               {node.inputs[2], add_constant(node.outputs[0] + ".column", std::move(shape))}, {});
  }

  std::string fresh(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  std::string add(const Node& of, const std::string& type, std::vector<std::string> inputs,
                  std::vector<Attribute> attributes) {
    Node n{.name = of.name, .op_type = type};
    n.inputs = std::move(inputs);
    n.outputs = {fresh(of.outputs[0] + "." + type)};
    n.attributes = std::move(attributes);
    made_.push_back(std::move(n));
    return made_.back().outputs[0];
  }

  std::string add_constant(const std::string& name, HostTensor value) {
    graph_.initializers.push_back({fresh(name), std::move(value)});
    return graph_.initializers.back().name;
  }

  Graph& graph_;
  const IntegerProducts& how_;
  std::map<std::string, HostTensor> constants_;
  std::map<std::string, const Node*> followed_;  // DequantizeLinear and what moves, by output
  std::set<std::string> names_;
  std::vector<Node> made_;  // beside the node at hand
  bool pays_ = false;       // that is what to take where nothing was measured
};

}  // namespace

Result<Model> with_integer_products(Model model, const IntegerProducts& how) {
  TESSERA_DO(Rewriter(model.graph, how).run());
  return model;
}

}  // namespace tessera::onnx
