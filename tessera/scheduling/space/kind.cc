#include "tessera/scheduling/space/kind.h"

#include <cctype>
#include <set>
#include <vector>

#include <fmt/ranges.h>

#include "tessera/machine/target/match.h"

namespace tessera::space {
namespace {

// Stages of one operator ("conv.pad", "conv") count once, numbers that tell them apart ("add_2")
// not at all.
std::string algorithm_of(const te::Dag& dag) {
  std::vector<std::string> parts;
  for (const te::Op& op : dag.ops) {
    std::string name = op.name.substr(0, op.name.find('.'));
    const std::size_t end = name.find_last_not_of("0123456789");
    if (end != std::string::npos && name[end] == '_' && end > 0) name.resize(end);
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    }
    if (parts.empty() || parts.back() != name) parts.push_back(std::move(name));
    if (op.reducer != te::Reducer::kNone) return fmt::format("{}", fmt::join(parts, "+"));
  }
  return "map";
}

}  // namespace

std::string candidate_kind(const te::Dag& dag, const target::Target& target, int threads,
                           std::string_view candidate) {
  std::set<std::string> types;
  for (const te::Input& input : dag.inputs) types.insert(to_text(input.buffer->dtype));
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& output : op.outputs) types.insert(to_text(output->dtype));
  }
  return fmt::format("{} {} {} {} {}", target::machine_kind(target), threads, fmt::join(types, "+"),
                     algorithm_of(dag), candidate.substr(0, candidate.find(':')));
}

}  // namespace tessera::space
