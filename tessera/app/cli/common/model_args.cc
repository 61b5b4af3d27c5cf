#include "tessera/app/cli/common/model_args.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <set>

#include <fmt/ranges.h>
#include <unistd.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/compile/batch.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/backend/artifact/metadata.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/support/model_name.h"
#include "tessera/support/npz.h"

namespace tessera::cli {
namespace {

Result<std::int64_t> parse_size(std::string_view text, const std::string& whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}'{} is not a size; write shapes as 1x3x224x224, sizes as 4", text,
                      text == whole ? "" : fmt::format(" in '{}'", whole));
  }
  return value;
}

// A model may be imported several times in a run; its flaws are told once.
void warn_once(const std::string& text) {
  static std::set<std::string> told;
  if (told.insert(text).second) print_warning(text);
}

std::vector<std::string> devices() { return {"host", "cuda", "opencl"}; }

std::vector<std::string> code_targets() {
  std::vector<std::string> names = target::target_names();
  names.insert(names.end(), {"cuda", "opencl"});
  return names;
}

// NAME=TEXT or NAME=@FILE.
Result<void> add_value(const std::string& text, onnx::ImportOptions& options) {
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0 || equal + 1 == text.size()) {
    return make_error(ErrorCode::kInvalidArgument, "--value {}: write NAME=VALUE or NAME=@FILE.npy",
                      text);
  }
  const std::string name = text.substr(0, equal), value = text.substr(equal + 1);
  if (options.values.contains(name) || options.literals.contains(name)) {
    return make_error(ErrorCode::kInvalidArgument, "--value is given twice for '{}'", name);
  }
  if (value[0] == '@') {
    TESSERA_TRY(options.values[name], read_npy(value.substr(1)));
  } else {
    options.literals[name] = value;
  }
  return {};
}

}  // namespace

std::vector<std::string> zoo_models() {
  std::vector<std::string> names;
  for (const zoo::ZooEntry& e : zoo::zoo_table()) names.push_back(with_zoo(e.name));
  return names;
}

void add_model_options(Flags& app, ModelArgs& args, bool required) {
  Option* model =
      app.add_option("MODEL", args.model,
                     "ONNX file, or zoo:NAME[@parameter=value,...] (`tessera zoo` lists them)");
  if (required) model->required();
  model->offers(zoo_models);
  add_input_options(app, args);
  app.add_option("--skip-pass", args.skip,
                 "Graph pass to leave out, e.g. select_algorithms (repeatable)");
  add_dtype_option(app, args);
  add_activations_option(app, args.activations);
}

void add_dtype_option(Flags& app, ModelArgs& args) {
  app.add_option("--dtype", args.dtype,
                 "Compute what is f32 in f16 or bf16: weights are converted, sums stay f32, inputs "
                 "and outputs keep their types");
}

namespace {

struct NamedRounding {
  const char* name;
  graph::Rounding rounding;
};
constexpr std::array kRoundings = {NamedRounding{"model", graph::Rounding::kAsModel},
                                   NamedRounding{"int8", graph::Rounding::kAlways},
                                   NamedRounding{"float", graph::Rounding::kNever}};

}  // namespace

void add_activations_option(Flags& app, std::string& activations) {
  std::vector<std::string> names;
  for (const NamedRounding& r : kRoundings) names.emplace_back(r.name);
  app.add_option("--activations", activations,
                 "What weights of 4 and 8 bits multiply: int8 rounds it to bytes, 32 by 32, where "
                 "the processor multiplies those; float does not; model: as accuracy_level says")
      ->check(one_of(names));
}

Result<graph::Rounding> rounding_of(const std::string& activations) {
  const auto* row = std::ranges::find(kRoundings, activations, &NamedRounding::name);
  if (row != kRoundings.end()) return row->rounding;
  return make_error(ErrorCode::kInvalidArgument, "--activations {}: model, int8 or float",
                    activations);
}

void add_target_option(Flags& app, std::string& target, TargetUse use) {
  static constexpr const char* kHelp[] = {
      "host, cuda or opencl (the device at hand), a machine (see targets) or the row of one (see "
      "machine)",
      "host, or cuda or opencl: the device at hand; or its row (see machine)",
      "Where candidates run: host, cuda or opencl, the device at hand; or its row (see machine)"};
  app.add_option("--target,--machine", target, kHelp[static_cast<std::size_t>(use)])
      ->offers(use == TargetUse::kCode ? code_targets : devices);
}

void add_fast_math_option(Flags& app, ModelArgs& args) {
  app.add_option("--fast-math", args.fast_math,
                 "tf32: multiply f32 on the tensor cores of a GPU, rounded to 10 bits of fraction; "
                 "sums stay f32. bf16x6: multiply f32 there as three parts of bf16, about as exact "
                 "as f32, where that is faster");
}

Result<target::Target> fast_target(const Result<target::Target>& target, const ModelArgs& args) {
  if (!target.ok()) return target.error();
  return target::allow_fast_math(*target, args.fast_math);
}

void add_input_options(Flags& app, ModelArgs& args) {
  app.add_option("--shape", args.shapes, "Shape of an input: NAME:1x3x224x224 (repeatable)");
  app.add_option("--dim", args.dims, "Size of a symbolic dimension: NAME=4 (repeatable)");
  app.add_option("--batch", args.batch,
                 "Batch of the model: the parameter of a built-in one, else the symbolic first "
                 "dimension of the inputs")
      ->check(range(1, 1 << 20))
      ->hide_default();
  app.add_option("--value", args.values,
                 "Value that an input always has: NAME=16000, NAME=[1,2,3], NAME=@file.npy "
                 "(repeatable); the model is then made for it, without that input");
  app.add_option("--max-loop-steps", args.max_loop_steps,
                 "Steps of a Loop or Scan beyond which the model is refused")
      ->check(range(1, INT32_MAX));
}

Result<Shape> parse_shape(const std::string& text) {
  Shape shape;
  if (text.empty() || text == "scalar") return shape;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    TESSERA_TRY(const std::int64_t size, parse_size(text.substr(begin, end - begin), text));
    shape.push_back(size);
    begin = end + 1;
  }
  return shape;
}

Result<void> set_batch(std::int64_t batch, std::string& model,
                       std::map<std::string, std::int64_t>& symbols) {
  if (batch == 0 || model.empty()) return {};
  if (artifact::is_artifact(model)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: an artifact has its shapes; drop --batch",
                      model);
  }
  return app::set_batch(batch, model, symbols);
}

int with_batch(ModelArgs& args, const std::function<int()>& command) {
  if (args.batch > 0 && args.model.empty())
    return report({ErrorCode::kInvalidArgument, "--batch is for models, not for operations"});
  std::map<std::string, std::int64_t> symbols;
  if (const Result<void> set = set_batch(args.batch, args.model, symbols); !set)
    return report_model(set.error());
  for (const auto& [name, size] : symbols) args.dims.push_back(fmt::format("{}={}", name, size));
  return command();
}

Result<onnx::ImportOptions> import_options(const ModelArgs& args) {
  onnx::ImportOptions options;
  options.warn = warn_once;
  options.max_loop_steps = args.max_loop_steps;
  for (const std::string& text : args.shapes) {
    const std::size_t colon = text.rfind(':');  // names may contain colons
    if (colon == std::string::npos || colon == 0) {
      return make_error(ErrorCode::kInvalidArgument, "--shape {}: write NAME:1x3x224x224", text);
    }
    const std::string name = text.substr(0, colon);
    if (options.shapes.contains(name)) {
      return make_error(ErrorCode::kInvalidArgument, "--shape is given twice for '{}'", name);
    }
    TESSERA_TRY(options.shapes[name], parse_shape(text.substr(colon + 1)));
  }
  for (const std::string& text : args.dims) {
    const std::size_t equal = text.rfind('=');
    if (equal == std::string::npos || equal == 0) {
      return make_error(ErrorCode::kInvalidArgument, "--dim {}: write NAME=SIZE", text);
    }
    const std::string name = text.substr(0, equal);
    if (options.symbols.contains(name)) {
      return make_error(ErrorCode::kInvalidArgument, "--dim is given twice for '{}'", name);
    }
    TESSERA_TRY(options.symbols[name], parse_size(text.substr(equal + 1), text));
  }
  for (const std::string& text : args.values) TESSERA_DO(add_value(text, options));
  return options;
}

Result<app::CompileOptions> compile_options(const ModelArgs& args, const target::Target& target) {
  app::CompileOptions options;
  options.target = target;
  TESSERA_TRY(options.import, import_options(args));
  const std::vector<std::string> known = graph::pass_names();
  for (const std::string& name : args.skip) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return make_error(ErrorCode::kInvalidArgument, "no graph pass '{}'; passes are: {}", name,
                        fmt::join(known, " "));
    }
  }
  options.skip_passes = args.skip;
  TESSERA_TRY(options.floats, app::float_type(args.dtype));
  TESSERA_TRY(options.rounding, rounding_of(args.activations));
  return options;
}

Option* add_threads_option(Flags& app, int& threads, const std::string& what) {
  threads = target::default_threads();
  return app.add_option("--threads", threads, what + " (default: one per core)")
      ->check(range(1, 1024))
      ->hide_default();
}

void add_cache_option(Flags& app, bool& no_cache) {
  app.add_flag("--no-cache", no_cache, "Build every kernel; `tessera cache` says what is kept");
}

std::shared_ptr<const kernel::KernelCache> kernel_cache(bool no_cache) {
  return no_cache ? nullptr : kernel::user_kernel_cache();
}

std::function<void(std::size_t, std::size_t)> build_progress() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::size_t done, std::size_t total) {
    fmt::print(stderr, "\rbuilding kernels {}/{}{}", done, total, done == total ? "\n" : "");
    std::fflush(stderr);
  };
}

}  // namespace tessera::cli
