#include "tessera/app/report/operators_page.h"

#include <map>

#include <fmt/ranges.h>

#include "tessera/frontend/onnx/integer_products.h"
#include "tessera/frontend/onnx/narrow_types.h"
#include "tessera/frontend/onnx/ops/op.h"
#include "tessera/support/counted.h"

namespace tessera::report {
namespace {

// Models of older opsets are not read.
constexpr int kOldestOpset = 7;

struct Operator {
  std::vector<int> since;
  bool sequences = false, narrow = false;
};

// "Clip (11)", "Resize (from 10, 11)": versions that models of opset 7 and later can tell apart.
std::string operator_text(const std::string& name, Operator op) {
  const bool newer = op.since.front() > kOldestOpset;
  std::erase_if(op.since, [](int version) { return version <= kOldestOpset; });
  std::string out = name;
  if (op.narrow) out += "*";
  if (op.sequences) out += "+";
  if (!op.since.empty()) {
    out += fmt::format(" ({}{})", newer ? "from " : "", fmt::join(op.since, ", "));
  }
  return out;
}

std::string types_text() {
  std::vector<std::string> own, narrow;
  for (int i = 0; i < kDTypes; ++i)
    own.push_back(fmt::format("`{}`", to_text(static_cast<DType>(i))));
  for (const onnx::NarrowType& t : onnx::narrow_types())
    narrow.push_back(fmt::format("`{}`", t.name));
  return fmt::format(
      "Tensors have the types {}. Constants may also have the narrow types {}; they are kept in a "
      "wider type. A node that needs strings or complex numbers is refused.\n",
      fmt::join(own, ", "), fmt::join(narrow, ", "));
}

}  // namespace

std::string operators_page() {
  std::map<std::string, std::map<std::string, Operator>> domains;
  for (const onnx::OnnxOp& row : onnx::onnx_op_table()) {
    if (std::string_view(row.domain) == onnx::kOwnDomain) continue;
    Operator& op = domains[row.domain][row.name];
    op.since.push_back(row.since);
    op.sequences = op.sequences || row.takes_sequences;
    op.narrow = op.narrow || row.widened != onnx::Widened::kRefused;
  }
  std::string page =
      "# ONNX operators and types\n\n"
      "`tessera info --operators` prints this page from the tables of the importer. Models of "
      "opset "
      "7 and later are read. A number in parentheses is a version that changed the meaning of an "
      "operator, `from` the version that introduced it. `*`: takes constants of narrow types. `+`: "
      "takes sequences. Random numbers follow from the seed, the same in every run. `tessera check "
      "MODEL` names a mode or an attribute that is not supported; "
      "[conformance.md](conformance.md) lists the ONNX backend cases that do not pass.\n\n";
  page += types_text();
  for (const auto& [domain, operators] : domains) {
    page += fmt::format("\n## {}\n\n{}:\n", domain.empty() ? "ai.onnx" : domain,
                        counted(operators.size(), "operator"));
    char letter = 0;
    for (const auto& [name, op] : operators) {
      page += name[0] == letter ? ", " : "\n- ";
      letter = name[0];
      page += operator_text(name, op);
    }
    page += "\n";
  }
  return page;
}

}  // namespace tessera::report
