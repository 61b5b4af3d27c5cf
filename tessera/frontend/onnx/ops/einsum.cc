// Einsum: operands are brought to distinct labels, then multiplied from left to right.
#include <algorithm>
#include <cctype>
#include <map>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

// A value and one label per dimension.
struct Operand {
  ValueId value = kNoValue;
  std::string labels;
};

// An equation "ij,jk->ik"; '.' stands for the ellipsis of a term.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

Result<std::string> read_term(std::string_view text) {
  std::string term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      term += text[i];
    } else if (text.substr(i, 3) == "..." && term.find('.') == std::string::npos) {
      term += '.';
      i += 2;
    } else {
      return invalid("'{}' is not a term of an equation", text);
    }
  }
  return term;
}

// The output of an equation without arrow: the ellipsis, then the letters that occur once.
std::string implicit_output(const std::vector<std::string>& inputs) {
  std::map<char, int> count;
  for (const std::string& term : inputs) {
    for (const char label : term) ++count[label];
  }
  std::string output = count.count('.') != 0 ? "." : "";
  for (const auto& [label, n] : count) {
    if (label != '.' && n == 1) output += label;
  }
  return output;
}

Result<Equation> parse_equation(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  Equation equation;
  const std::size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  while (true) {
    const std::size_t comma = left.find(',');
    TESSERA_TRY(std::string term, read_term(left.substr(0, comma)));
    equation.inputs.push_back(std::move(term));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (arrow == std::string::npos) {
    equation.output = implicit_output(equation.inputs);
  } else {
    TESSERA_TRY(equation.output, read_term(std::string_view(text).substr(arrow + 2)));
  }
  return equation;
}

// Gives the dimensions under an ellipsis letters that the equation does not use, aligned at the
// last: `ellipsis` is a prefix-free list whose suffixes label them.
Result<std::string> free_letters(const Equation& equation, std::size_t count) {
  std::string used = equation.output, letters;
  for (const std::string& term : equation.inputs) used += term;
  for (int upper = 0; upper < 2; ++upper) {
    for (char l = upper != 0 ? 'A' : 'a'; l <= (upper != 0 ? 'Z' : 'z'); ++l) {
      if (letters.size() < count && used.find(l) == std::string::npos) letters += l;
    }
  }
  if (letters.size() < count) return invalid("more than 52 dimensions");
  return letters;
}

std::string expand_ellipsis(const std::string& term, const std::string& letters) {
  const std::size_t dot = term.find('.');
  return dot == std::string::npos ? term : term.substr(0, dot) + letters + term.substr(dot + 1);
}

// Replaces two dimensions of the same label by their diagonal.
Result<Operand> take_diagonals(graph::GraphBuilder& b, Operand x) {
  for (std::size_t d = 0; d < x.labels.size();) {
    const std::size_t twin = x.labels.find(x.labels[d], d + 1);
    if (twin == std::string::npos) {
      ++d;
      continue;
    }
    const std::int64_t n = b.shape(x.value)[d];
    if (b.shape(x.value)[twin] != n) return invalid("label {} has two sizes", x.labels[d]);
    std::vector<std::int64_t> perm;
    for (std::size_t k = 0; k < x.labels.size(); ++k) {
      if (k == twin) continue;
      perm.push_back(static_cast<std::int64_t>(k));
      if (k == d) perm.push_back(static_cast<std::int64_t>(twin));
    }
    TESSERA_TRY(x.value, b.transpose(x.value, perm));
    Shape shape = b.shape(x.value);
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
    shape[d] = n * n;
    TESSERA_TRY(x.value, b.reshape(x.value, shape));
    Shape starts(shape.size(), 0), steps(shape.size(), 1);
    steps[d] = n + 1;
    shape[d] = n;
    TESSERA_TRY(x.value, b.add("slice", {x.value},
                               {{"starts", starts}, {"steps", steps}, {"sizes", shape}}));
    x.labels.erase(twin, 1);
  }
  return x;
}

// Removes dimensions of size 1 whose label is larger elsewhere: leaving the label out broadcasts.
Result<void> drop_broadcast(graph::GraphBuilder& b, std::vector<Operand>& operands) {
  std::map<char, std::int64_t> extents;
  for (const Operand& x : operands) {
    for (std::size_t d = 0; d < x.labels.size(); ++d) {
      std::int64_t& extent = extents.try_emplace(x.labels[d], 1).first->second;
      const std::int64_t size = b.shape(x.value)[d];
      if (extent != size && extent != 1 && size != 1) {
        return invalid("label {} is {} and {}", x.labels[d], extent, size);
      }
      if (size != 1) extent = size;
    }
  }
  for (Operand& x : operands) {
    for (std::size_t d = x.labels.size(); d-- > 0;) {
      if (b.shape(x.value)[d] == extents[x.labels[d]]) continue;
      TESSERA_TRY(x.value, drop_axis(b, x.value, d));
      x.labels.erase(d, 1);
    }
  }
  return {};
}

// Sums over the labels that `needed` lacks.
Result<Operand> sum_out(graph::GraphBuilder& b, Operand x, const std::string& needed) {
  std::vector<std::int64_t> axes;
  std::string kept;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (needed.find(x.labels[d]) == std::string::npos) {
      axes.push_back(static_cast<std::int64_t>(d));
    } else {
      kept += x.labels[d];
    }
  }
  if (axes.empty()) return x;
  TESSERA_TRY(const ValueId sum, reduce_axes(b, "sum", x.value, axes, false));
  return Operand{sum, kept};
}

// Labels of the operands from `first` on, and of the output.
std::string labels_from(const std::vector<Operand>& operands, std::size_t first,
                        const std::string& output) {
  std::string all = output;
  for (std::size_t i = first; i < operands.size(); ++i) all += operands[i].labels;
  return all;
}

Result<Operand> multiply(graph::GraphBuilder& b, const Operand& x, const Operand& y,
                         const std::string& needed, const std::string& order) {
  std::string out;
  for (const std::string* source : {&order, &x.labels, &y.labels}) {
    for (const char label : *source) {
      const bool present = (x.labels + y.labels).find(label) != std::string::npos;
      if (present && needed.find(label) != std::string::npos &&
          out.find(label) == std::string::npos) {
        out += label;
      }
    }
  }
  TESSERA_TRY(const ValueId product, contract(b, x.value, x.labels, y.value, y.labels, out));
  return Operand{product, out};
}

Result<ValueId> arrange_output(graph::GraphBuilder& b, const Operand& x,
                               const std::string& output) {
  std::vector<std::int64_t> perm;
  for (const char label : output) {
    perm.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  }
  return b.transpose(x.value, perm);
}

Result<std::vector<Operand>> read_operands(Context& c, Equation& equation) {
  if (equation.inputs.size() != c.inputs.size()) {
    return invalid("the equation has {} terms for {} inputs", equation.inputs.size(),
                   c.inputs.size());
  }
  std::size_t hidden = 0;  // most dimensions under an ellipsis
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string& term = equation.inputs[i];
    const bool dots = term.find('.') != std::string::npos;
    const std::size_t named = term.size() - (dots ? 1 : 0), rank = c.shape(i).size();
    if (dots ? named > rank : named != rank) {
      return invalid("term {} does not fit rank {}", term, rank);
    }
    hidden = std::max(hidden, rank - named);
  }
  TESSERA_TRY(const std::string letters, free_letters(equation, hidden));
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string& term = equation.inputs[i];
    const std::size_t rank = c.shape(i).size();
    const std::size_t own = std::min(rank + 1 - std::min(term.size(), rank + 1), hidden);
    const std::string labels = expand_ellipsis(term, letters.substr(hidden - own));
    TESSERA_TRY(const Operand x, take_diagonals(c.b, {c.in(i), labels}));
    operands.push_back(x);
  }
  equation.output = expand_ellipsis(equation.output, letters);
  return operands;
}

Result<std::vector<ValueId>> import_einsum(Context& c) {
  TESSERA_TRY(const std::string text, c.word("equation"));
  TESSERA_TRY(Equation equation, parse_equation(text));
  const DType t = c.dtype(0);
  TESSERA_TRY(std::vector<Operand> operands, read_operands(c, equation));
  const std::string& output = equation.output;
  const std::string all = labels_from(operands, 0, "");
  for (std::size_t d = 0; d < output.size(); ++d) {
    if (all.find(output[d]) == std::string::npos || output.find(output[d]) != d) {
      return invalid("label {} of the output", output[d]);
    }
  }
  TESSERA_DO(drop_broadcast(c.b, operands));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::vector<Operand> others = operands;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    // Products of 8-bit integers are i32: the whole sum is, and wraps at the end.
    if (size_bytes(t) == 1) {
      TESSERA_TRY(operands[i].value, c.b.cast(operands[i].value, DType::kI32));
    }
    TESSERA_TRY(operands[i], sum_out(c.b, operands[i], labels_from(others, 0, output)));
  }
  Operand result = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    TESSERA_TRY(result,
                multiply(c.b, result, operands[i], labels_from(operands, i + 1, output), output));
  }
  TESSERA_TRY(const ValueId arranged, arrange_output(c.b, result, output));
  TESSERA_TRY(const ValueId y, c.b.cast(arranged, t));
  return std::vector<ValueId>{y};
}

}  // namespace

std::vector<OnnxOp> einsum_rows() { return {{"Einsum", 12, 1, -1, import_einsum}}; }

}  // namespace tessera::onnx
