// The kernels of a model that the flags of a command name.
#pragma once

#include <string>

#include "tessera/app/cli/common/model_args.h"
#include "tessera/frontend/task/task.h"

namespace tessera::cli {

// The kernels of the model as the rules decide; `fuse`: not every node its own.
Result<task::PlannedGraph> plan_model(const ModelArgs& args, const target::Target& target,
                                      bool fuse);
// The kernel with this key; the message names the model.
Result<const task::Task*> find_task(const task::TaskGraph& tasks, const ModelArgs& args,
                                    const std::string& key);

}  // namespace tessera::cli
