#include "tessera/app/cli/common/model_tasks.h"

#include <algorithm>

namespace tessera::cli {

Result<task::PlannedGraph> plan_model(const ModelArgs& args, const target::Target& target,
                                      bool fuse) {
  TESSERA_TRY(const app::CompileOptions options, compile_options(args, target));
  TESSERA_TRY(graph::Graph graph, app::import_graph(args.model, options));
  task::PartitionOptions partition;
  partition.fuse = fuse;
  graph::PassOptions passes = app::passes_for(options);
  passes.shapes_only = true;  // no command that lists kernels shows their weights
  return task::apply_plan(std::move(graph), std::move(passes), partition, {});
}

Result<const task::Task*> find_task(const task::TaskGraph& tasks, const ModelArgs& args,
                                    const std::string& key) {
  const auto found = std::find_if(tasks.tasks.begin(), tasks.tasks.end(),
                                  [&](const task::Task& t) { return t.key == key; });
  if (found == tasks.tasks.end())
    return make_error(ErrorCode::kInvalidArgument, "{} has no task {}; `tessera tasks` lists them",
                      args.model, key);
  return &*found;
}

}  // namespace tessera::cli
