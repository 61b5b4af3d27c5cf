// tessera check: which nodes of a model are supported, and what runs it.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/compile/batch.h"
#include "tessera/backend/artifact/host_call.h"
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

// One line for all nodes of an operator with the same reason.
void print_issues(const std::string& title, const std::vector<onnx::NodeIssue>& issues) {
  if (issues.empty()) return;
  fmt::print("{}:\n", title);
  std::map<std::pair<std::string, std::string>, std::size_t> more;
  for (const onnx::NodeIssue& i : issues) ++more[{i.op, i.reason}];
  for (const onnx::NodeIssue& i : issues) {
    const std::size_t count = std::exchange(more[{i.op, i.reason}], 0);
    if (count == 0) continue;  // told already
    const std::string others = count > 1 ? fmt::format(" and {} more", count - 1) : "";
    fmt::print("  {:<28} {}{}: {}\n", i.op, i.node, others, i.reason);
  }
}

// A way to run a model, and why it cannot be taken; empty: it can.
struct Way {
  const char* name;
  const char* what;  // commands and functions, for people
  std::string refused;
};

std::vector<Way> ways(const onnx::CheckReport& r) {
  using Issues = std::vector<onnx::NodeIssue>;
  const auto first = [](const Issues& issues, const char* reason) {
    if (issues.empty()) return std::string();
    return fmt::format("{} {}{}{}", issues[0].op, issues[0].node,
                       issues.size() > 1 ? fmt::format(" and {} more", issues.size() - 1) : "",
                       reason);
  };
  std::string nothing = first(r.unsupported, " is not supported"), whole = nothing;
  if (nothing.empty() && !r.data_dependent.empty())
    whole = "shapes follow from the data of " + first(r.data_dependent, "");
  std::string artifact = whole, kernels = whole;
  if (whole.empty()) {
    Issues absent = r.host;
    std::erase_if(absent, [](const auto& i) { return artifact::has_host_function(i.function); });
    artifact = first(absent, " runs on the host");
    kernels = first(r.host, " runs on the host");
  }
  return {{"run", "tessera run, bench, tune, InferenceSession, Python, C, C++", nothing},
          {"artifact", "tessera compile, Model.save()", artifact},
          {"gpu", "GPUs, in a process", whole},
          {"gpu_artifact", "GPUs, as an artifact", kernels}};
}

void print_ways(const std::vector<Way>& ways) {
  fmt::print("what runs it:\n");
  for (const Way& w : ways) {
    if (w.refused.empty()) {
      fmt::print("  {} {}\n", coloured(Colour::kGreen, "yes "), w.what);
    } else {
      fmt::print("  {} {}: {}\n", coloured(Colour::kRed, "no  "), w.what, w.refused);
    }
  }
}

std::string shape_text(const onnx::ValueInfo& v) {
  if (!v.has_shape) return "of any shape";
  std::vector<std::string> sizes;
  for (const onnx::Dim& d : v.dims) {
    sizes.push_back(d.size >= 0 ? fmt::format("{}", d.size) : d.symbol.empty() ? "?" : d.symbol);
  }
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

Result<void> print_inputs(const ModelArgs& args, const onnx::ImportOptions& import) {
  TESSERA_TRY(const onnx::Model model, app::load_outline(args.model));
  const std::vector<std::string> open = app::open_inputs(model.graph, import);
  for (const onnx::ValueInfo& v : model.graph.inputs) {
    if (std::ranges::find(open, v.name) == open.end()) continue;
    fmt::print("  input {:<22} {} {}\n", v.name, v.type, shape_text(v));
  }
  return {};
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
              {"host", to_json(r.host)},
              {"implied", r.implied},
              {"assumed", r.assumed}};
    for (const Way& w : ways(r)) j["runs"][w.name] = w.refused.empty() ? "yes" : "no: " + w.refused;
    const Json run = j["runs"]["run"];  // its place may move when another one is added
    j["runs"]["library"] = run;
    print_json(j);
  } else {
    fmt::print("{}: {}, {}\n", args.model, counted(r.nodes, "node"),
               counted(r.operators.size(), "operator"));
    if (const Result<void> told = print_inputs(args, options->import); !told)
      return report_model(told.error());
    for (const auto& [op, count] : r.operators) fmt::print("  {:<28} {}\n", op, count);
    print_issues(coloured(Colour::kRed, "not supported"), r.unsupported);
    print_issues("shapes follow from data; what waits for them runs on the host", r.data_dependent);
    print_issues("supported by functions of the host", r.host);
    print_sizes(r);
    print_ways(ways(r));
    if (r.unsupported.empty()) fmt::print("{}\n", coloured(Colour::kGreen, "supported"));
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
