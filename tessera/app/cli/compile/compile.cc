// tessera compile: a model as a library with a C header, for this machine or another.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tessera/app/bench/write_artifact.h"
#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/plan_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/backend/artifact/cmake_config.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/counted.h"
#include "tessera/support/split_commas.h"

namespace tessera::cli {
namespace {

struct CompileArgs {
  ModelArgs model;
  PlanArgs plan;
  std::string output, target = "host", emit = "so", weights = "auto", picked;
  std::string cost_model, language = app::kNoModel;  // empty: as the language needs it
  artifact::ArtifactOptions options;
  int threads = 0;  // 0: one per core of the target
  bool check = false, json = false;
};

// The machine, with the threads that the code is made for.
target::Target code_target(const target::Target& machine, const CompileArgs& args) {
  if (args.threads > 0) return target::code_target(machine, args.threads);
  return args.target == "host" ? target::code_target(machine, target::default_threads()) : machine;
}

// An empty plan where no model judged.
Result<void> save_picked(const CompileArgs& args, const target::Target& target,
                         const std::optional<app::ZeroTrialResult>& judged) {
  plan::Plan picked;
  if (judged) picked = judged->plan;
  picked.model = args.model.model;
  picked.target = target::to_text(target);
  picked.threads = target.code_threads();
  return plan::save_plan(picked, args.picked);
}

std::ptrdiff_t count_changed(const app::ZeroTrialResult& r) {
  return std::count_if(r.tasks.begin(), r.tasks.end(),
                       [](const app::TaskPrediction& t) { return t.changed; });
}

// What the plan lacks is left to learned models. Where they changed nothing the plan itself says
// what it lacks.
void warn_of_judged(const CompileArgs& args, const app::WrittenArtifact& written) {
  if (args.plan.plan.empty() || !written.judged || count_changed(*written.judged) == 0) return;
  print_warning(fmt::format("{}: has schedules for {} of {} tasks; learned models judge the others",
                            args.plan.plan, written.tasks - written.judged->tasks.size(),
                            written.tasks));
}

// Everything but the plan.
Result<app::CompileOptions> options_for(const target::Target& target, const CompileArgs& args) {
  if (target.cpu.starts_with("apple")) {
    print_warning(fmt::format("{}: writes ELF files for Linux on such a machine, none for macOS",
                              target.name));
  }
  TESSERA_TRY(app::CompileOptions how, compile_options(args.model, code_target(target, args)));
  const bool written = args.language != app::kNoModel;
  how.cost_model = !args.cost_model.empty() ? args.cost_model
                   : written                ? app::kShipped
                                            : app::kNoModel;
  how.language = args.language;
  how.note = [](const std::string& line) { fmt::print(stderr, "tessera: {}\n", line); };
  how.progress = build_progress();
  return how;
}

Result<app::WrittenArtifact> compile_several(const CompileArgs& args,
                                             const std::vector<std::string>& names,
                                             const artifact::ArtifactOptions& options) {
  if (!args.plan.plan.empty() || !args.picked.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--target {}: {} is of one target, so give only one", args.target,
                      args.picked.empty() ? "a plan" : "--picked");
  }
  std::vector<app::NamedTarget> targets;
  for (const std::string& name : names) {
    TESSERA_TRY(const target::Target target,
                fast_target(runtime::resolve_target(name), args.model));
    TESSERA_TRY(app::CompileOptions how, options_for(target, args));
    targets.push_back({name, std::move(how)});
  }
  app::ModelSource source(args.model.model);
  return app::write_variants(source, targets, args.output, options, args.check);
}

Result<app::WrittenArtifact> compile(const CompileArgs& args,
                                     std::optional<app::PlanSchedules>* plan) {
  static const std::map<std::string, artifact::Emit> kEmit = {{"so", artifact::Emit::kShared},
                                                              {"a", artifact::Emit::kStatic},
                                                              {"obj", artifact::Emit::kObject}};
  static const std::map<std::string, artifact::WeightsPlace> kWeights = {
      {"auto", artifact::WeightsPlace::kAuto},
      {"embed", artifact::WeightsPlace::kEmbedded},
      {"file", artifact::WeightsPlace::kFile}};
  artifact::ArtifactOptions options = args.options;
  options.emit = kEmit.at(args.emit);
  options.weights = kWeights.at(args.weights);
  if (options.name.empty()) options.name = artifact::default_name(args.model.model);
  if (const std::vector<std::string> names = split_commas(args.target); names.size() > 1)
    return compile_several(args, names, options);
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_TRY(app::CompileOptions how, options_for(target, args));
  TESSERA_TRY(*plan, plan_schedules(args.plan, target));
  how.plan = *plan;
  warn_of_origin(args.plan, *plan, target, how.target.code_threads());
  app::ModelSource source(args.model.model);
  TESSERA_TRY(app::WrittenArtifact out,
              app::write_artifact(source, how, args.output, options, args.check));
  warn_of_judged(args, out);
  if (!args.picked.empty()) TESSERA_DO(save_picked(args, how.target, out.judged));
  return out;
}

void print_report(const CompileArgs& args, const artifact::ArtifactReport& r) {
  const artifact::Metadata& m = r.metadata;
  const std::filesystem::path folder(args.output);
  fmt::print("{}\n", (folder / m.library).string());
  fmt::print("{}\n", (folder / (m.name + ".h")).string());
  fmt::print("{}\n", (folder / (m.name + ".json")).string());
  fmt::print("{}\n", (folder / artifact::cmake_config_name(m)).string());
  if (!m.weights_file.empty()) fmt::print("{}\n", (folder / m.weights_file).string());
  const bool processor = m.device == target::Kind::kCpu;
  fmt::print(stderr, "{} for {}: {}{}, {} bytes of weights, {} bytes of arena; {:.1f} s\n", m.name,
             processor ? m.triple : target::to_text(m.device), counted(m.steps.size(), "kernel"),
             processor || m.code.empty() ? "" : fmt::format(" as {}", fmt::join(m.code, ", ")),
             m.weights_bytes, m.arena_bytes, (r.build_ms + r.code_ms + r.link_ms) / 1000);
  if (m.variants.empty()) return;
  std::vector<std::string> names;
  for (const artifact::VariantDescription& v : m.variants) names.push_back(v.name);
  fmt::print(stderr, "{} variants, tried in this order: {}; they share {} bytes of weights\n",
             names.size(), fmt::join(names, ", "), r.shared_weights);
}

// Without the assembler, opening takes longer: worth knowing before it is shipped.
void print_assembling(const artifact::Metadata& m) {
  const target::KindRow& row = target::row_of(m.device);
  const auto has = [&](std::string_view kind) {
    return std::ranges::find(m.code, kind) != m.code.end();
  };
  if (row.assembled.empty() || has(row.assembled) || !has(row.code)) return;
  fmt::print(stderr,
             "no {} was found: the driver assembles the kernels when the library is opened\n",
             row.assembler);
}

// The metadata, and what only a compilation knows.
void print_json_report(const app::WrittenArtifact& written) {
  auto json = nlohmann::ordered_json::parse(artifact::to_json(written.report.metadata));
  json["layers"] = nlohmann::ordered_json::array();
  for (const app::LayerType& l : written.layers)
    json["layers"].push_back({{"name", l.name}, {"type", l.type}, {"reason", l.reason}});
  fmt::print("{}\n", json.dump(2));
}

// What the models changed, if anything: nothing was measured.
void print_choices(const app::ZeroTrialResult& r) {
  const std::ptrdiff_t changed = count_changed(r);
  if (changed == 0) return;
  fmt::print(stderr,
             "{} of {} by learned models instead of the default schedules; nothing was measured\n",
             changed, counted(r.tasks.size(), "kernel"));
}

// What else could be done for speed: without a plan, measure.
void print_next_step(const CompileArgs& args) {
  if (!args.plan.plan.empty()) return;
  fmt::print(stderr, "to search for faster schedules by measuring{}: tessera tune {}\n",
             args.target == "host" ? "" : ", on such a machine", args.model.model);
}

int compile_command(const CompileArgs& args) {
  std::optional<app::PlanSchedules> plan;
  const Result<app::WrittenArtifact> result = compile(args, &plan);
  if (const auto code = report_misses(args.plan, plan)) return *code;
  if (!result.ok()) return report_model(result.error());
  if (args.json) {
    print_json_report(*result);
  } else {
    print_report(args, result->report);
  }
  fmt::print(
      stderr, "{}\n",
      result->check ? to_text(*result->check) : "not compared with the model; --check compares it");
  // On stderr, beside JSON too.
  print_assembling(result->report.metadata);
  if (result->judged) print_choices(*result->judged);
  if (result->narrow_share > 0)
    fmt::print(stderr, "{:.1f} % of multiplications in f16 or bf16\n", 100 * result->narrow_share);
  if (const std::string line = app::layers_line(result->layers); !line.empty())
    fmt::print(stderr, "{}\n", line);
  if (!result->faster_floats.empty()) fmt::print(stderr, "{}\n", result->faster_floats);
  print_next_step(args);
  return result->check && result->check->wrong() ? kWrongNumbers : kOk;
}

}  // namespace

void add_compile(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("compile", "Write a model as a library with a C header");
  sub->footer(
      "Examples:\n  tessera compile model.onnx -o out\n"
      "  tessera compile zoo:resnet18 -o out --emit a --weights file --target x86-64-v3\n"
      "  tessera compile model.onnx -o out --plan model.plan --strict\n"
      "  tessera compile zoo:resnet18 -o out --target h200\n"
      "  tessera compile model.onnx -o out --target x86-64-v3,x86-64-v4,sapphirerapids\n"
      "The folder holds libNAME.so (libNAME.a, NAME.o), NAME.h, NAME.json and NAMEConfig.cmake;\n"
      "docs/guide/artifacts.md says more.");
  const auto args = std::make_shared<CompileArgs>();
  add_model_options(*sub, args->model, true);
  add_plan_options(*sub, args->plan);
  sub->add_option("-o,--output", args->output, "Folder to write; an older artifact is replaced")
      ->required();
  sub->add_option("--emit", args->emit,
                  "A shared library, a static one, or an object; the last two need no C compiler")
      ->check(one_of({"so", "a", "obj"}));
  sub->add_option("--weights", args->weights,
                  "embed: inside the library; file: NAME.safetensors; auto: embed below 64 MiB")
      ->check(one_of({"auto", "embed", "file"}));
  add_target_option(*sub, args->target, TargetUse::kCode);
  add_fast_math_option(*sub, args->model);
  sub->add_option("--threads", args->threads,
                  "Threads that the code is made for (default: one per core of the target)")
      ->check(range(1, 1024))
      ->hide_default();
  sub->add_option(
         "--cost-model", args->cost_model,
         "Cost model that may replace default schedules of one-threaded code and of GPUs, "
         "nothing measured, where it was trained on kernels of the kind: a file, several that "
         "judge together (A,B,C), shipped, or none (default; with --language, shipped)")
      ->hide_default();
  sub->renamed("--search-model", "--cost-model");
  sub->add_option("--language", args->language,
                  "Language model that proposes schedules to the cost model: a file, shipped, or "
                  "none (default)");
  sub->add_option("--picked", args->picked,
                  "Also write what the models picked as a plan, for bench --plan");
  sub->add_option("--name", args->options.name,
                  "Prefix of files and symbols (default: the model's)");
  sub->add_option("--cc", args->options.cc,
                  "C compiler that links libNAME.so (default: the system's for the target)");
  sub->add_flag("--check", args->check,
                "Compare its outputs with those of the model compiled in this process");
  sub->add_flag("--json", args->json,
                "Print the metadata of the artifact, and the type of each layer");
  sub->callback([args, run] {
    *run = [args] { return with_batch(args->model, [&] { return compile_command(*args); }); };
  });
}

}  // namespace tessera::cli
