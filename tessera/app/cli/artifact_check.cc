#include "tessera/app/cli/artifact_check.h"

#include <cstring>

#include "tessera/app/bench/bench_model.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/target/match.h"

namespace tessera::cli {
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
                               const exec::ModelOptions& options) {
  if (target.is_gpu() || !target::runs_on_host(target))
    return make_error(ErrorCode::kUnavailable, "its target is not this machine");
  runtime::CpuDevice device({.threads = target.code_threads()});
  const int threads = device.target().code_threads();
  TESSERA_TRY(const auto loaded, artifact::load_artifact(folder, {.threads = threads}));
  const std::vector<HostTensor> inputs = app::random_model_inputs(graph, 1);
  TESSERA_TRY(const std::vector<HostTensor> got, loaded->run(inputs));
  TESSERA_TRY(const exec::CompiledModel model, exec::compile_model(graph, tasks, target, options));
  TESSERA_TRY(const std::vector<HostTensor> want, exec::run_model(model, device, inputs));
  ArtifactCheck out;
  out.same_bits = same_bits(got, want);
  out.max_error = out.same_bits ? 0 : app::worst_output(graph, got, want);
  return out;
}

}  // namespace

std::string to_text(const ArtifactCheck& check) {
  if (!check.not_compared.empty()) return "not compared with the model: " + check.not_compared;
  if (check.same_bits) return "its outputs are those of the model, bit for bit";
  return fmt::format("its outputs differ from the model's by {:.2f} times what is allowed",
                     check.max_error);
}

ArtifactCheck check_artifact(const std::string& folder, const graph::Graph& graph,
                             const task::TaskGraph& tasks, const target::Target& target,
                             const exec::ModelOptions& options) {
  Result<ArtifactCheck> check = compared(folder, graph, tasks, target, options);
  if (check) return *check;
  ArtifactCheck out;
  out.not_compared = check.error().message;
  return out;
}

}  // namespace tessera::cli
