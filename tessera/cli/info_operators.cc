// docs/reference/operators.md, from the tables of the importer.
#include <map>
#include <tuple>

#include <fmt/ranges.h>

#include "tessera/cli/info.h"
#include "tessera/onnx/narrow_types.h"
#include "tessera/onnx/ops/op.h"

namespace tessera::cli {
namespace {

struct Operator {
  std::vector<int> since;
  int least = 0, most = 0;
  bool sequences = false, narrow = false;
};

std::string inputs_text(const Operator& op) {
  if (op.most < 0) return fmt::format("{} or more", op.least);
  return op.least == op.most ? std::to_string(op.least)
                             : fmt::format("{} to {}", op.least, op.most);
}

std::string remarks(const Operator& op) {
  std::vector<std::string> out;
  if (op.sequences) out.emplace_back("sequences");
  if (op.narrow) out.emplace_back("narrow constants");
  return fmt::format("{}", fmt::join(out, ", "));
}

std::string types_text() {
  std::vector<std::string> own, narrow;
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i)
    own.push_back(fmt::format("`{}`", to_text(static_cast<DType>(i))));
  for (const onnx::NarrowType& t : onnx::narrow_types())
    narrow.push_back(fmt::format("`{}`", t.name));
  return fmt::format(
      "Tensors are of the types {}. Constants may also be of the narrow types {}, where the "
      "operator below says so: they are kept in a wider type. Strings and complex numbers are "
      "refused where a node needs them.\n",
      fmt::join(own, ", "), fmt::join(narrow, ", "));
}

}  // namespace

std::string operators_page() {
  std::map<std::string, std::map<std::string, Operator>> domains;
  for (const onnx::OnnxOp& row : onnx::onnx_op_table()) {
    Operator& op = domains[row.domain][row.name];
    const bool first = op.since.empty();
    op.since.push_back(row.since);
    op.least = first ? row.min_inputs : std::min(op.least, row.min_inputs);
    const bool open = row.max_inputs < 0 || op.most < 0;
    op.most = open ? -1 : std::max(op.most, row.max_inputs);
    op.sequences = op.sequences || row.takes_sequences;
    op.narrow = op.narrow || row.widened != onnx::Widened::kRefused;
  }
  std::string page =
      "# ONNX operators and types\n\n"
      "`tessera info --operators` prints this page from the tables of the importer. \"From opset\" "
      "lists the versions at which the meaning of an operator changed; models of opset 7 and later "
      "are read. What an operator does not take (a mode, an attribute) is said by `tessera check "
      "MODEL`; [conformance.md](conformance.md) lists the cases of the ONNX backend tests.\n\n";
  page += types_text();
  for (const auto& [domain, operators] : domains) {
    page += fmt::format("\n## {}\n\n{} operators.\n\n", domain.empty() ? "ai.onnx" : domain,
                        operators.size());
    page += "| operator | from opset | inputs | |\n|---|---|---|---|\n";
    for (const auto& [name, op] : operators) {
      page += fmt::format("| {} | {} | {} | {} |\n", name, fmt::join(op.since, ", "),
                          inputs_text(op), remarks(op));
    }
  }
  return page;
}

}  // namespace tessera::cli
