// tessera check: which nodes of a model are supported.
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

Json to_json(const std::vector<onnx::NodeIssue>& issues) {
  auto list = Json::array();
  for (const onnx::NodeIssue& i : issues) {
    list.push_back({{"node", i.node}, {"op", i.op}, {"reason", i.reason}});
  }
  return list;
}

void print_issues(const char* title, const std::vector<onnx::NodeIssue>& issues) {
  if (issues.empty()) return;
  fmt::print("{}:\n", title);
  for (const onnx::NodeIssue& i : issues) fmt::print("  {:<28} {}: {}\n", i.op, i.node, i.reason);
}

// Sizes that nobody gave. Other commands refuse a model whose sizes are free.
void print_sizes(const onnx::CheckReport& r) {
  const auto list = [](const std::map<std::string, std::int64_t>& sizes) {
    std::vector<std::string> items;
    for (const auto& [name, size] : sizes) items.push_back(fmt::format("{}={}", name, size));
    return items;
  };
  if (!r.implied.empty()) {
    fmt::print("sizes that follow from the model: {}\n", fmt::join(list(r.implied), " "));
  }
  if (r.assumed.empty()) return;
  fmt::print("free sizes, set with --dim or --shape; checked with: {}\n",
             fmt::join(list(r.assumed), " "));
}

int check(const ModelArgs& args, bool json) {
  Result<app::CompileOptions> options = compile_options(args);
  if (!options) return report(options.error());
  options->cache = kernel_cache(false);
  const Result<onnx::CheckReport> checked = app::check_model(args.model, *options);
  if (!checked) return report_model(checked.error());
  const onnx::CheckReport& r = *checked;
  if (json) {
    Json j = {{"model", args.model},
              {"nodes", r.nodes},
              {"supported", r.unsupported.empty()},
              {"operators", r.operators},
              {"unsupported", to_json(r.unsupported)},
              {"data_dependent", to_json(r.data_dependent)},
              {"implied", r.implied},
              {"assumed", r.assumed}};
    print_json(j);
  } else {
    fmt::print("{}: {}, {}\n", args.model, counted(r.nodes, "node"),
               counted(r.operators.size(), "operator"));
    for (const auto& [op, count] : r.operators) fmt::print("  {:<28} {}\n", op, count);
    print_issues("not supported", r.unsupported);
    print_issues("shapes follow from data; what waits for them runs on the host", r.data_dependent);
    print_sizes(r);
    if (r.unsupported.empty()) fmt::print("supported\n");
  }
  return r.unsupported.empty() ? kOk : kUnsupportedModel;
}

}  // namespace

void add_check(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand(
      "check", "List which nodes of a model are supported, and why others are not");
  sub->footer(
      "Examples:\n  tessera check model.onnx --shape input:1x3x224x224\n"
      "  tessera check zoo:resnet50 --json");
  const auto args = std::make_shared<ModelArgs>();
  const auto json = std::make_shared<bool>(false);
  add_model_options(*sub, *args, true);
  sub->add_flag("--json", *json, "Print JSON");
  sub->callback([args, json, run] {
    *run = [args, json] { return with_batch(*args, [&] { return check(*args, *json); }); };
  });
}

}  // namespace tessera::cli
