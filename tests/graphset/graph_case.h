// Small graphs whose times follow from their configurations.
#pragma once

#include <string>

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::graphset::testing {

// A chain of nodes, every third of which has a layout (0 1 or 1 0); each costs by its own layout
// and where the next configurable node has another one. Configurations are random.
ConfigGraph layout_graph(std::int64_t nodes, std::int64_t configs, std::uint64_t seed);

// A kernel whose time grows with the distance of its tile from 32.
ConfigGraph tile_graph(std::int64_t configs, std::uint64_t seed);

// A file of this test.
std::string temp_file(const std::string& name);

}  // namespace tessera::graphset::testing
