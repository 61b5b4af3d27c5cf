// Models and their plans as graphs with configurations, in the numbers of TpuGraphs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/plan/point.h"
#include "tessera/learn/graphset/config_graph.h"
#include "tessera/learn/graphset/hlo.h"

namespace tessera::app {

// What HLO calls our operators; those that it has no word for are calls.
std::string_view hlo_name(std::string_view op);
// Type, shape and order of dimensions, last first.
void describe_type(const graph::TensorType& type, graphset::HloInstruction* out);

// A model before layouts are chosen. The nodes of the network come behind its inputs and constants;
// those that a decision names can be configured. A place has the columns of TpuGraphs: the order of
// the dimensions of the result and of the first operand, fastest first, by the layout; and where
// the order of the kernel would stand the other decisions, by the number of their values:
// algorithm (12), 1x1 as a product (13), split (14), stored behind it (15) and in front (16).
class PlanGraph {
 public:
  // `imported` as import leaves it. kUnsupported: nothing about the model is decided.
  static Result<PlanGraph> make(const graph::Graph& imported, const graph::PassOptions& passes,
                                const std::string& name);

  // All decisions of a plan as one row: places * columns numbers.
  std::vector<float> config(const plan::Decisions& decisions) const;

  struct Measured {
    plan::Decisions decisions;  // all of them
    double seconds = 0;
    double estimate_s = 0;  // 0: nobody said
  };
  // The graph with these configurations and their times.
  Result<graphset::ConfigGraph> with(const std::vector<Measured>& plans) const;

 private:
  // A decision that a node takes: the column it goes to.
  struct Slot {
    std::string key;
    plan::PointKind kind = plan::PointKind::kLayout;
    std::size_t place = 0;
  };
  graphset::ConfigGraph graph_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> ranks_;  // by place: of the result
};

}  // namespace tessera::app
