// tessera targets: the machines that code can be generated for.
#include <map>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/machine/target/target.h"

namespace tessera::cli {
namespace {

using target::Target;

struct Row {
  Target target;
  std::vector<std::string> aliases;
};

Result<std::vector<Row>> all_rows() {
  std::vector<Row> rows;
  std::map<std::string, std::vector<std::string>> aliases;
  for (const std::string& name : target::target_names()) {
    TESSERA_TRY(const Target found, target::find_target(name));
    if (found.name == name) {
      rows.push_back({found, {}});
    } else {
      aliases[found.name].push_back(name);
    }
  }
  for (Row& row : rows) row.aliases = aliases[row.target.name];
  return rows;
}

std::string size_text(std::int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{}K", bytes >> 10);
  return fmt::format("{:.3g}M", static_cast<double>(bytes) / (1 << 20));
}

// "32K/1M/32M": L1, L2 and, where there is one, L3.
std::string caches_text(const Target& t) {
  std::vector<std::string> sizes;
  for (const std::int64_t bytes : {t.l1_bytes, t.l2_bytes, t.l3_bytes}) {
    if (bytes > 0) sizes.push_back(size_text(bytes));
  }
  return fmt::format("{}", fmt::join(sizes, "/"));
}

void print_table(const std::vector<Row>& rows) {
  constexpr const char* kRow = "{:<15} {:<7} {:<8} {:<15} {:>5} {:>8}  {:<14}  {}";
  fmt::print("{}\n", fmt::format(kRow, "target", "kind", "arch", "cpu", "cores", "vectors",
                                 "caches", "also"));
  for (const auto& [t, aliases] : rows) {
    const std::string line =
        fmt::format(kRow, t.name, to_text(t.kind), t.triple.substr(0, t.triple.find('-')), t.cpu,
                    t.cores, fmt::format("{}x{}", t.vector_registers, t.vector_bytes),
                    caches_text(t), fmt::join(aliases, ", "));
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

Json to_json(const Row& row) {
  const Target& t = row.target;
  return {{"name", t.name},
          {"also", row.aliases},
          {"kind", to_text(t.kind)},
          {"triple", t.triple},
          {"cpu", t.cpu},
          {"cores", t.cores},
          {"vector_registers", t.vector_registers},
          {"vector_bytes", t.vector_bytes},
          {"l1_bytes", t.l1_bytes},
          {"l2_bytes", t.l2_bytes},
          {"l3_bytes", t.l3_bytes},
          {"text", target::to_text(t)}};
}

int list_targets(bool json) {
  const Result<std::vector<Row>> rows = all_rows();
  if (!rows) return report(rows.error());
  if (!json) {
    print_table(*rows);
    return kOk;
  }
  Json list = Json::array();
  for (const Row& row : *rows) list.push_back(to_json(row));
  print_json(list);
  return kOk;
}

}  // namespace

void add_targets(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("targets", "List the machines that code can be generated for");
  sub->footer(
      "Examples:\n  tessera targets\n  tessera compile zoo:mlp -o out --target x86-64-v3\n"
      "  tessera targets --json                 # with the line that plans and records hold");
  const auto json = std::make_shared<bool>(false);
  sub->add_flag("--json", *json, "Print JSON");
  sub->callback([json, run] { *run = [json] { return list_targets(*json); }; });
}

}  // namespace tessera::cli
