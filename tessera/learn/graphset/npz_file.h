// TpuGraphs' npz files.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::graphset {

// What the arrays of one file may take together.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

// A layout set (node_config_feat) or a tile set (config_feat), by what the file holds. Other arrays
// in it are left alone. The graph's name is the file's without ".npz". Errors name the file.
// kUnsupported: more than `most_bytes`.
Result<ConfigGraph> read_graph(const std::string& path, std::uint64_t most_bytes = kMostBytes);

// With the types of the released files, deflated.
Result<void> write_graph(const std::string& path, const ConfigGraph& graph);

}  // namespace tessera::graphset
