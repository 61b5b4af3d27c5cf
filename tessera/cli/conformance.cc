// tessera conformance: the ONNX backend cases below a folder, through compiled code.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/driver/load_graph.h"
#include "tessera/exec/model_runner.h"
#include "tessera/onnx/backend_case.h"

namespace tessera::cli {
namespace {

struct ConformanceArgs {
  std::string folder, filter;
  bool json = false, markdown = false, interpret = false, failures = false;
  int jobs = 0;
};

Result<std::vector<HostTensor>> run_compiled(const graph::Graph& imported,
                                             const std::vector<HostTensor>& inputs) {
  graph::Graph graph = imported;
  TESSERA_DO(graph::optimize(graph, {}));
  exec::ModelOptions options;
  options.build_threads = 1;
  TESSERA_TRY(const exec::CompiledModel model, exec::compile_model(graph, target::host(), options));
  runtime::ThreadPool pool({.threads = 1});
  return exec::run_model(model, pool, inputs);
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
  const unsigned jobs = args.jobs > 0 ? static_cast<unsigned>(args.jobs)
                                      : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < jobs; ++t) threads.emplace_back(work);
  work();
  return results;
}

struct Case {
  std::string name;  // relative to the folder asked for
  onnx::CaseResult result;
};

using Counts = std::map<onnx::Verdict, int>;

Counts count(const std::vector<Case>& cases) {
  Counts counts;
  for (const Case& c : cases) ++counts[c.result.verdict];
  return counts;
}

void print_json(const std::vector<Case>& cases) {
  auto list = nlohmann::ordered_json::array();
  for (const Case& c : cases) {
    nlohmann::ordered_json one = {{"name", c.name}, {"status", onnx::to_text(c.result.verdict)}};
    if (!c.result.reason.empty()) one["reason"] = c.result.reason;
    list.push_back(one);
  }
  Counts counts = count(cases);
  const nlohmann::ordered_json j = {{"passed", counts[onnx::Verdict::kPass]},
                                    {"failed", counts[onnx::Verdict::kFail]},
                                    {"unsupported", counts[onnx::Verdict::kUnsupported]},
                                    {"cases", list}};
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const std::vector<Case>& cases, bool failures) {
  for (const Case& c : cases) {
    if (failures && c.result.verdict == onnx::Verdict::kPass) continue;
    fmt::print("{:<12} {} {}\n", onnx::to_text(c.result.verdict), c.name, c.result.reason);
  }
  Counts counts = count(cases);
  fmt::print("{} passed, {} failed, {} unsupported of {}\n", counts[onnx::Verdict::kPass],
             counts[onnx::Verdict::kFail], counts[onnx::Verdict::kUnsupported], cases.size());
}

std::string table_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.replace(at, 1, "\\|");
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Counts of each group (the first part of the names), then every case that did not pass.
void print_markdown(const std::vector<Case>& cases) {
  std::map<std::string, std::vector<Case>> groups;
  for (const Case& c : cases) groups[c.name.substr(0, c.name.find('/'))].push_back(c);
  fmt::print("| group | cases | passed | failed | unsupported |\n|---|---:|---:|---:|---:|\n");
  const auto row = [](const std::string& name, const std::vector<Case>& group) {
    Counts counts = count(group);
    fmt::print("| {} | {} | {} | {} | {} |\n", name, group.size(), counts[onnx::Verdict::kPass],
               counts[onnx::Verdict::kFail], counts[onnx::Verdict::kUnsupported]);
  };
  for (const auto& [name, group] : groups) row(name, group);
  row("all", cases);
  fmt::print("\n| case | reason |\n|---|---|\n");
  for (const Case& c : cases) {
    if (c.result.verdict != onnx::Verdict::kPass) {
      fmt::print("| {} | {} |\n", c.name, table_cell(c.result.reason));
    }
  }
}

int conformance(const ConformanceArgs& args) {
  Result<std::vector<std::string>> folders = onnx::find_backend_cases(args.folder);
  if (!folders) return report(folders.error());
  std::erase_if(*folders,
                [&](const std::string& f) { return f.find(args.filter) == std::string::npos; });
  if (folders->empty()) {
    return report(make_error(ErrorCode::kInvalidArgument,
                             "{}: no case (model.onnx with test_data_set_0)", args.folder));
  }
  const std::vector<onnx::CaseResult> results = run_all(*folders, args);
  std::vector<Case> cases;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string name = std::filesystem::relative((*folders)[i], args.folder).string();
    cases.push_back({name == "." ? (*folders)[i] : name, results[i]});
  }
  if (args.json) {
    print_json(cases);
  } else if (args.markdown) {
    print_markdown(cases);
  } else {
    print_text(cases, args.failures);
  }
  return count(cases)[onnx::Verdict::kFail] > 0 ? kWrongNumbers : kOk;
}

}  // namespace

void add_conformance(CLI::App& app, std::function<int()>* run) {
  CLI::App* sub = app.add_subcommand("conformance", "Run the ONNX backend cases below a folder");
  sub->footer(
      "Examples:\n  tessera conformance /usr/share/libonnx-testdata/data\n"
      "  tessera conformance DIR --filter conv --failures");
  const auto args = std::make_shared<ConformanceArgs>();
  sub->add_option("DIR", args->folder, "Folder with cases: model.onnx beside test_data_set_*/")
      ->required()
      ->check(CLI::ExistingDirectory);
  sub->add_option("--filter", args->filter, "Only cases whose path contains this");
  sub->add_option("--jobs", args->jobs, "Cases at once (default: one per core)")
      ->check(CLI::Range(1, 256));
  sub->add_flag("--failures", args->failures, "Print only cases that did not pass");
  sub->add_flag("--interpret", args->interpret,
                "Run the unoptimised graph by the interpreter instead of compiled code");
  CLI::Option* json = sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--markdown", args->markdown, "Print the tables of docs/conformance.md")
      ->excludes(json);
  sub->callback([args, run] { *run = [args] { return conformance(*args); }; });
}

}  // namespace tessera::cli
