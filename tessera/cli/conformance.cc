// tessera conformance: the ONNX backend cases below a folder, through compiled code.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/driver/load_graph.h"
#include "tessera/driver/model_runner.h"
#include "tessera/onnx/backend_case.h"

namespace tessera::cli {
namespace {

struct ConformanceArgs {
  std::string folder, filter;
  bool json = false, interpret = false, failures = false;
  int jobs = 0;
};

Result<std::vector<HostTensor>> run_compiled(const graph::Graph& imported,
                                             const std::vector<HostTensor>& inputs) {
  graph::Graph graph = imported;
  TESSERA_DO(graph::optimize(graph, {}));
  driver::ModelOptions options;
  options.build_threads = 1;
  TESSERA_TRY(const driver::CompiledModel model,
              driver::compile_model(graph, target::host(), options));
  runtime::ThreadPool pool({.threads = 1});
  return driver::run_model(model, pool, inputs);
}

std::vector<onnx::CaseResult> run_all(const std::vector<std::string>& folders,
                                      const ConformanceArgs& args) {
  std::vector<onnx::CaseResult> results(folders.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < folders.size(); i = next++) {
      results[i] = onnx::run_backend_case(
          folders[i], {}, args.interpret ? onnx::RunGraph(graph::evaluate) : run_compiled);
    }
  };
  const unsigned jobs =
      args.jobs > 0 ? static_cast<unsigned>(args.jobs) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < jobs; ++t) threads.emplace_back(work);
  work();
  return results;
}

int conformance(const ConformanceArgs& args) {
  Result<std::vector<std::string>> folders = onnx::find_backend_cases(args.folder);
  if (!folders) return report(folders.error());
  std::erase_if(*folders, [&](const std::string& f) { return f.find(args.filter) == std::string::npos; });
  if (folders->empty()) {
    return report(make_error(ErrorCode::kInvalidArgument, "{}: no case (model.onnx with test_data_set_0)", args.folder));
  }
  const std::vector<onnx::CaseResult> results = run_all(*folders, args);
  std::map<onnx::Verdict, int> count;
  auto cases = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string name = std::filesystem::relative((*folders)[i], args.folder).string();
    ++count[results[i].verdict];
    const char* verdict = onnx::to_text(results[i].verdict);
    if (args.json) {
      nlohmann::ordered_json c = {{"name", name == "." ? (*folders)[i] : name}, {"status", verdict}};
      if (!results[i].reason.empty()) c["reason"] = results[i].reason;
      cases.push_back(c);
    } else if (!args.failures || results[i].verdict != onnx::Verdict::kPass) {
      fmt::print("{:<12} {} {}\n", verdict, name, results[i].reason);
    }
  }
  const int passed = count[onnx::Verdict::kPass], failed = count[onnx::Verdict::kFail],
            unsupported = count[onnx::Verdict::kUnsupported];
  if (args.json) {
    const nlohmann::ordered_json j = {
        {"passed", passed}, {"failed", failed}, {"unsupported", unsupported}, {"cases", cases}};
    fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} passed, {} failed, {} unsupported of {}\n", passed, failed, unsupported, results.size());
  }
  return failed > 0 ? kWrongNumbers : kOk;
}

}  // namespace

void add_conformance(CLI::App& app, std::function<int()>* run) {
  CLI::App* sub = app.add_subcommand("conformance", "Run the ONNX backend cases below a folder");
  sub->footer("Examples:\n  tessera conformance /usr/share/libonnx-testdata/data\n"
              "  tessera conformance DIR --filter conv --failures");
  const auto args = std::make_shared<ConformanceArgs>();
  sub->add_option("DIR", args->folder, "Folder with cases: model.onnx beside test_data_set_*/")
      ->required()
      ->check(CLI::ExistingDirectory);
  sub->add_option("--filter", args->filter, "Only cases whose path contains this");
  sub->add_option("--jobs", args->jobs, "Cases at once (default: one per core)")->check(CLI::Range(1, 256));
  sub->add_flag("--failures", args->failures, "Print only cases that did not pass");
  sub->add_flag("--interpret", args->interpret, "Run the unoptimised graph by the interpreter instead of compiled code");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] { *run = [args] { return conformance(*args); }; });
}

}  // namespace tessera::cli
