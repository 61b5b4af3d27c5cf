#include "tessera/frontend/onnx/open_dims.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include <fmt/ranges.h>

#include "tessera/frontend/onnx/symbolic_shapes.h"
#include "tessera/support/check.h"

namespace tessera::onnx {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_batch_word(const std::string& name) {
  return lower_case(name).find("batch") != std::string::npos;
}

bool is_batch_letter(const std::string& name) {
  const std::string text = lower_case(name);
  return text == "n" || text == "b" || text == "bs" || text == "bsz";
}

// Names of first axes that are not batches.
bool says_length(const std::string& name) {
  static constexpr std::array kWords = {"seq",   "len", "time", "frame",  "token", "step",  "num",
                                        "point", "box", "pos",  "height", "width", "sample"};
  const std::string text = lower_case(name);
  return text == "t" || text == "l" || text == "s" || text == "h" || text == "w" ||
         std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

// What stands for a dimension in equations: a nameless one gets the name of its place.
std::string place_name(const ValueInfo& input, std::size_t axis) {
  return fmt::format("{}[{}]", input.name, axis);
}

Size declared_size(const ValueInfo& input, std::size_t axis) {
  const Dim& d = input.dims[axis];
  if (d.size >= 0) return size_of(d.size);
  return d.symbol.empty() ? size_of(place_name(input, axis)) : parse_size_text(d.symbol);
}

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<const ValueInfo*>& inputs,
         const std::map<std::string, Shape>& given, const ImportOptions& options)
      : graph_(graph), given_(given), options_(options) {
    for (const ValueInfo* info : inputs) {
      // Strings and sequences are refused by whoever reads them.
      const bool tensor = info->has_shape && dtype_from_text(info->type).has_value();
      if (tensor && !given.contains(info->name)) open_inputs_.push_back(info);
    }
    out_.sizes = options.symbols;
    for (const ValueInfo* info : inputs) learn_from_given(*info);
    for (const auto& [name, size] : out_.sizes) {
      equations_.push_back({parse_size_text(name), size_of(size)});
    }
  }

  Result<DimSizes> run() {
    out_.sizes = solve(equations_, std::move(out_.sizes));
    if (!open().empty()) {
      read_nodes(inputs_as_declared());
      settle(&out_.implied, std::nullopt);
      set_batches();
      settle(&out_.implied, options_.assumed_size);
    }
    if (const std::vector<std::string> left = open(); !left.empty()) return refuse(left);
    return std::move(out_);
  }

 private:
  void learn_from_given(const ValueInfo& info) {
    const auto shape = given_.find(info.name);
    if (shape == given_.end() || shape->second.size() != info.dims.size()) return;
    for (std::size_t i = 0; i < info.dims.size(); ++i) {
      if (!info.dims[i].symbol.empty()) out_.sizes.emplace(info.dims[i].symbol, shape->second[i]);
    }
  }

  std::map<std::string, SymbolicShape> inputs_as_declared() const {
    std::map<std::string, SymbolicShape> shapes;
    for (const auto& [name, shape] : given_) {
      for (const std::int64_t d : shape) shapes[name].push_back(size_of(d));
    }
    for (const ValueInfo* info : open_inputs_) {
      for (std::size_t i = 0; i < info->dims.size(); ++i) {
        shapes[info->name].push_back(substitute(declared_size(*info, i), out_.sizes));
      }
    }
    return shapes;
  }

  void read_nodes(const std::map<std::string, SymbolicShape>& inputs) {
    const std::vector<Equation> more = collect_equations(graph_, inputs);
    equations_.insert(equations_.end(), more.begin(), more.end());
  }

  // Names without a size, in the order of the inputs. A sum that was given as a whole has one.
  std::vector<std::string> open() const {
    std::vector<std::string> names;
    for (const ValueInfo* info : open_inputs_) {
      for (std::size_t i = 0; i < info->dims.size(); ++i) {
        if (out_.sizes.contains(info->dims[i].symbol)) continue;
        for (const std::string& name : symbols_in(declared_size(*info, i))) {
          if (out_.sizes.contains(name)) continue;
          if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
      }
    }
    return names;
  }

  // Solves; with `assumed` gives open names that size one by one, each time looking what follows.
  void settle(std::vector<std::string>* implied, std::optional<std::int64_t> assumed) {
    for (;;) {
      const std::vector<std::string> before = open();
      out_.sizes = solve(equations_, std::move(out_.sizes));
      for (const std::string& name : before) {
        if (out_.sizes.contains(name)) implied->push_back(name);
      }
      const std::vector<std::string> left = open();
      if (left.empty() || !assumed) return;
      out_.sizes[left[0]] = *assumed;
      out_.assumed.push_back(left[0]);
    }
  }

  void set_batches() {
    std::set<std::string> inner;         // names that also stand behind the first axis
    std::set<std::string> behind_batch;  // those of one that is a batch: sounds are [batch, N]
    for (const ValueInfo* info : open_inputs_) {
      for (std::size_t i = 1; i < info->dims.size(); ++i) {
        for (const std::string& name : symbols_in(declared_size(*info, i))) {
          inner.insert(name);
          if (is_batch_word(info->dims[0].symbol)) behind_batch.insert(name);
        }
      }
    }
    for (const ValueInfo* info : open_inputs_) {
      for (std::size_t i = 0; i < info->dims.size(); ++i) {
        const std::string& symbol = info->dims[i].symbol;
        const std::string name = symbol.empty() ? place_name(*info, i) : symbol;
        if (info->dims[i].size >= 0 || out_.sizes.contains(name)) continue;
        const bool first = i == 0 && info->dims.size() > 1 && !inner.contains(name);
        const bool named =
            is_batch_word(symbol) || (is_batch_letter(symbol) && !behind_batch.contains(symbol));
        if (named || (first && !says_length(symbol))) out_.sizes[name] = 1;
      }
    }
  }

  Error refuse(const std::vector<std::string>& left) const {
    std::vector<std::string> inputs, flags;
    for (const ValueInfo* info : open_inputs_) {
      bool named = false, nameless = false;
      std::string shape;
      for (std::size_t i = 0; i < info->dims.size(); ++i) {
        const Size size = substitute(declared_size(*info, i), out_.sizes);
        const auto number = number_in(size);
        const std::string& symbol = info->dims[i].symbol;
        const bool is_open = !number && !out_.sizes.contains(symbol);
        named = named || (is_open && !symbol.empty());
        nameless = nameless || (is_open && symbol.empty());
        shape += fmt::format("{}{}", i > 0 ? "x" : "", number ? std::to_string(*number) : "SIZE");
      }
      if (named || nameless) {
        inputs.push_back(fmt::format("'{}' {}", info->name, declared_text(*info)));
      }
      if (nameless) flags.push_back(fmt::format("--shape {}:{}", info->name, shape));
    }
    std::set<std::string> places;
    for (const ValueInfo* info : open_inputs_) {
      for (std::size_t i = 0; i < info->dims.size(); ++i) places.insert(place_name(*info, i));
    }
    for (const std::string& name : left) {
      if (!places.contains(name)) flags.push_back(fmt::format("--dim {}=SIZE", name));
    }
    const std::string last = inputs.back();
    inputs.pop_back();
    const std::string others = fmt::format("{}", fmt::join(inputs, ", "));
    return make_error(ErrorCode::kInvalidArgument,
                      "the model leaves sizes of input{} {} open; set them with {}",
                      inputs.empty() ? "" : "s", inputs.empty() ? last : others + " and " + last,
                      fmt::join(flags, " "));
  }

  const Graph& graph_;
  const std::map<std::string, Shape>& given_;
  const ImportOptions& options_;
  std::vector<const ValueInfo*> open_inputs_;
  std::vector<Equation> equations_;
  DimSizes out_;
};

}  // namespace

std::string declared_text(const ValueInfo& info) {
  std::string text = info.type + "[";
  for (std::size_t i = 0; i < info.dims.size(); ++i) {
    if (i > 0) text += ",";
    const Dim& d = info.dims[i];
    text += d.size >= 0 ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

std::int64_t DimSizes::of(const ValueInfo& input, std::size_t axis) const {
  const auto whole = sizes.find(input.dims[axis].symbol);
  if (!input.dims[axis].symbol.empty() && whole != sizes.end()) return whole->second;
  const auto number = number_in(substitute(declared_size(input, axis), sizes));
  TESSERA_CHECK(number.has_value(), "a dimension of {} has no size", input.name);
  return *number;
}

Result<DimSizes> find_sizes(const Graph& graph, const std::vector<const ValueInfo*>& inputs,
                            const std::map<std::string, Shape>& given,
                            const ImportOptions& options) {
  return Finder(graph, inputs, given, options).run();
}

}  // namespace tessera::onnx
