#include "check_graph.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/staged_model.h"
#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/frontend/graph/roundings.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/rng.h"
#include "tests/testing/testing.h"

namespace tessera::fuzz {
namespace {

using Outputs = std::vector<HostTensor>;

std::string bits_differ(const Outputs& got, const Outputs& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].bytes() == 0) continue;
    if (std::memcmp(got[i].data(), want[i].data(), want[i].bytes()) == 0) continue;
    const std::string values = testing::mismatch(got[i], want[i], 0);
    return fmt::format("output {} {}", i, values.empty() ? "differs in its bits" : values);
  }
  return "";
}

class Checker {
 public:
  Checker(const Case& c, const CheckOptions& options) : case_(c), options_(options) {}

  std::string check() {
    if (std::string bad = prepare(); !bad.empty()) return bad;
    if (waits_for_data_) return check_split();
    if (std::string bad = check_graph_("import", imported_); !bad.empty()) return bad;
    const auto graph = app::import_graph(model_, load_);
    if (!graph.ok()) return "passes: " + graph.error().message;
    if (std::string bad = check_graph_("passes", *graph); !bad.empty()) return bad;
    if (options_.plan != 0) {
      if (std::string bad = check_plan(); !bad.empty()) return bad;
    }
    if (!options_.compile) return "";
    if (std::string bad = check_code(*graph); !bad.empty()) return bad;
    return options_.opencl ? check_opencl() : "";
  }

 private:
  // Reads the model back from its bytes and imports it as it is.
  std::string prepare() {
    const auto bytes = onnx::serialize_model(case_.model);
    if (!bytes.ok()) return "write: " + bytes.error().message;
    auto model = onnx::parse_model(*bytes, "");
    if (!model.ok()) return "read: " + model.error().message;
    model_ = std::move(*model);
    load_.import.symbols = case_.symbols;
    load_.build_threads = 1;
    auto trace = trace_case(case_);
    if (!trace.ok()) return "oracle: " + trace.error().message;
    trace_ = std::move(*trace);
    auto imported = app::import_graph(model_, load_);
    waits_for_data_ = !imported.ok() && imported.error().code == ErrorCode::kDataDependent;
    if (waits_for_data_) return "";
    if (!imported.ok()) return "import: " + imported.error().message;
    imported_ = std::move(*imported);
    for (const graph::ValueId id : imported_.inputs) {
      inputs_.push_back(case_.inputs.at(imported_.value(id).name));
    }
    for (const Roundings& r : graph::roundings(imported_)) tolerances_.push_back(tolerance(r));
    return "";
  }

  std::string differs(const std::string& name, const HostTensor& got, double relative) const {
    const HostTensor& want = trace_.at(name).value;
    if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
      return testing::mismatch(got, want, 0);
    }
    if (!is_float(want.dtype())) return testing::mismatch(got, want, 0);
    double most = 0;
    for (std::int64_t i = 0; i < want.size(); ++i) {
      const double size = std::fabs(want.get_float(i));
      if (std::isfinite(size)) most = std::fmax(most, size);
    }
    for (std::int64_t i = 0; i < want.size(); ++i) {
      const double g = got.get_float(i), w = want.get_float(i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;  // infinities have no distance
      const double allowed = relative * most + trace_.spread(name, i);
      if (!(std::fabs(g - w) <= allowed)) {
        return fmt::format("{}; {:.3g} is allowed at {}", testing::mismatch(got, want, allowed),
                           allowed, i);
      }
    }
    return "";
  }

  void count(int Counts::*way) const {
    if (options_.counts != nullptr) ++(options_.counts->*way);
  }

  std::string compare(const std::string& way, const Result<Outputs>& got) const {
    const auto& outputs = case_.model.graph.outputs;
    if (!got.ok()) return fmt::format("{}: {}", way, got.error().message);
    if (got->size() != outputs.size()) return fmt::format("{}: {} outputs", way, got->size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const double relative = i < tolerances_.size() ? tolerances_[i] : 1e-4;
      const std::string bad = differs(outputs[i].name, (*got)[i], relative);
      if (!bad.empty()) return fmt::format("{}: output {} {}", way, outputs[i].name, bad);
    }
    return "";
  }

  std::string check_graph_(const std::string& way, const graph::Graph& graph) const {
    return compare(way, graph::evaluate(graph, inputs_));
  }

  std::string check_plan() {
    plan::Decider decider({}, [rng = Rng(options_.plan)](const plan::Point& p) mutable {
      return static_cast<std::int32_t>(rng.below(std::ssize(p.labels)));
    });
    const auto undecided = app::import_undecided(model_, load_);
    if (!undecided.ok()) return "plan: " + undecided.error().message;
    const auto drawn = task::apply_plan(*undecided, app::passes_for(load_), {}, std::move(decider));
    if (!drawn.ok()) return "plan: " + drawn.error().message;
    std::string bad = check_graph_("plan", drawn->graph);
    if (bad.empty() && options_.compile && !drawn->decided.empty()) {
      const auto model =
          exec::compile_model(drawn->graph, drawn->tasks, target::host(), model_options());
      if (!model.ok()) return "plan: " + model.error().message;
      count(&Counts::plans);
      bad = compare("plan compiled", exec::run_model(*model, single(), inputs_));
    }
    if (bad.empty()) return "";
    for (const plan::Decided& d : drawn->decided)
      bad += fmt::format("\n  {} = {}", d.point.name, d.text());
    return bad;
  }

  static exec::ModelOptions model_options() {
    exec::ModelOptions options;
    options.build_threads = 1;
    options.codegen.verify_llvm = true;
    return options;
  }

  static runtime::Device& single() {
    static runtime::CpuDevice device({.threads = 1});
    return device;
  }

  std::string check_code(const graph::Graph& graph) {
    const auto model = exec::compile_model(graph, target::host(), model_options());
    if (!model.ok()) return "code: " + model.error().message;
    count(&Counts::compiled);
    const Result<Outputs> one = exec::run_model(*model, single(), inputs_);
    if (std::string bad = compare("code", one); !bad.empty()) return bad;
    static runtime::CpuDevice several({.threads = 3, .spin_us = 0});
    const Result<Outputs> three = exec::run_model(*model, several, inputs_);
    if (!three.ok()) return "threads: " + three.error().message;
    if (std::string bad = bits_differ(*three, *one); !bad.empty()) return "threads: " + bad;
    for (const exec::CompiledModel::Step& step : model->steps) {
      if (step.op != nullptr) return "";  // artifacts have no host operators
    }
    return options_.artifact ? check_artifact(graph, *one) : "";
  }

  std::string check_artifact(const graph::Graph& graph, const Outputs& want) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("tessera-random-graphs-{}", getpid());
    artifact::ArtifactOptions options;
    options.name = "random";
    options.model = model_options();
    const auto written =
        artifact::compile_artifact(graph, target::host(), folder.string(), options);
    if (!written.ok()) {
      return written.error().code == ErrorCode::kUnavailable
                 ? ""
                 : "artifact: " + written.error().message;
    }
    count(&Counts::artifacts);
    std::string bad;
    {
      const auto loaded = artifact::load_artifact(folder.string(), {.threads = 1});
      const Result<Outputs> got =
          loaded.ok() ? (*loaded)->run(inputs_) : Result<Outputs>(loaded.error());
      bad = got.ok() ? bits_differ(*got, want) : got.error().message;
    }
    std::filesystem::remove_all(folder);
    return bad.empty() ? "" : "artifact: " + bad;
  }

  std::string check_opencl() {
    static const auto device = runtime::open_device(target::Kind::kOpenCl);
    if (!device.ok()) return "opencl: " + device.error().message;
    app::CompileOptions load;
    load.target = (*device)->target();
    load.import = load_.import;
    const auto graph = app::load_graph(model_, load);
    if (!graph.ok()) return "opencl: " + graph.error().message;
    exec::ModelOptions options = model_options();
    options.device = device->get();
    const auto model = exec::compile_model(*graph, (*device)->target(), options);
    if (!model.ok()) return "opencl: " + model.error().message;
    count(&Counts::opencl);
    return compare("opencl", exec::run_model(*model, **device, inputs_));
  }

  std::string check_split() {
    auto ran = app::run_staged(model_, case_.inputs, load_);
    if (!ran.ok()) return "split: " + ran.error().message;
    count(&Counts::parts);
    return compare("split", std::move(ran->outputs));
  }

  const Case& case_;
  const CheckOptions& options_;
  onnx::Model model_;
  app::CompileOptions load_;
  Trace trace_{{}};
  graph::Graph imported_;
  bool waits_for_data_ = false;
  Outputs inputs_;
  std::vector<double> tolerances_;
};

}  // namespace

std::string check_graph(const Case& c, const CheckOptions& options) {
  try {
    return Checker(c, options).check();
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
}

bool is_comparison(const std::string& failure) {
  return failure.substr(way_of(failure).size()).starts_with(": output ");
}

std::string way_of(const std::string& failure) { return failure.substr(0, failure.find(':')); }

}  // namespace tessera::fuzz
