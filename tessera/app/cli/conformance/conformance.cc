// tessera conformance: the ONNX backend cases below a folder, through compiled code.
#include "tessera/app/compile/conformance.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

struct ConformanceArgs {
  std::string folder, filter, mode = "compiled";
  bool json = false, markdown = false, failures = false;
  int jobs = 0;
};

using Counts = std::map<onnx::Verdict, int>;

Counts count(const std::vector<app::ConformanceCase>& cases) {
  Counts counts;
  for (const app::ConformanceCase& c : cases) ++counts[c.result.verdict];
  return counts;
}

std::map<app::Ran, int> count_ran(const std::vector<app::ConformanceCase>& cases) {
  std::map<app::Ran, int> counts;
  for (const app::ConformanceCase& c : cases) ++counts[c.ran];
  return counts;
}

void print_json(const std::vector<app::ConformanceCase>& cases) {
  auto list = Json::array();
  for (const app::ConformanceCase& c : cases) {
    Json one = {
        {"name", c.name}, {"status", onnx::to_text(c.result.verdict)}, {"ran", to_text(c.ran)}};
    if (!c.result.reason.empty()) one["reason"] = c.result.reason;
    list.push_back(one);
  }
  Counts counts = count(cases);
  Json ran;
  for (const auto& [how, number] : count_ran(cases)) ran[to_text(how)] = number;
  const Json j = {{"passed", counts[onnx::Verdict::kPass]},
                  {"failed", counts[onnx::Verdict::kFail]},
                  {"unsupported", counts[onnx::Verdict::kUnsupported]},
                  {"ran", ran},
                  {"cases", list}};
  fmt::print("{}\n", j.dump(2));
}

void print_text(const std::vector<app::ConformanceCase>& cases, bool failures) {
  for (const app::ConformanceCase& c : cases) {
    if (failures && c.result.verdict == onnx::Verdict::kPass) continue;
    fmt::print("{:<12} {:<8} {} {}\n", onnx::to_text(c.result.verdict), to_text(c.ran), c.name,
               c.result.reason);
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

// A reason without what only its case has: the node it names, the name of a tensor.
std::string shared_reason(const std::string& reason) {
  static const std::regex node("^(unsupported: )?(node '[^']*' \\([^)]*\\): )?");
  static const std::regex tensor("^'[^']*' is of type");
  return std::regex_replace(std::regex_replace(reason, node, ""), tensor, "a tensor is of type");
}

// Counts of each group (the first part of the names), and every case that did not pass, by reason.
void print_markdown(const std::vector<app::ConformanceCase>& cases) {
  std::map<std::string, std::vector<app::ConformanceCase>> groups;
  for (const app::ConformanceCase& c : cases)
    groups[c.name.substr(0, c.name.find('/'))].push_back(c);
  fmt::print(
      "| group | cases | passed | failed | unsupported | as code | host functions | folded | node "
      "by node |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  const auto row = [](const std::string& name, const std::vector<app::ConformanceCase>& group) {
    Counts counts = count(group);
    std::map<app::Ran, int> ran = count_ran(group);
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name, group.size(),
               counts[onnx::Verdict::kPass], counts[onnx::Verdict::kFail],
               counts[onnx::Verdict::kUnsupported], ran[app::Ran::kCode], ran[app::Ran::kHost],
               ran[app::Ran::kFolded], ran[app::Ran::kNodes]);
  };
  for (const auto& [name, group] : groups) row(name, group);
  row("all", cases);
  std::map<std::string, std::vector<std::string>> reasons;
  for (const app::ConformanceCase& c : cases) {
    if (c.result.verdict == onnx::Verdict::kPass) continue;
    reasons[shared_reason(c.result.reason)].push_back("`" + c.name + "`");
  }
  fmt::print("\n| reason | cases |\n|---|---|\n");
  for (const auto& [reason, names] : reasons) {
    fmt::print("| {} | {} |\n", table_cell(reason), fmt::join(names, ", "));
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
  std::vector<app::ConformanceCase> cases =
      app::run_conformance(*folders, app::kConformanceModes.at(args.mode), args.jobs);
  for (app::ConformanceCase& c : cases) {
    const std::string name = std::filesystem::relative(c.name, args.folder).string();
    if (name != ".") c.name = name;
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

void add_conformance(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("conformance", "Run the ONNX backend cases below a folder");
  sub->footer(
      "Examples:\n  tessera conformance /usr/share/libonnx-testdata/data\n"
      "  tessera conformance DIR --filter conv --failures --mode nodes");
  const auto args = std::make_shared<ConformanceArgs>();
  sub->add_option("DIR", args->folder, "Folder with cases: model.onnx beside test_data_set_*/")
      ->required()
      ->check(existing_folder());
  sub->add_option("--filter", args->filter, "Only cases whose path contains this");
  sub->add_option("--jobs", args->jobs, "Cases at once (default: one per core)")
      ->check(range(1, 256));
  sub->add_flag("--failures", args->failures, "Print only cases that did not pass");
  sub->add_option("--mode", args->mode,
                  "compiled (whole models; node by node only where shapes follow from data), nodes "
                  "(every case node by node, each node compiled), interpret")
      ->check(one_of({"compiled", "nodes", "interpret"}));
  Option* json = sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--markdown", args->markdown, "Print the tables of docs/reference/conformance.md")
      ->excludes(json);
  sub->callback([args, run] { *run = [args] { return conformance(*args); }; });
}

}  // namespace tessera::cli
