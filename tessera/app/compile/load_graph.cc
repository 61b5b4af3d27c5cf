#include "tessera/app/compile/load_graph.h"

#include <algorithm>
#include <functional>

#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/run_eager.h"
#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/model_name.h"

namespace tessera::app {
namespace {

// Large constants (weights to dequantize or transpose) are folded by compiled code.
class Folding {
 public:
  explicit Folding(const LoadOptions& options)
      : evaluator_(target::host(), device_, kWorthCompiling, options.cache),
        import_(options.import) {
    if (!import_.builder.evaluate) import_.builder.evaluate = std::ref(evaluator_);
  }
  const onnx::ImportOptions& import() const { return import_; }

 private:
  runtime::CpuDevice device_{runtime::PoolOptions{.threads = 1}};
  NodeEvaluator evaluator_;
  onnx::ImportOptions import_;
};

}  // namespace

graph::PassOptions passes_for(const target::Target& target) {
  graph::PassOptions passes;
  passes.rules = plan::rules_for(target);
  return passes;
}

std::int64_t integer_products_for(const target::Target& target) {
  constexpr int kWarpRows = 16;
  const auto shapes = target::tensor_shapes(target);
  const bool warps = std::any_of(shapes.begin(), shapes.end(), [](const target::TensorShape& s) {
    return s.dtype == DType::kI8 && s.m == kWarpRows;
  });
  // One instruction of a processor adds four products; images are unsigned and weights signed.
  const bool dots = target.arch == target::Arch::kAArch64 ? target.has_i8_mma : target.has_i8_dot;
  return warps ? 1 : dots ? 4 : 0;
}

LoadOptions load_options_for(const target::Target& target) {
  LoadOptions options;
  options.passes = passes_for(target);
  options.integer_products = integer_products_for(target);
  return options;
}

namespace {

Result<onnx::Model> load_with(const std::string& spec,
                              Result<onnx::Model> (*load)(const std::string& path)) {
  if (is_built_in(spec)) return zoo::make_model(without_zoo(spec));
  Result<onnx::Model> model = load(spec);
  const auto& networks = zoo::zoo_table();
  const bool named = std::ranges::any_of(
      networks, [&](const auto& n) { return n.name == spec.substr(0, spec.find('@')); });
  if (model.ok() || !named) return model;
  return make_error(model.error().code, "{}; the built-in network is zoo:{}", model.error().message,
                    spec);
}

}  // namespace

Result<onnx::Model> load_onnx(const std::string& spec) { return load_with(spec, onnx::load_model); }

Result<onnx::Model> load_outline(const std::string& spec) {
  return load_with(spec, onnx::load_outline);
}

Result<onnx::CheckReport> check_model(const std::string& spec, const LoadOptions& options) {
  TESSERA_TRY(const onnx::Model outline, load_outline(spec));
  if (auto report = onnx::check_outline(outline, options.import)) return std::move(*report);
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  Folding folding(options);
  auto report = onnx::check_model(model, folding.import());
  if (!report) return about_model(report.error(), spec);
  return report;
}

Result<graph::Graph> load_graph(const onnx::Model& model, const LoadOptions& options) {
  Folding folding(options);
  // Sums of bytes exceed what f16 holds.
  const bool integers = options.integer_products > 0 && options.passes.floats == DType::kF32;
  TESSERA_TRY(graph::Graph graph,
              onnx::import_model(
                  integers ? onnx::with_integer_products(model, options.integer_products) : model,
                  folding.import()));
  if (options.optimize) TESSERA_DO(graph::optimize(graph, options.passes));
  return graph;
}

Result<graph::Graph> load_graph(const std::string& spec, const LoadOptions& options) {
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  auto graph = load_graph(model, options);
  if (!graph) return about_model(graph.error(), spec);
  return graph;
}

}  // namespace tessera::app
