// Kernels and the tiles of their schedules as graphs with configurations, in the numbers of
// TpuGraphs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/graphset/config_graph.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::app {

// The 24 numbers of a tile, by splits of the stage that computes most and of the one it is computed
// in: the tiles of its reduction (0-7), those kept in registers (8-15), and those around them
// (16-23); six sizes, 1 where a loop is whole in no tile, their sum and their product.
std::vector<float> tile_features(const te::Dag& dag, const schedule::Schedule& steps);

// The kernel without configurations: inputs, then one node for each stage.
Result<graphset::ConfigGraph> kernel_graph(const te::Dag& dag, const std::string& name);

struct TileGraphsOptions {
  std::string machine;     // only records of targets that contain it
  std::size_t least = 32;  // tiles that differ, of one kernel
};
struct TileGraphs {
  // Named TASK.M_KEY by the name of the task, the number of the machine and the task's key. Times
  // are relative to the median of the kernel's records.
  std::vector<graphset::ConfigGraph> graphs;
  std::size_t records = 0;  // in graphs
  std::size_t few = 0;      // kernels with fewer tiles, which are left out
};
// kInvalidArgument: no record of `machine`; steps or definitions that cannot be read.
Result<TileGraphs> tile_graphs(const dataset::Dataset& data, const TileGraphsOptions& options);

}  // namespace tessera::app
