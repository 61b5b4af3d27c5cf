#include "tessera/app/collect/tile_graphs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tessera/app/tune/plan_graphs.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/learn/graphset/node_features.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/support/quantile.h"

namespace tessera::app {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::size_t kBounds = 6, kTileColumns = 24;

const std::string& name_of(const te::Axis& axis) { return axis.var.as<ir::Var>()->name; }

double work_of(const te::Op& op) {
  double out = 1;
  for (const auto* axes : {&op.axes, &op.reduce_axes}) {
    for (const te::Axis& a : *axes) out *= static_cast<double>(a.extent);
  }
  return out;
}

// The loops of windows are called kh, kw and the like; that of a product is not.
bool is_window(const te::Axis& axis) {
  const std::string& name = name_of(axis);
  return name.size() == 2 && name[0] == 'k';
}

std::size_t loads_in(const te::Op& op) {
  std::set<const ir::BufferNode*> seen;
  for (const ir::Expr& value : op.values) {
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      if (const auto* load = e.as<ir::Load>()) seen.insert(load->buffer.get());
    });
  }
  return seen.size();
}

std::string_view opcode_of(const te::Op& op) {
  const bool windows = std::any_of(op.reduce_axes.begin(), op.reduce_axes.end(), is_window);
  if (op.reducer == te::Reducer::kSum && loads_in(op) == 2) {
    return op.name.starts_with("conv") ? "convolution" : "dot";
  }
  if (op.reducer != te::Reducer::kNone) return windows ? "reduce-window" : "reduce";
  if (op.name.ends_with(".pad")) return "pad";
  const std::size_t end = op.name.find_last_not_of("0123456789_");
  return hlo_name(std::string_view(op.name).substr(0, end + 1));
}

graphset::HloInstruction instruction_of(const te::Op& op) {
  graphset::HloInstruction out;
  out.opcode = opcode_of(op);
  describe_type({op.outputs[0]->dtype, op.outputs[0]->shape}, &out);
  for (const te::Axis& a : op.reduce_axes) {
    if (is_window(a)) out.window.size.push_back(a.extent);
  }
  if (out.opcode != "convolution") return out;
  out.convolution.kernel_input = 1;  // weights are [out, in, kh, kw]
  for (std::size_t d = 0; d < out.window.size.size(); ++d) {
    out.convolution.kernel_spatial.push_back(static_cast<std::int64_t>(d) + 2);
  }
  out.feature_groups = 1;
  return out;
}

// Lengths of the last split of a loop of a stage, outermost first; empty: it is not split.
class Splits {
 public:
  explicit Splits(const schedule::Schedule& steps) {
    for (const schedule::Step& step : steps.steps) {
      if (const auto* split = std::get_if<schedule::Split>(&step)) {
        by_loop_[{split->stage, split->iter}] = split->lengths;
      }
    }
  }
  const Integers& of(const te::Op& op, const te::Axis& axis) const {
    static const Integers none;
    const auto it = by_loop_.find({op.name, name_of(axis)});
    return it == by_loop_.end() ? none : it->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, Integers> by_loop_;
};

std::int64_t innermost(const Integers& lengths) { return lengths.empty() ? 1 : lengths.back(); }
std::int64_t all_of(const Integers& lengths) {
  std::int64_t out = 1;
  for (const std::int64_t l : lengths) out *= std::max<std::int64_t>(1, l);
  return out;
}

void append_bounds(const Integers& bounds, std::vector<float>* out) {
  double sum = 0, product = bounds.empty() ? 0 : 1;
  for (std::size_t d = 0; d < kBounds; ++d) {
    out->push_back(d < bounds.size() ? static_cast<float>(bounds[d]) : 0);
  }
  for (const std::int64_t b : bounds) {
    sum += static_cast<double>(b);
    product *= static_cast<double>(b);
  }
  out->push_back(static_cast<float>(sum));
  out->push_back(static_cast<float>(product));
}

struct Timed {
  std::vector<float> tile;
  double seconds = 0;
};

Result<graphset::ConfigGraph> with_tiles(graphset::ConfigGraph graph,
                                         const std::vector<Timed>& all) {
  graph.configs =
      HostTensor(DType::kF32, {std::ssize(all), 1, static_cast<std::int64_t>(kTileColumns)});
  float* to = graph.configs.as<float>();
  std::vector<double> seconds;
  for (const Timed& t : all) {
    to = std::copy(t.tile.begin(), t.tile.end(), to);
    seconds.push_back(t.seconds);
    graph.runtime_ns.push_back(std::max<std::int64_t>(1, std::llround(t.seconds * 1e9)));
  }
  graph.normalizer_ns.assign(
      all.size(), std::max<std::int64_t>(1, std::llround(upper_median(std::move(seconds)) * 1e9)));
  TESSERA_DO(graphset::check(graph));
  return graph;
}

}  // namespace

std::vector<float> tile_features(const te::Dag& dag, const schedule::Schedule& steps) {
  const auto main =
      std::max_element(dag.ops.begin(), dag.ops.end(),
                       [](const te::Op& a, const te::Op& b) { return work_of(a) < work_of(b); });
  const te::Op& last = dag.ops.back();
  const Splits splits(steps);
  Integers reduced, inner, around;
  for (const te::Axis& a : main->reduce_axes) reduced.push_back(all_of(splits.of(*main, a)));
  for (std::size_t d = 0; d < main->axes.size(); ++d) {
    const Integers& own = splits.of(*main, main->axes[d]);
    const bool same = last.axes.size() == main->axes.size();
    const Integers outer = same ? splits.of(last, last.axes[d]) : Integers();
    inner.push_back(own.empty() ? innermost(outer) : innermost(own));
    around.push_back(std::max(all_of(own), all_of(outer)));
  }
  std::vector<float> out;
  for (const Integers* bounds : {&reduced, &inner, &around}) append_bounds(*bounds, &out);
  return out;
}

Result<graphset::ConfigGraph> kernel_graph(const te::Dag& dag, const std::string& name) {
  graphset::ConfigGraph out;
  out.name = name;
  out.kind = graphset::Kind::kTile;
  std::vector<float> features;
  std::map<ir::Buffer, std::int32_t> node_of;
  const auto add = [&](const graphset::HloInstruction& i, bool root) {
    append_node_features(i, root, &features);
    out.opcode.push_back(graphset::opcode_id(i.opcode));
    return static_cast<std::int32_t>(out.opcode.size()) - 1;
  };
  for (const te::Input& input : dag.inputs) {
    graphset::HloInstruction i;
    i.opcode = input.constant ? "constant" : "parameter";
    describe_type({input.buffer->dtype, input.buffer->shape}, &i);
    node_of[input.buffer] = add(i, false);
  }
  for (const te::Op& op : dag.ops) {
    const std::int32_t user = add(instruction_of(op), dag.is_output(op.outputs[0]));
    for (const ir::Expr& value : op.values) {
      ir::for_each_expr(value, [&](const ir::Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (load == nullptr) return;
        if (const auto it = node_of.find(load->buffer); it != node_of.end()) {
          out.edges.push_back({user, it->second});
        }
      });
    }
    for (const ir::Buffer& b : op.outputs) node_of[b] = user;
  }
  std::sort(out.edges.begin(), out.edges.end());
  out.edges.erase(std::unique(out.edges.begin(), out.edges.end()), out.edges.end());
  out.node_feat = HostTensor(DType::kF32, {out.nodes(), graphset::kNodeFeatures});
  std::copy(features.begin(), features.end(), out.node_feat.as<float>());
  return out;
}

Result<TileGraphs> tile_graphs(const dataset::Dataset& data, const TileGraphsOptions& options) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<const dataset::Example*>> lists;
  for (const dataset::Example& e : data.examples) {
    const std::string& target = data.machines[static_cast<std::size_t>(e.machine)].target;
    const dataset::TaskInfo& task = data.tasks[static_cast<std::size_t>(e.task)];
    if (target.find(options.machine) == std::string::npos || task.format != "tessera") continue;
    if (e.seconds > 0 && !e.schedule.empty()) lists[{e.task, e.machine}].push_back(&e);
  }
  if (lists.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no times with known steps of machines '{}'",
                      options.machine);
  }
  TileGraphs out;
  for (const auto& [where, examples] : lists) {
    const dataset::TaskInfo& task = data.tasks[static_cast<std::size_t>(where.first)];
    if (examples.size() < options.least) {
      ++out.few;
      continue;
    }
    TESSERA_TRY(const te::Dag dag, te::dag_from_text(task.definition));
    std::vector<Timed> timed;
    std::set<std::vector<float>> tiles;
    for (const dataset::Example* e : examples) {
      TESSERA_TRY(const schedule::Schedule steps, schedule::schedule_from_text(e->schedule));
      timed.push_back({tile_features(dag, steps), static_cast<double>(e->seconds)});
      tiles.insert(timed.back().tile);
    }
    if (tiles.size() < options.least) {
      ++out.few;
      continue;
    }
    TESSERA_TRY(graphset::ConfigGraph graph,
                kernel_graph(dag, fmt::format("{}.{}_{}", task.name, where.second, task.key)));
    TESSERA_TRY(out.graphs.emplace_back(), with_tiles(std::move(graph), timed));
    out.records += timed.size();
  }
  return out;
}

}  // namespace tessera::app
