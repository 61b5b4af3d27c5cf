// Random models that are valid: operators draw their operands from what is there and derive their
// attributes from it, so that no constraint is left to solve.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "draw.h"

namespace tessera::fuzz {

struct GraphOptions {
  std::int64_t nodes = 8;
  std::int64_t max_elements = 0;  // of a value
  std::set<std::string> only;     // operators; empty: all
};

// The same for every run with this seed and these options. `told`, where given, is called with
// every operator that was drawn and refused, and why.
Case random_graph(
    std::uint64_t seed, const GraphOptions& options,
    const std::function<void(const std::string& op, const std::string& why)>& told = nullptr);

// Operators and, of each, the types of its first operand or, without one, of its result.
using Reached = std::map<std::string, std::set<std::string>>;
void add_reached(const Case& c, Reached* reached);
std::string table_of(const Reached& reached);

}  // namespace tessera::fuzz
