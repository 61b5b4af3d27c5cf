// tessera info: what a file is, what goes in and out of it, what it was made for.
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/report/describe_file.h"
#include "tessera/app/report/operators_page.h"

namespace tessera::cli {
namespace {

std::string plain(const Json& value) {
  if (value.is_string()) return value.text();
  if (value.is_null()) return "-";
  if (value.is_number_float()) return fmt::format("{:.1f}", value.number());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& item : value) parts.push_back(plain(item));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// [1, 3, "height"] as [1, 3, height].
std::string shape_text(const Json& shape) {
  if (!shape.is_array()) return plain(shape);
  return shape.empty() ? "scalar" : fmt::format("[{}]", plain(shape));
}

std::string row_text(const Json& row) {
  std::vector<std::string> cells;
  for (const auto& [name, value] : row.items())
    cells.push_back(name == "shape" ? shape_text(value) : plain(value));
  return fmt::format("{}", fmt::join(cells, "  "));
}

// Notes may be pages long; --json has all of them.
std::string cut(std::string text) {
  constexpr std::size_t kMost = 100;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

void print_text(const Json& info) {
  for (const auto& [name, value] : info.items()) {
    std::string title = name;
    std::replace(title.begin(), title.end(), '_', ' ');
    if (value.is_object()) {
      fmt::print("{}:{}\n", title, value.empty() ? " none" : "");
      for (const auto& [key, item] : value.items()) {
        fmt::print("  {:<28} {}\n", key, cut(plain(item)));
      }
    } else if (value.is_array() && !value.empty() && value.begin()->is_object()) {
      fmt::print("{}:\n", title);
      for (const Json& row : value) fmt::print("  {}\n", row_text(row));
    } else {
      fmt::print("{}: {}\n", title, value.empty() && value.is_array() ? "none" : plain(value));
    }
  }
}

struct InfoArgs {
  std::string path;
  bool json = false, operators = false;
};

int info(const InfoArgs& args) {
  if (args.operators) {
    fmt::print("{}", report::operators_page());
    return kOk;
  }
  if (args.path.empty())
    return report({ErrorCode::kInvalidArgument, "give a file, or --operators"});
  const Result<Json> described = report::describe_file(args.path);
  if (!described) return report(described.error());
  if (args.json) {
    print_json(*described);
  } else {
    print_text(*described);
  }
  return kOk;
}

}  // namespace

void add_info(Flags& app, std::function<int()>* run) {
  Flags* sub =
      app.add_subcommand("info", "Describe a model, an artifact, a plan, a database or weights");
  sub->footer(
      "Examples:\n  tessera info model.onnx\n  tessera info zoo:bert_tiny --json\n"
      "  tessera info out                       # an artifact of `tessera compile`\n"
      "  tessera info resnet18.plan\n  tessera info tessera.db\n"
      "  tessera info my.safetensors\n"
      "  tessera info --operators               # as docs/reference/operators.md");
  const auto args = std::make_shared<InfoArgs>();
  sub->add_option("FILE", args->path,
                  "zoo:NAME, an ONNX file, an artifact, a plan, a database or trained weights")
      ->offers(zoo_models);
  sub->add_flag("--operators", args->operators,
                "Print the ONNX operators and element types that models may use, as Markdown");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] { *run = [args] { return info(*args); }; });
}

}  // namespace tessera::cli
