// tessera run: one inference from NumPy files to NumPy files.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/cli/common/arrays.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/plan_args.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/compile/batch.h"
#include "tessera/app/compile/run_once.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

struct RunArgs {
  ModelArgs model;
  PlanArgs plan;
  std::string inputs, output, target = "host";
  int threads = 0;
  bool random = false, no_optimize = false, no_cache = false, json = false;
};

// The tensors in the model's order; what is not given is one of `inputs`, which are random, with
// --random, else an error.
Result<std::vector<HostTensor>> arrange_inputs(const RunArgs& args,
                                               const std::map<std::string, HostTensor>& given,
                                               const std::vector<std::string>& names,
                                               const std::vector<graph::TensorType>& types,
                                               std::vector<HostTensor> inputs) {
  for (const auto& [name, tensor] : given) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: the model has no input '{}'; it has: {}",
                        args.inputs, name, fmt::join(names, " "));
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto it = given.find(names[i]);
    if (it != given.end()) {
      inputs[i] = it->second;
    } else if (!args.random) {
      std::vector<std::string> all;
      for (std::size_t k = 0; k < names.size(); ++k)
        all.push_back(fmt::format("'{}' {}", names[k], to_text(types[k])));
      return make_error(ErrorCode::kInvalidArgument,
                        "input '{}' {} is not given; put it into --inputs, or add --random; the "
                        "inputs are: {}",
                        names[i], to_text(types[i]), fmt::join(all, ", "));
    }
  }
  return inputs;
}

Result<std::map<std::string, HostTensor>> read_inputs(
    const RunArgs& args, const std::function<Result<std::vector<std::string>>()>& names) {
  std::map<std::string, HostTensor> given;
  if (args.inputs.empty()) return given;
  TESSERA_TRY(NamedTensors arrays, read_arrays(args.inputs, names));
  for (NamedTensor& t : arrays) given[t.name] = std::move(t.tensor);
  return given;
}

Result<app::RunOutputs> run_artifact(const RunArgs& args) {
  TESSERA_TRY(const auto loaded,
              artifact::load_artifact(args.model.model, {.threads = args.threads}));
  const artifact::Metadata& m = loaded->metadata();
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const artifact::TensorDescription& t : m.inputs) {
    names.push_back(t.name);
    types.push_back({t.dtype, t.shape});
  }
  TESSERA_TRY(const auto given,
              read_inputs(args, [&]() -> Result<std::vector<std::string>> { return names; }));
  TESSERA_TRY(const std::vector<HostTensor> inputs,
              arrange_inputs(args, given, names, types, app::random_model_inputs(names, types, 1)));
  app::RunOutputs out;
  out.plan_digest = m.plan_digest;
  for (const artifact::TensorDescription& t : m.outputs) out.names.push_back(t.name);
  TESSERA_TRY(out.tensors, loaded->run(inputs));
  return out;
}

Result<app::RunOutputs> run_any(const RunArgs& args, std::optional<app::PlanSchedules>* plan) {
  if (artifact::is_artifact(args.model.model)) {
    if (args.target != "host" || !args.model.fast_math.empty())
      return make_error(ErrorCode::kInvalidArgument, "an artifact has its target; drop --{}",
                        args.target != "host" ? "target" : "fast-math");
    if (args.plan.plan.empty()) return run_artifact(args);
    return make_error(ErrorCode::kInvalidArgument, "an artifact has its schedules; drop --plan");
  }
  TESSERA_TRY(const target::Target machine,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_TRY(*plan, plan_schedules(args.plan, machine));
  TESSERA_TRY(app::CompileOptions options,
              compile_options(args.model, target::code_target(machine, args.threads)));
  options.plan = *plan;
  options.optimize = !args.no_optimize;
  options.cache = kernel_cache(args.no_cache);
  options.progress = build_progress();
  std::string last;  // said when the work is done
  options.note = [&](const std::string& line) { last = line; };
  app::ModelSource source(args.model.model);
  const auto names = [&]() -> Result<std::vector<std::string>> {
    TESSERA_TRY(const onnx::Model* model, source.model());
    return app::open_inputs(model->graph, options.import);
  };
  TESSERA_TRY(const auto given, read_inputs(args, names));
  for (const auto& [name, tensor] : given) {
    if (options.import.values.contains(name) || options.import.literals.contains(name)) {
      return make_error(ErrorCode::kInvalidArgument, "input '{}' is in --inputs and in --value",
                        name);
    }
    options.import.shapes.try_emplace(name, tensor.shape());
  }
  warn_of_origin(args.plan, *plan, machine, args.threads);
  const auto give = [&](const std::vector<std::string>& wanted,
                        const std::vector<graph::TensorType>& types,
                        const exec::CompiledModel* model) {
    return arrange_inputs(
        args, given, wanted, types,
        model ? app::random_model_inputs(*model, 1) : app::random_model_inputs(wanted, types, 1));
  };
  TESSERA_TRY(app::RunOutputs out, app::run_once(source, options, give));
  if (!last.empty()) fmt::print(stderr, "tessera: {}\n", last);
  return out;
}

struct Summary {
  double low = 0, high = 0, mean = 0;
};

Summary summary_of(const HostTensor& t) {
  Summary out;
  double sum = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double v = t.get_float(i);
    out.low = i == 0 ? v : std::min(out.low, v);
    out.high = i == 0 ? v : std::max(out.high, v);
    sum += v;
  }
  if (t.size() > 0) out.mean = sum / static_cast<double>(t.size());
  return out;
}

void print_outputs(const RunArgs& args, const app::RunOutputs& out) {
  Json json = {{"model", args.model.model}, {"plan_digest", out.plan_digest}, {"outputs", {}}};
  for (std::size_t i = 0; i < out.names.size(); ++i) {
    const HostTensor& t = out.tensors[i];
    const std::string type = to_text(graph::TensorType{t.dtype(), t.shape()});
    const Summary s = summary_of(t);
    if (!args.json) {
      fmt::print("{} {} min {:g} max {:g} mean {:g}\n", out.names[i], type, s.low, s.high, s.mean);
    }
    json["outputs"].push_back({{"name", out.names[i]},
                               {"type", type},
                               {"min", s.low},
                               {"max", s.high},
                               {"mean", s.mean}});
  }
  if (args.json) print_json(json);
}

int run_command(const RunArgs& args) {
  std::optional<app::PlanSchedules> plan;
  const Result<app::RunOutputs> out = run_any(args, &plan);
  if (const auto code = report_misses(args.plan, plan)) return *code;
  if (!out) return report_model(app::about_model(out.error(), args.model.model));
  NamedTensors named;
  for (std::size_t i = 0; i < out->names.size(); ++i)
    named.push_back({out->names[i], out->tensors[i]});
  if (!args.output.empty()) {
    const Result<void> written = write_arrays(args.output, named);
    if (!written) return report(written.error());
  }
  print_outputs(args, *out);
  return kOk;
}

}  // namespace

void add_run(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("run", "Run a model or an artifact once on NumPy arrays");
  sub->footer(
      "Examples:\n  tessera run model.onnx --inputs x.npz -o y.npz\n"
      "  tessera run zoo:resnet18 --random\n  tessera run DIR --inputs x.npz -o y.npz");
  const auto args = std::make_shared<RunArgs>();
  add_model_options(*sub, args->model, true);
  add_plan_options(*sub, args->plan);
  sub->add_option("--inputs", args->inputs,
                  "NumPy .npz: one array per input, by name; .npy: the only input")
      ->check(existing_file());
  sub->add_option("-o,--output", args->output,
                  "NumPy .npz to write: one array per output; .npy: the only output");
  add_target_option(*sub, args->target, TargetUse::kRun);
  add_fast_math_option(*sub, args->model);
  add_threads_option(*sub, args->threads, "Threads of the code");
  sub->add_flag("--random", args->random, "Seeded random values for inputs that are not given");
  sub->add_flag("--no-optimize", args->no_optimize, "Run the graph as imported, without passes");
  add_cache_option(*sub, args->no_cache);
  sub->add_flag("--json", args->json, "Print JSON, with a digest of the kernels");
  sub->callback([args, run] {
    *run = [args] { return with_batch(args->model, [&] { return run_command(*args); }); };
  });
}

}  // namespace tessera::cli
