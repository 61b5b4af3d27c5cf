#include "tessera/frontend/onnx/input_types.h"

#include <set>

#include <fmt/ranges.h>

#include "tessera/frontend/onnx/literal.h"

namespace tessera::onnx {
namespace {

Error invalid(const ValueInfo& info, const std::string& reason) {
  return make_error(ErrorCode::kInvalidArgument, "input '{}': {}", info.name, reason);
}

// The shape that the options give to this input, by itself, by a value or by the text of one.
std::optional<Shape> given_shape(const ValueInfo& info, const ImportOptions& options) {
  if (const auto v = options.values.find(info.name); v != options.values.end()) {
    return v->second.shape();
  }
  if (const auto s = options.shapes.find(info.name); s != options.shapes.end()) return s->second;
  const auto text = options.literals.find(info.name);
  if (text == options.literals.end()) return std::nullopt;
  // A list has the length of an input of rank 1; otherwise the declared shape is meant.
  const Shape shape = shape_of_text(text->second);
  const bool open = !info.has_shape || (info.dims.size() == 1 && info.dims[0].size < 0);
  if (open && (!info.has_shape || !shape.empty())) return shape;
  return std::nullopt;
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

Result<Shape> resolve_shape(const ValueInfo& info, const std::map<std::string, Shape>& given,
                            const ImportOptions& options, const DimSizes& sizes) {
  if (const auto shape = given.find(info.name); shape != given.end()) {
    if (!options.override_declared) TESSERA_DO(check_given(info, shape->second));
    return shape->second;
  }
  if (!info.has_shape) {
    return invalid(
        info,
        fmt::format("the model declares no shape; set it with --shape {}:SIZExSIZE", info.name));
  }
  Shape shape;
  for (std::size_t i = 0; i < info.dims.size(); ++i) {
    const std::int64_t declared = info.dims[i].size;
    shape.push_back(declared >= 0 ? declared : sizes.of(info, i));
  }
  return shape;
}

Result<GraphInput> resolve_input(const ValueInfo& info, const std::map<std::string, Shape>& given,
                                 const ImportOptions& options, const DimSizes& sizes) {
  GraphInput input;
  input.name = info.name;
  const auto value = options.values.find(info.name);
  const auto text = options.literals.find(info.name);
  auto dtype = dtype_from_text(info.type);
  if (value != options.values.end() && info.type == "undefined") dtype = value->second.dtype();
  if (!dtype) {
    input.foreign = info.type;
    return input;
  }
  TESSERA_TRY(Shape shape, resolve_shape(info, given, options, sizes));
  if (const auto count = checked_elements(shape, *dtype); !count.ok()) {
    return invalid(info, count.error().message);
  }
  input.type = {*dtype, std::move(shape)};
  if (value != options.values.end()) {
    if (value->second.dtype() != *dtype) {
      return invalid(info, fmt::format("a value of type {} was given, the model declares {}",
                                       to_text(value->second.dtype()), info.type));
    }
    input.value = value->second;
  } else if (text != options.literals.end()) {
    Result<HostTensor> tensor = tensor_from_text(text->second, input.type);
    if (!tensor) return invalid(info, tensor.error().message);
    input.value = std::move(*tensor);
  }
  return input;
}

template <class Map>
Result<void> check_names(const Map& given, const Graph& graph) {
  for (const auto& [name, unused] : given) {
    std::vector<std::string> inputs;
    bool known = false;
    for (const ValueInfo& info : graph.inputs) {
      known = known || info.name == name;
      inputs.push_back(fmt::format("'{}' {}", info.name, declared_text(info)));
    }
    if (known) continue;
    return make_error(ErrorCode::kInvalidArgument, "the model has no input '{}'; it has: {}", name,
                      inputs.empty() ? "none" : fmt::format("{}", fmt::join(inputs, ", ")));
  }
  return {};
}

Result<void> check_symbols(const Symbols& given, const Graph& graph) {
  std::set<std::string> known;
  for (const ValueInfo& info : graph.inputs) {
    for (const Dim& d : info.dims) {
      if (d.symbol.empty()) continue;
      known.insert(d.symbol);
      for (const std::string& name : symbols_in(parse_size_text(d.symbol))) known.insert(name);
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

Result<ResolvedInputs> resolve_inputs(const Graph& graph, const ImportOptions& options) {
  std::set<std::string> defaults;
  for (const Initializer& i : graph.initializers) defaults.insert(i.name);
  TESSERA_DO(check_names(options.shapes, graph));
  TESSERA_DO(check_names(options.values, graph));
  TESSERA_DO(check_names(options.literals, graph));
  TESSERA_DO(check_symbols(options.symbols, graph));
  std::vector<const ValueInfo*> real;
  std::map<std::string, Shape> given;
  for (const ValueInfo& info : graph.inputs) {
    const bool replaced =
        options.values.contains(info.name) || options.literals.contains(info.name);
    if (defaults.contains(info.name) && !replaced) continue;
    real.push_back(&info);
    if (auto shape = given_shape(info, options)) given[info.name] = std::move(*shape);
  }
  ResolvedInputs out;
  TESSERA_TRY(out.sizes, find_sizes(graph, real, given, options));
  for (const ValueInfo* info : real) {
    TESSERA_TRY(GraphInput input, resolve_input(*info, given, options, out.sizes));
    out.inputs.push_back(std::move(input));
  }
  return out;
}

}  // namespace tessera::onnx
