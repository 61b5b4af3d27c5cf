#include "tessera/app/compile/known_part.h"

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/staged_model.h"

namespace tessera::app {

Result<KnownPart> known_part(const std::string& spec, const CompileOptions& options,
                             const std::string& path) {
  KnownPart out{.spec = spec};
  const Result<onnx::CheckReport> report = check_model(spec, options);
  // What else is wrong with a model is for others to say.
  if (!report || !report->unsupported.empty() || report->data_dependent.empty()) return out;
  const onnx::NodeIssue& first = report->data_dependent[0];
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  onnx::ImportOptions import = options.import;
  import.unrolled_nodes = kUnrolledNodes;
  TESSERA_TRY(const onnx::Model part, onnx::known_part(model, import));
  out.reason = fmt::format("shapes follow from the data of {} {}", first.op, first.node);
  if (part.graph.nodes.empty() || part.graph.outputs.empty())
    return make_error(ErrorCode::kUnsupported, "{}, and no node comes before", out.reason);
  TESSERA_DO(onnx::save_model(part, path));
  out.spec = path;
  out.nodes = part.graph.nodes.size();
  out.model_nodes = model.graph.nodes.size();
  return out;
}

}  // namespace tessera::app
