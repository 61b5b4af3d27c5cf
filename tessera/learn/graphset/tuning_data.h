// Raw protobufs of tuning as graphs: ModuleTuningData (layouts of one program) and TuningData
// (tiles of many kernels).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::graphset {

struct Converted {
  std::vector<ConfigGraph> graphs;
  std::int64_t runs = 0, failed = 0;  // of all modules; those without a usable time
  // Modules that TpuGraphs leaves out, with the reason: "fusion.7: no run of the default".
  std::vector<std::string> dropped;
};

// Which of the two it is shows in the bytes. kInvalidArgument: neither.
Result<Converted> convert_tuning_data(std::string_view bytes);

// Of a file. A graph without a name takes the file's.
Result<Converted> read_tuning_data(const std::string& path);

}  // namespace tessera::graphset
