// Any stage of the compilation of a model or of one kernel, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/app/compile/compile_options.h"
#include "tessera/lang/te/dag.h"

namespace tessera::app {

struct StageOptions {
  std::string stage = "ir";  // graph; of a kernel te, schedule, ir, llvm, asm, ptx, sass, opencl
  std::vector<std::string> print_after, skip;  // passes: of graphs, or of a kernel's loops
  std::string stop_after;
  std::string schedule_file;  // empty: the default schedule
};

struct StageTime {
  std::string pass;
  double ms = 0;
  bool changed = true;
};

struct StageText {
  std::string text;
  std::vector<StageTime> times;
};

// kInvalidArgument: such targets do not have this stage, or no pass has that name.
Result<void> check_stage(const StageOptions& options, const target::Target& target);

// Errors about a schedule name its file.
Result<StageText> kernel_stage(const te::Dag& dag, const target::Target& target,
                               const StageOptions& options);
Result<StageText> graph_stage(const std::string& spec, const CompileOptions& compile,
                              const StageOptions& options);

}  // namespace tessera::app
