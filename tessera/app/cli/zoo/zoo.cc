// tessera zoo: the built-in networks.
#include "tessera/frontend/zoo/zoo.h"

#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/support/json.h"
#include "tessera/support/model_name.h"

namespace tessera::cli {
namespace {

int list_zoo(bool json) {
  auto list = Json::array();
  for (const zoo::ZooEntry& e : zoo::zoo_table()) {
    std::vector<std::string> params;
    for (const zoo::ZooParam& p : e.params)
      params.push_back(fmt::format("{}={}", p.name, p.default_value));
    for (const zoo::ZooWord& w : e.words)
      params.push_back(fmt::format("{}={}", w.name, w.choices[0]));
    if (json) {
      list.push_back({{"name", e.name}, {"doc", e.doc}, {"parameters", params}});
    } else {
      fmt::print("zoo:{:<22} {}\n{:<27}@{}\n", e.name, e.doc, "", fmt::join(params, ","));
    }
  }
  if (json) print_json(list);
  return kOk;
}

int export_model(const std::string& spec, const std::string& path) {
  const Result<onnx::Model> model = app::load_onnx(with_zoo(spec));
  if (!model) return report(model.error());
  const Result<void> saved = onnx::save_model(*model, path);
  return saved.ok() ? kOk : report(saved.error());
}

}  // namespace

void add_zoo(Flags& app, std::function<int()>* run) {
  Flags* sub =
      app.add_subcommand("zoo", "List the built-in networks, or write one as an ONNX file");
  sub->footer("Examples:\n  tessera zoo\n  tessera zoo --export resnet50@batch=4 -o resnet50.onnx");
  struct Args {
    std::string name, output;
    bool json = false;
  };
  const auto args = std::make_shared<Args>();
  Option* name =
      sub->add_option("--export", args->name, "Network to write: NAME[@parameter=value,...]");
  Option* output = sub->add_option("-o,--output", args->output, "ONNX file to write");
  name->needs(output);
  output->needs(name);
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] {
    *run = [args] {
      return args->name.empty() ? list_zoo(args->json) : export_model(args->name, args->output);
    };
  });
}

}  // namespace tessera::cli
