#include "tessera/space/kind.h"

#include <set>

#include <fmt/ranges.h>

#include "tessera/target/match.h"

namespace tessera::space {

std::string candidate_kind(const te::Dag& dag, const target::Target& target, int threads,
                           std::string_view candidate) {
  std::set<std::string> types;
  for (const te::Input& input : dag.inputs) types.insert(to_text(input.buffer->dtype));
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& output : op.outputs) types.insert(to_text(output->dtype));
  }
  return fmt::format("{} {} {} {}", target::machine_kind(target), threads, fmt::join(types, "+"),
                     candidate.substr(0, candidate.find(':')));
}

}  // namespace tessera::space
