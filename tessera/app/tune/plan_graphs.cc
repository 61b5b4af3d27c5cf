#include "tessera/app/tune/plan_graphs.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/algorithms.h"
#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/task/task.h"
#include "tessera/learn/graphset/node_features.h"
#include "tessera/learn/graphset/opcodes.h"

namespace tessera::app {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;
using graphset::HloInstruction;
using Integers = std::vector<std::int64_t>;
using plan::PointKind;

constexpr std::size_t kColumns = 18, kDims = 6;
// The last pass before layouts are chosen.
constexpr const char* kBeforeLayouts = "open_image_norms";

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// PrimitiveType of XLA.
std::int64_t element_type(DType dtype) {
  static const std::map<std::string_view, std::int64_t> numbers = {
      {"bool", 1}, {"i8", 2},  {"i16", 3},  {"i32", 4},  {"i64", 5},  {"u8", 6},   {"u16", 7},
      {"u32", 8},  {"u64", 9}, {"f16", 10}, {"f32", 11}, {"f64", 12}, {"bf16", 16}};
  const auto it = numbers.find(to_text(dtype));
  return it == numbers.end() ? 0 : it->second;
}

Integers last_first(std::size_t rank) {
  Integers out(rank);
  for (std::size_t d = 0; d < rank; ++d) out[d] = static_cast<std::int64_t>(rank - 1 - d);
  return out;
}

Integers listed(const Node& node, const char* name) {
  return node.attrs.has(name) ? node.attrs.integers(name) : Integers();
}

// Windows are written with all dimensions of the image, as HLO does for reduce-window.
void describe_window(const Graph& graph, const Node& node, HloInstruction* out) {
  const std::string_view op = node.op->name;
  const bool conv = op == "conv" || op == "conv_transpose";
  if (!conv && op != "pool") return;
  const Shape& x = graph.shape(node.inputs[0]);
  const std::size_t rank = x.size() - 2;
  graphset::HloWindow& w = out->window;
  if (conv) {
    const Shape& weights = graph.shape(node.inputs[1]);
    w.size = Integers(weights.begin() + 2, weights.end());
  } else {
    w.size = listed(node, "kernel");
  }
  const auto or_filled = [&](const char* name, std::int64_t absent) {
    Integers list = listed(node, name);
    return list.empty() ? Integers(rank, absent) : list;
  };
  w.stride = or_filled("strides", 1);
  w.pad_low = or_filled("before", 0);
  w.pad_high = or_filled("after", 0);
  w.dilation = or_filled("dilations", 1);
  w.base_dilation = Integers(rank, 1);
  w.reversal = Integers(rank, 0);
  if (!conv) return;
  graphset::HloConvolution& c = out->convolution;
  c.input_feature = c.output_feature = 1;
  c.kernel_input = op == "conv" ? 1 : 0;
  c.kernel_output = 1 - c.kernel_input;
  for (std::size_t d = 0; d < rank; ++d) {
    c.input_spatial.push_back(static_cast<std::int64_t>(d) + 2);
    c.kernel_spatial.push_back(static_cast<std::int64_t>(d) + 2);
  }
  out->feature_groups = node.attrs.integer("group", 1);
  out->batch_groups = 1;
}

HloInstruction instruction_of(const Graph& graph, const Node& node) {
  HloInstruction out;
  out.opcode = hlo_name(node.op->name);
  describe_type(graph.type(node.outputs[0]), &out);
  for (const char* name : {"perm", "axes"}) {
    if (node.attrs.has(name)) out.dimensions = node.attrs.integers(name);
  }
  if (out.dimensions.empty() && node.attrs.has("axis")) {
    out.dimensions = {node.attrs.integer("axis")};
  }
  if (std::string_view(node.op->name) == "slice") {
    out.slice_start = listed(node, "starts");
    out.slice_stride = listed(node, "steps");
    const Integers sizes = listed(node, "sizes");
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      out.slice_limit.push_back(out.slice_start[d] + sizes[d] * out.slice_stride[d]);
    }
  }
  if (std::string_view(node.op->name) == "pad") {
    out.pad_low = listed(node, "before");
    out.pad_high = listed(node, "after");
  }
  describe_window(graph, node, &out);
  return out;
}

// The graph without configurations; `first` is where its nodes begin.
graphset::ConfigGraph plain_graph(const Graph& graph, const std::string& name,
                                  std::int32_t* first) {
  graphset::ConfigGraph out;
  out.name = name;
  std::vector<float> features;
  std::map<ValueId, std::int32_t> node_of;
  const auto add = [&](const HloInstruction& i, bool root) {
    append_node_features(i, root, &features);
    out.opcode.push_back(graphset::opcode_id(i.opcode));
    return static_cast<std::int32_t>(out.opcode.size()) - 1;
  };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (input == graph.inputs.end() && !graph.values[v].is_constant) continue;
    HloInstruction i;
    i.opcode = graph.values[v].is_constant ? "constant" : "parameter";
    if (input != graph.inputs.end()) i.parameter_number = input - graph.inputs.begin();
    describe_type(graph.values[v].type, &i);
    node_of[id] = add(i, false);
  }
  *first = static_cast<std::int32_t>(out.opcode.size());
  for (const Node& node : graph.nodes) {
    const bool root = std::find(graph.outputs.begin(), graph.outputs.end(), node.outputs[0]) !=
                      graph.outputs.end();
    const std::int32_t user = add(instruction_of(graph, node), root);
    for (const ValueId id : node.outputs) node_of[id] = user;
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) out.edges.push_back({user, node_of.at(id)});
    }
  }
  std::sort(out.edges.begin(), out.edges.end());
  out.edges.erase(std::unique(out.edges.begin(), out.edges.end()), out.edges.end());
  out.splits = {0, out.nodes()};
  out.node_feat = HostTensor(DType::kF32, {out.nodes(), graphset::kNodeFeatures});
  std::copy(features.begin(), features.end(), out.node_feat.as<float>());
  return out;
}

// Which points each node of the model is asked about, by the name of the node: a decider that
// writes down who asks would have to know of nodes, so the names are read off the keys, and those
// of shapes are found where the rules' plan leaves convolutions of that shape.
std::map<std::string, std::vector<const plan::Decided*>> points_by_node(
    const Graph& last, const std::vector<plan::Decided>& decided, const plan::Rules& rules) {
  std::map<std::string, std::vector<const plan::Decided*>> out;
  std::map<std::string, std::vector<std::string>> of_shape;
  for (const Node& node : last.nodes) {
    if (const auto point = graph::algorithm_point(last, node, rules)) {
      of_shape[point->name].push_back(graph::name_in_plan(last, node));
    }
  }
  for (const plan::Decided& d : decided) {
    const std::string& key = d.point.name;
    switch (d.point.kind) {
      case PointKind::kLayout:
        out[key.substr(std::string_view("layout ").size())].push_back(&d);
        break;
      case PointKind::kSplit:
        out[key.substr(key.find(" into ") + 6)].push_back(&d);
        break;
      case PointKind::kAlgorithm:
      case PointKind::kPointwise:
        for (const std::string& name : of_shape[key]) out[name].push_back(&d);
        break;
      case PointKind::kFusion:
      case PointKind::kFront:
        out[key.substr(key.find(" of ") + 4)].push_back(&d);
        break;
      default:  // of several nodes at once
        break;
    }
  }
  return out;
}

// How much a node is what a decision of its name is about: one place for all nodes of a name.
int worth(const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "conv" || op == "conv_transpose" || op == "contract") return 3;
  if (op == "pool" || op == "concat" || op == "resize") return 2;
  return 1;
}

std::size_t column_of(PointKind kind) {
  switch (kind) {
    case PointKind::kAlgorithm:
      return 12;
    case PointKind::kPointwise:
      return 13;
    case PointKind::kSplit:
      return 14;
    case PointKind::kFusion:
      return 15;
    case PointKind::kFront:
      return 16;
    default:
      return 0;
  }
}

}  // namespace

std::string_view hlo_name(std::string_view op) {
  static const std::map<std::string_view, std::string_view> names = {
      {"conv", "convolution"},   {"conv_transpose", "convolution"},
      {"contract", "dot"},       {"pool", "reduce-window"},
      {"concat", "concatenate"}, {"reduce", "reduce"},
      {"sub", "subtract"},       {"mul", "multiply"},
      {"div", "divide"},         {"max", "maximum"},
      {"min", "minimum"},        {"neg", "negate"},
      {"exp", "exponential"},    {"sigmoid", "logistic"},
      {"recip", "divide"},       {"where", "select"},
      {"cast", "convert"},       {"expand", "broadcast"},
      {"pow", "power"},          {"eq", "compare"},
      {"le", "compare"},         {"lt", "compare"},
      {"ne", "compare"},         {"bitcast", "bitcast-convert"}};
  if (const auto it = names.find(op); it != names.end()) return it->second;
  return graphset::opcode_id(op) != 0 ? op : std::string_view("custom-call");
}

void describe_type(const graph::TensorType& type, HloInstruction* out) {
  out->element_type = element_type(type.dtype);
  out->shape = type.shape;
  out->minor_to_major = last_first(type.shape.size());
}

Result<PlanGraph> PlanGraph::make(const Graph& imported, const graph::PassOptions& passes,
                                  const std::string& name) {
  Graph plain = imported, last = imported;
  graph::PassOptions early = passes, late = passes;
  early.stop_after = kBeforeLayouts;
  // Whether a shuffle is absorbed is one of the decisions: its nodes are places.
  early.skip.emplace_back("absorb_shuffles");
  late.stop_after = "split_concats";
  TESSERA_DO(graph::optimize(plain, early));
  TESSERA_DO(graph::optimize(last, late));
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(imported, passes, {}, plan::Decider()));
  PlanGraph out;
  std::int32_t first = 0;
  out.graph_ = plain_graph(plain, name, &first);
  const auto points = points_by_node(last, planned.decided, passes.rules);
  std::map<std::string, std::size_t> node_of;  // the one that stands for its name
  for (std::size_t n = 0; n < plain.nodes.size(); ++n) {
    const std::string called = graph::name_in_plan(plain, plain.nodes[n]);
    if (!points.contains(called)) continue;
    const auto [it, added] = node_of.try_emplace(called, n);
    if (!added && worth(plain.nodes[n]) > worth(plain.nodes[it->second])) it->second = n;
  }
  std::map<std::size_t, std::string> ordered;
  for (const auto& [called, n] : node_of) ordered[n] = called;
  for (const auto& [n, called] : ordered) {
    const std::size_t place = out.graph_.config_nodes.size();
    out.graph_.config_nodes.push_back(first + static_cast<std::int32_t>(n));
    out.ranks_.push_back(std::ssize(plain.shape(plain.nodes[n].outputs[0])));
    for (const plan::Decided* d : points.at(called)) {
      out.slots_.push_back({d->point.name, d->point.kind, place});
    }
  }
  if (out.slots_.empty()) {
    return make_error(ErrorCode::kUnsupported, "{}: nothing is decided about its nodes", name);
  }
  return out;
}

std::vector<float> PlanGraph::config(const plan::Decisions& decisions) const {
  std::vector<float> out(ranks_.size() * kColumns, -1);
  for (const Slot& slot : slots_) {
    const auto decided = decisions.find(slot.key);
    if (decided == decisions.end()) continue;
    float* row = out.data() + slot.place * kColumns;
    if (slot.kind == PointKind::kLayout) {
      const std::size_t rank = std::min(kDims, at(ranks_[slot.place]));
      Integers order = last_first(rank);
      if (decided->second == plan::kLast && rank > 2) {
        order = last_first(rank);
        std::rotate(order.begin(), order.end() - 2, order.end() - 1);
      }
      for (std::size_t d = 0; d < rank; ++d) {
        row[d] = row[kDims + d] = static_cast<float>(order[d]);
      }
      continue;
    }
    const std::vector<std::string>& values = plan::info(slot.kind).values;
    const auto value = std::find(values.begin(), values.end(), decided->second);
    float& to = row[column_of(slot.kind)];
    // Several values of one node (a sum and its maximum): how many are not the first.
    to = slot.kind == PointKind::kFusion || slot.kind == PointKind::kFront
             ? std::min(6.0f, std::max(0.0f, to) + (value == values.begin() ? 0.0f : 1.0f))
             : static_cast<float>(value - values.begin());
  }
  return out;
}

Result<graphset::ConfigGraph> PlanGraph::with(const std::vector<Measured>& plans) const {
  graphset::ConfigGraph out = graph_;
  out.configs = HostTensor(
      DType::kF32, {std::ssize(plans), std::ssize(ranks_), static_cast<std::int64_t>(kColumns)});
  float* to = out.configs.as<float>();
  for (const Measured& m : plans) {
    const std::vector<float> row = config(m.decisions);
    to = std::copy(row.begin(), row.end(), to);
    out.runtime_ns.push_back(std::llround(m.seconds * 1e9));
    out.estimate_ns.push_back(std::llround(m.estimate_s * 1e9));
  }
  const bool all = std::all_of(out.estimate_ns.begin(), out.estimate_ns.end(),
                               [](std::int64_t t) { return t > 0; });
  if (!all) out.estimate_ns.clear();
  TESSERA_DO(graphset::check(out));
  return out;
}

}  // namespace tessera::app
