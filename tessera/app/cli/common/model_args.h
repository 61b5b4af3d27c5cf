// Flags of every command that takes a model, and what follows from them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/app/cli/common/flags.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::cli {

struct ModelArgs {
  std::string model;
  std::vector<std::string> shapes;  // "data:1x3x224x224"
  std::vector<std::string> dims;    // "batch=4"
  std::int64_t batch = 0;           // 0: as the model says
  std::vector<std::string> values;  // "sr=16000", "mask=[1,1,0]", "state=@state.npy"
  std::int64_t max_loop_steps = onnx::ImportOptions{}.max_loop_steps;
  std::vector<std::string> skip;      // graph passes
  std::string dtype = "f32";          // that f32 is computed in
  std::string activations = "model";  // --activations
  std::string fast_math;              // "", or what may be rounded besides: "tf32"
};

// Adds the positional MODEL (optional where a command has other subjects) and the flags below.
void add_model_options(Flags& app, ModelArgs& args, bool required);
// "zoo:NAME" of every built-in network: what a MODEL offers to shells.
std::vector<std::string> zoo_models();
// --dtype alone.
void add_dtype_option(Flags& app, ModelArgs& args);
// --activations: model (as it says), int8 or float.
void add_activations_option(Flags& app, std::string& activations);
Result<graph::Rounding> rounding_of(const std::string& activations);
// --target, also written --machine: of commands that make code, run it or measure candidates.
enum class TargetUse : std::uint8_t { kCode, kRun, kMeasure };
void add_target_option(Flags& app, std::string& target, TargetUse use);
// --fast-math, of commands that make code for a target.
void add_fast_math_option(Flags& app, ModelArgs& args);
// --target, as --fast-math allows it to compute.
Result<target::Target> fast_target(const Result<target::Target>& target, const ModelArgs& args);
// --shape, --dim, --batch, --value and --max-loop-steps alone: of commands that name their models
// in another way.
void add_input_options(Flags& app, ModelArgs& args);

// The batch of a model, where one is asked for: the parameter of a built-in one, else the size of
// the symbolic first dimensions of its inputs.
Result<void> set_batch(std::int64_t batch, std::string& model,
                       std::map<std::string, std::int64_t>& symbols);
// Runs `command` with --batch as a part of the model's name or of --dim.
int with_batch(ModelArgs& args, const std::function<int()>& command);

Result<onnx::ImportOptions> import_options(const ModelArgs& args);
// For `target`, as the flags ask; refuses names of passes that do not exist.
Result<app::CompileOptions> compile_options(const ModelArgs& args,
                                            const target::Target& target = target::host());

// "1x3x224x224", "scalar" or "" for rank 0.
Result<Shape> parse_shape(const std::string& text);

// --no-cache, of commands that build code of a model.
void add_cache_option(Flags& app, bool& no_cache);
// --threads, the same in every command: one thread a core of those that the process may use, unless
// the user says. `what` they do begins the help.
Option* add_threads_option(Flags& app, int& threads, const std::string& what);

// The user's cache of kernels, or null.
std::shared_ptr<const kernel::KernelCache> kernel_cache(bool no_cache);

// Reports building kernels as one live line on a terminal, nothing elsewhere.
std::function<void(std::size_t, std::size_t)> build_progress();

}  // namespace tessera::cli
