#include "tessera/app/bench/write_artifact.h"

#include <algorithm>
#include <cstring>

#include "tessera/app/bench/compare_outputs.h"
#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/target/match.h"

namespace tessera::app {
namespace {

bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].bytes() != b[i].bytes() || std::memcmp(a[i].data(), b[i].data(), a[i].bytes()) != 0)
      return false;
  }
  return a.size() == b.size();
}

Result<ArtifactCheck> compared(const std::string& folder, const graph::Graph& graph,
                               const task::TaskGraph& tasks, const target::Target& target,
                               const exec::ModelOptions& options, int variant) {
  if (!target::runs_on_host(target))
    return make_error(ErrorCode::kUnavailable, "its target is not this machine");
  runtime::CpuDevice device({.threads = target.code_threads()});
  const int threads = device.target().code_threads();
  TESSERA_TRY(const auto loaded,
              artifact::load_artifact(folder, {.threads = threads, .variant = variant}));
  const std::vector<HostTensor> inputs = random_model_inputs(graph, 1);
  TESSERA_TRY(const std::vector<HostTensor> got, loaded->run(inputs));
  TESSERA_TRY(const exec::CompiledModel model, exec::compile_model(graph, tasks, target, options));
  TESSERA_TRY(const std::vector<HostTensor> want, exec::run_model(model, device, inputs));
  ArtifactCheck out;
  out.same_bits = same_bits(got, want);
  out.max_error = out.same_bits ? 0 : worst_output(graph, got, want);
  return out;
}

ArtifactCheck check_artifact(const std::string& folder, const graph::Graph& graph,
                             const task::TaskGraph& tasks, const target::Target& target,
                             const exec::ModelOptions& options, int variant = 0) {
  Result<ArtifactCheck> check = compared(folder, graph, tasks, target, options, variant);
  if (check) return *check;
  ArtifactCheck out;
  out.not_compared = check.error().message;
  return out;
}

// Of two variants: what was compared counts.
ArtifactCheck worse(const ArtifactCheck& a, const ArtifactCheck& b) {
  if (!a.not_compared.empty()) return b;
  if (!b.not_compared.empty()) return a;
  return {"", a.same_bits && b.same_bits, std::max(a.max_error, b.max_error)};
}

}  // namespace

std::string to_text(const ArtifactCheck& check) {
  if (!check.not_compared.empty()) return "not compared with the model: " + check.not_compared;
  if (check.same_bits) return "its outputs are those of the model, bit for bit";
  return fmt::format("its outputs differ from the model's by {:.2f} times what is allowed",
                     check.max_error);
}

Result<WrittenArtifact> write_artifact(ModelSource& source, const CompileOptions& compile,
                                       const std::string& folder, artifact::ArtifactOptions options,
                                       bool check) {
  CompileOptions how = compile;
  how.accept = [&](const graph::Graph& graph) {
    return artifact::check_weights_place(graph, options);
  };
  Result<DecidedModel> model = decide_model(source, how);
  if (!model) return about_model(model.error(), source.spec());
  options.model = model->build;
  std::vector<LayerType> layers = layer_types(*model, compile);
  std::optional<graph::Graph> kept;  // a compilation lets go of what it has packed
  if (check) kept = model->graph;
  Result<artifact::ArtifactReport> report = artifact::compile_artifact(
      std::move(model->graph), model->tasks, compile.target, folder, options);
  if (!report && report.error().code == ErrorCode::kUnsupported)
    return about_model(report.error(), source.spec());
  if (!report) return report.error();
  WrittenArtifact out{std::move(*report), model->tasks.tasks.size(), std::move(model->judged), {}};
  out.narrow_share = narrow_share(model->tasks);
  out.faster_floats = faster_floats(compile.target, compile.floats, model->tasks);
  out.layers = std::move(layers);
  if (kept) out.check = check_artifact(folder, *kept, model->tasks, compile.target, options.model);
  return out;
}

Result<WrittenArtifact> write_variants(ModelSource& source, const std::vector<NamedTarget>& targets,
                                       const std::string& folder, artifact::ArtifactOptions options,
                                       bool check) {
  std::vector<artifact::ArtifactVariant> variants;
  WrittenArtifact out;
  for (const NamedTarget& target : targets) {
    CompileOptions how = target.compile;
    how.accept = [&](const graph::Graph& graph) {
      return artifact::check_weights_place(graph, options);
    };
    Result<DecidedModel> model = decide_model(source, how);
    if (!model) return about_model(model.error(), source.spec());
    if (variants.empty()) {
      out.tasks = model->tasks.tasks.size();
      out.judged = std::move(model->judged);
      out.narrow_share = narrow_share(model->tasks);
      out.faster_floats = faster_floats(how.target, how.floats, model->tasks);
      out.layers = layer_types(*model, how);
    }
    variants.push_back({target.name, std::move(model->graph), std::move(model->tasks), how.target,
                        std::move(model->build)});
  }
  std::vector<artifact::ArtifactVariant> kept;
  if (check) kept = variants;
  Result<artifact::ArtifactReport> report =
      artifact::compile_variants(std::move(variants), folder, options);
  if (!report && report.error().code == ErrorCode::kUnsupported)
    return about_model(report.error(), source.spec());
  if (!report) return report.error();
  out.report = std::move(*report);
  const std::vector<artifact::VariantDescription>& made = out.report.metadata.variants;
  for (const artifact::ArtifactVariant& v : kept) {
    const auto at = std::ranges::find(made, v.name, &artifact::VariantDescription::name);
    const ArtifactCheck one = check_artifact(folder, v.graph, v.tasks, v.target, v.model,
                                             static_cast<int>(at - made.begin()) + 1);
    out.check = out.check ? worse(*out.check, one) : one;
  }
  return out;
}

}  // namespace tessera::app
