#include "tessera/onnx/input_types.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/ranges.h>

namespace tessera::onnx {
namespace {

using Symbols = std::map<std::string, std::int64_t>;

Error invalid(const ValueInfo& info, const std::string& reason) {
  return make_error(ErrorCode::kInvalidArgument, "input '{}': {}", info.name, reason);
}

std::string declared_text(const ValueInfo& info) {
  std::string text = info.type + "[";
  for (std::size_t i = 0; i < info.dims.size(); ++i) {
    if (i > 0) text += ",";
    const Dim& d = info.dims[i];
    text += d.size >= 0 ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

// The shape or value that the options give for this input, or null.
const Shape* given_shape(const ValueInfo& info, const ImportOptions& options) {
  if (const auto v = options.values.find(info.name); v != options.values.end()) {
    return &v->second.shape();
  }
  const auto s = options.shapes.find(info.name);
  return s == options.shapes.end() ? nullptr : &s->second;
}

Result<void> check_given(const ValueInfo& info, const Shape& shape) {
  if (!info.has_shape) return {};
  bool fits = shape.size() == info.dims.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    fits = info.dims[i].size < 0 || info.dims[i].size == shape[i];
  }
  if (fits) return {};
  return invalid(info, fmt::format("shape {} does not fit the declared {}", to_text(shape),
                                   declared_text(info)));
}

bool says_batch(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find("batch") != std::string::npos;
}

Result<Shape> resolve_shape(const ValueInfo& info, const ImportOptions& options,
                            const Symbols& symbols) {
  if (const Shape* given = given_shape(info, options)) {
    if (!options.override_declared) TESSERA_DO(check_given(info, *given));
    return *given;
  }
  if (!info.has_shape) return invalid(info, "the model declares no shape; give one");
  Shape shape;
  for (std::size_t i = 0; i < info.dims.size(); ++i) {
    const Dim& d = info.dims[i];
    const auto known = symbols.find(d.symbol);
    if (d.size >= 0) {
      shape.push_back(d.size);
    } else if (!d.symbol.empty() && known != symbols.end()) {
      shape.push_back(known->second);
    } else {
      shape.push_back(i == 0 || says_batch(d.symbol) ? 1 : options.default_dim);
    }
  }
  return shape;
}

Symbols collect_symbols(const Graph& graph, const ImportOptions& options) {
  Symbols symbols = options.symbols;
  for (const ValueInfo& info : graph.inputs) {
    const Shape* given = given_shape(info, options);
    if (given == nullptr || given->size() != info.dims.size()) continue;
    for (std::size_t i = 0; i < given->size(); ++i) {
      if (!info.dims[i].symbol.empty()) symbols.emplace(info.dims[i].symbol, (*given)[i]);
    }
  }
  return symbols;
}

Result<GraphInput> resolve_input(const ValueInfo& info, const ImportOptions& options,
                                 const Symbols& symbols) {
  GraphInput input;
  input.name = info.name;
  const auto value = options.values.find(info.name);
  const bool has_value = value != options.values.end();
  auto dtype = dtype_from_text(info.type);
  if (has_value && info.type == "undefined") dtype = value->second.dtype();
  if (!dtype) {
    input.foreign = info.type;
    return input;
  }
  TESSERA_TRY(Shape shape, resolve_shape(info, options, symbols));
  if (const auto count = checked_elements(shape, *dtype); !count.ok()) {
    return invalid(info, count.error().message);
  }
  if (has_value) {
    if (value->second.dtype() != *dtype) {
      return invalid(info, fmt::format("a value of type {} was given, the model declares {}",
                                       to_text(value->second.dtype()), info.type));
    }
    input.value = value->second;
  }
  input.type = {*dtype, std::move(shape)};
  return input;
}

template <class Map>
Result<void> check_names(const Map& given, const std::set<std::string>& names) {
  for (const auto& [name, unused] : given) {
    if (names.count(name) == 0) {
      return make_error(ErrorCode::kInvalidArgument, "the model has no input '{}'", name);
    }
  }
  return {};
}

Result<void> check_symbols(const Symbols& given, const Graph& graph) {
  std::set<std::string> known;
  for (const ValueInfo& info : graph.inputs) {
    for (const Dim& d : info.dims) {
      if (!d.symbol.empty()) known.insert(d.symbol);
    }
  }
  for (const auto& [name, unused] : given) {
    if (known.count(name) != 0) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "the inputs of the model have no dimension '{}'; they have: {}", name,
                      known.empty() ? "none" : fmt::format("{}", fmt::join(known, " ")));
  }
  return {};
}

}  // namespace

Result<std::vector<GraphInput>> resolve_inputs(const Graph& graph, const ImportOptions& options) {
  std::set<std::string> names, defaults;
  for (const ValueInfo& info : graph.inputs) names.insert(info.name);
  for (const Initializer& i : graph.initializers) defaults.insert(i.name);
  TESSERA_DO(check_names(options.shapes, names));
  TESSERA_DO(check_names(options.values, names));
  TESSERA_DO(check_symbols(options.symbols, graph));
  const Symbols symbols = collect_symbols(graph, options);
  std::vector<GraphInput> inputs;
  for (const ValueInfo& info : graph.inputs) {
    if (defaults.count(info.name) != 0 && options.values.count(info.name) == 0) continue;
    TESSERA_TRY(GraphInput input, resolve_input(info, options, symbols));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace tessera::onnx
