#include "tessera/app/compile/load_graph.h"

#include <algorithm>
#include <functional>

#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/run_eager.h"
#include "tessera/frontend/checkpoint/checkpoint.h"
#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/support/model_name.h"

namespace tessera::app {
namespace {

// Large constants (weights to dequantize or transpose) are folded by compiled code.
class Folding {
 public:
  explicit Folding(const CompileOptions& options)
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

Result<onnx::Model> load_with(const std::string& spec,
                              Result<onnx::Model> (*load)(const std::string& path)) {
  if (is_built_in(spec)) return zoo::make_model(without_zoo(spec));
  if (checkpoint::is_checkpoint(spec)) {
    return checkpoint::load_model(
        spec, load == onnx::load_outline ? gguf::Values::kLeft : gguf::Values::kRead);
  }
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

Result<onnx::CheckReport> check_model(const std::string& spec, const CompileOptions& options) {
  TESSERA_TRY(const onnx::Model outline, load_outline(spec));
  if (auto report = onnx::check_outline(outline, options.import)) return std::move(*report);
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  Folding folding(options);
  auto report = onnx::check_model(model, folding.import());
  if (!report) return about_model(report.error(), spec);
  return report;
}

namespace {

// `how` decides which products multiply bytes, where the options leave that open.
Result<graph::Graph> import_with(const onnx::Model& model, const CompileOptions& options,
                                 onnx::IntegerProducts how) {
  Folding folding(options);
  // Sums of bytes exceed what f16 holds.
  how.depth = options.floats == DType::kF32 ? integer_products_for(options) : 0;
  how.short_floats = target::find_matrix(options.target, target::Operands::kTiles, DType::kF8E4M3,
                                         DType::kF8E4M3) != nullptr;
  if (how.depth == 0) return onnx::import_model(model, folding.import());
  TESSERA_TRY(const onnx::Model offered, onnx::with_integer_products(model, how));
  return onnx::import_model(offered, folding.import());
}

Result<graph::Graph> about(Result<graph::Graph> graph, const std::string& spec) {
  if (!graph) return about_model(graph.error(), spec);
  return graph;
}

}  // namespace

Result<graph::Graph> import_graph(const onnx::Model& model, const CompileOptions& options) {
  plan::Decider decider(options.plan ? options.plan->plan().decisions : plan::Decisions());
  const auto decide = [&](const std::string& key, bool bytes) -> Result<bool> {
    const plan::Point point =
        plan::make_point(plan::PointKind::kInteger, key, bytes ? plan::kBytes : plan::kFloats);
    TESSERA_TRY(const std::int32_t value, decider.decide(point));
    return point.label(value) == plan::kBytes;
  };
  return import_with(model, options, {.decide = decide});
}

Result<graph::Graph> import_graph(const std::string& spec, const CompileOptions& options) {
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  return about(import_graph(model, options), spec);
}

Result<graph::Graph> import_undecided(const onnx::Model& model, const CompileOptions& options) {
  return import_with(model, options, {});
}

Result<graph::Graph> import_undecided(const std::string& spec, const CompileOptions& options) {
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  return about(import_undecided(model, options), spec);
}

Result<task::PlannedGraph> plan_graph(graph::Graph imported, const CompileOptions& options) {
  task::PartitionOptions partition;
  partition.fuse = options.fuse;
  return task::apply_plan(
      std::move(imported), passes_for(options), partition,
      plan::Decider(options.plan ? options.plan->plan().decisions : plan::Decisions()));
}

Result<graph::Graph> load_graph(const onnx::Model& model, const CompileOptions& options) {
  TESSERA_TRY(graph::Graph graph, import_graph(model, options));
  TESSERA_DO(graph::optimize(graph, passes_for(options)));
  return graph;
}

Result<graph::Graph> load_graph(const std::string& spec, const CompileOptions& options) {
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  return about(load_graph(model, options), spec);
}

}  // namespace tessera::app
