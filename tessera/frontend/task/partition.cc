#include "tessera/frontend/task/partition.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <set>

#include "tessera/frontend/graph/passes/algorithms.h"
#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/plan/pointwise.h"

namespace tessera::task {
namespace {

using graph::Fusion;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options)
      : graph_(graph), options_(options), uses_(graph::find_uses(graph)) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      group_of_.push_back(static_cast<std::int32_t>(n));
      members_.push_back({static_cast<std::int32_t>(n)});
    }
  }

  Result<std::vector<Group>> run() {
    if (options_.fuse) {
      for (const Fusion anchor : {Fusion::kContraction, Fusion::kReduction, Fusion::kWindow,
                                  Fusion::kInjective, Fusion::kPointwise}) {
        for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
          if (fusion(static_cast<std::int32_t>(n)) == anchor &&
              alone(static_cast<std::int32_t>(n))) {
            TESSERA_DO(grow_epilogue(static_cast<std::int32_t>(n)));
          }
        }
      }
      for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
        TESSERA_DO(grow_prologue(static_cast<std::int32_t>(n)));
      }
      for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
        TESSERA_DO(grow_front(static_cast<std::int32_t>(n)));
      }
      for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
        TESSERA_DO(join_attention(static_cast<std::int32_t>(n)));
      }
    }
    return finish();
  }

 private:
  Fusion fusion(std::int32_t n) const {
    return empty(graph_.nodes[at(n)]) ? Fusion::kHost : graph_.nodes[at(n)].op->fusion;
  }
  bool empty(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return elements(graph_.shape(id)) == 0; });
  }
  bool alone(std::int32_t n) const { return members_[at(group_of_[at(n)])].size() == 1; }

  bool is_pointwise_like(std::int32_t n, const Shape& shape) const {
    const Node& node = graph_.nodes[at(n)];
    return fusion(n) == Fusion::kPointwise && node.outputs.size() == 1 &&
           graph_.shape(node.outputs[0]) == shape;
  }

  // The pointwise nodes after `v` up to the first value at which all of them meet again: what can
  // join the kernel that computes `v` without `v` (or anything between) being stored. Nothing when
  // a reader is of another kind or shape.
  struct Chain {
    std::vector<std::int32_t> nodes;
    ValueId tail = kNoValue;
  };
  std::optional<Chain> next_chain(ValueId v) const {
    const Shape& shape = graph_.shape(v);
    std::set<ValueId> open = {v};
    std::set<std::int32_t> pending;  // readers of open values, by position
    Chain chain;
    const auto add_readers = [&](ValueId id) {
      if (uses_.is_output[at(id)] || uses_.readers[at(id)].empty()) return false;
      for (const std::int32_t r : uses_.readers[at(id)]) {
        if (!is_pointwise_like(r, shape)) return false;
        pending.insert(r);
      }
      return true;
    };
    if (!add_readers(v)) return std::nullopt;
    while (!pending.empty()) {
      const std::int32_t n = *pending.begin();
      pending.erase(pending.begin());
      if (!alone(n)) return std::nullopt;
      chain.nodes.push_back(n);
      if (chain.nodes.size() > static_cast<std::size_t>(options_.max_nodes)) return std::nullopt;
      const ValueId out = graph_.nodes[at(n)].outputs[0];
      if (pending.empty()) {
        chain.tail = out;
        return chain;
      }
      if (!add_readers(out)) return std::nullopt;
    }
    return std::nullopt;
  }

  // True when nodes outside `from` lie on a path from group `from` to one of `chain`: then merging
  // them would make a cycle.
  bool path_outside(std::int32_t from, const std::vector<std::int32_t>& chain) const {
    const std::int32_t last = *std::max_element(chain.begin(), chain.end());
    const std::set<std::int32_t> goal(chain.begin(), chain.end());
    std::set<std::int32_t> seen;
    std::queue<std::int32_t> queue;
    const auto visit_readers = [&](std::int32_t group, bool direct) {
      for (const std::int32_t n : members_[at(group)]) {
        for (const ValueId id : graph_.nodes[at(n)].outputs) {
          for (const std::int32_t r : uses_.readers[at(id)]) {
            if (goal.count(r) != 0) {
              if (!direct) return true;
              continue;
            }
            const std::int32_t g = group_of_[at(r)];
            if (g == from || seen.count(g) != 0) continue;
            // Every node of a group that starts behind the chain comes later than all of it.
            if (members_[at(g)].front() > last) continue;
            seen.insert(g);
            queue.push(g);
          }
        }
      }
      return false;
    };
    if (visit_readers(from, true)) return true;
    while (!queue.empty()) {
      const std::int32_t g = queue.front();
      queue.pop();
      if (visit_readers(g, false)) return true;
    }
    return false;
  }

  void merge(std::int32_t into, std::int32_t from) {
    if (into == from) return;
    for (const std::int32_t n : members_[at(from)]) group_of_[at(n)] = into;
    auto& nodes = members_[at(into)];
    nodes.insert(nodes.end(), members_[at(from)].begin(), members_[at(from)].end());
    std::sort(nodes.begin(), nodes.end());
    members_[at(from)].clear();
  }

  // Whether `v` is only made wider, element by element, for a node of another kernel that can do
  // it: narrow, fewer bytes go to memory.
  bool is_widened_for_another(ValueId v) const {
    const Shape& shape = graph_.shape(v);
    ValueId last = v;
    for (std::int32_t r = only_reader(v); r >= 0; r = only_reader(last)) {
      const bool inside = is_pointwise_like(r, shape);
      if (!inside && !(is_depthwise(r) && graph_.nodes[at(r)].inputs[0] == last)) return false;
      if (!inside || !alone(r)) return bytes_each(last) > bytes_each(v);
      const auto& inputs = graph_.nodes[at(r)].inputs;
      const bool joins = std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
        return id != kNoValue && id != last && !graph_.constant(id);
      });
      if (joins) return false;
      last = graph_.nodes[at(r)].outputs[0];
    }
    return false;
  }
  int bytes_each(ValueId v) const { return size_bytes(graph_.type(v).dtype); }

  // Whether `v`, which could, stays inside a kernel.
  Result<bool> stays_inside(ValueId v) {
    const bool stored = is_widened_for_another(v);
    if (!options_.decider) return !stored;
    const Node& node = graph_.nodes[at(uses_.producer[at(v)])];
    const std::string key =
        fmt::format("fuse {} of {}", node.op->name, graph::name_in_plan(graph_, node));
    const plan::Point point =
        plan::make_point(plan::PointKind::kFusion, key, stored ? plan::kStored : plan::kFused);
    TESSERA_TRY(const std::int32_t value, options_.decider->decide(point));
    return point.label(value) == plan::kFused;
  }

  Result<void> grow_epilogue(std::int32_t anchor) {
    const Node& node = graph_.nodes[at(anchor)];
    if (node.outputs.size() != 1) return {};
    const std::int32_t group = group_of_[at(anchor)];
    ValueId tail = node.outputs[0];
    while (const auto chain = next_chain(tail)) {
      const std::size_t total = members_[at(group)].size() + chain->nodes.size();
      if (total > static_cast<std::size_t>(options_.max_nodes)) return {};
      if (path_outside(group, chain->nodes)) return {};
      TESSERA_TRY(const bool inside, stays_inside(tail));
      if (!inside) return {};
      for (const std::int32_t n : chain->nodes) merge(group, group_of_[at(n)]);
      tail = chain->tail;
    }
    return take_parts(group, tail);
  }

  // What is read as parts of f32 only is stored as such.
  Result<void> take_parts(std::int32_t group, ValueId tail) {
    const std::int32_t reader = only_reader(tail);
    if (reader < 0 || !is(reader, "float_parts") || !alone(reader) ||
        members_[at(group)].size() >= static_cast<std::size_t>(options_.max_nodes))
      return {};
    TESSERA_TRY(const bool inside, stays_inside(tail));
    if (inside) merge(group, group_of_[at(reader)]);
    return {};
  }

  // Whether every node of the group is pointwise (or, for data movement, also injective).
  bool only(std::int32_t group, bool injective) const {
    return std::all_of(members_[at(group)].begin(), members_[at(group)].end(), [&](std::int32_t n) {
      const Fusion f = fusion(n);
      return f == Fusion::kPointwise || (injective && f == Fusion::kInjective);
    });
  }

  bool only_slices(std::int32_t group) const {
    return std::all_of(members_[at(group)].begin(), members_[at(group)].end(),
                       [&](std::int32_t n) { return is(n, "slice"); });
  }

  // Whether `n` reads elsewhere by the elements of `id`.
  bool is_index(std::int32_t n, ValueId id) const {
    const std::vector<ValueId>& inputs = graph_.nodes[at(n)].inputs;
    return (is(n, graph::fact::kIndexes) || is(n, "gather_nd")) && inputs[1] == id;
  }

  bool only_casts_integers(std::int32_t group) const {
    return std::all_of(members_[at(group)].begin(), members_[at(group)].end(), [&](std::int32_t n) {
      const DType from = graph_.type(graph_.nodes[at(n)].inputs[0]).dtype;
      return is(n, "cast") && (from == DType::kI32 || from == DType::kI64);
    });
  }

  // Pointwise groups that only this reduction, pointwise or movement node reads are computed inside
  // its kernel; indices are not: a run looks at them before the kernel does.
  Result<void> grow_prologue(std::int32_t n) {
    const Fusion f = fusion(n);
    const bool movement = f == Fusion::kInjective || f == Fusion::kPointwise;
    if (f != Fusion::kReduction && !movement) return {};
    // Each part of a concatenation is chosen element by element: work inside would be done for all.
    // To take parts of others costs nothing.
    const bool concat = is(n, graph::fact::kJoins);
    const std::int32_t group = group_of_[at(n)];
    for (const ValueId id : graph_.nodes[at(n)].inputs) {
      if (id == kNoValue || uses_.producer[at(id)] < 0 || uses_.is_output[at(id)]) continue;
      const std::int32_t source = group_of_[at(uses_.producer[at(id)])];
      if (source == group || !(concat ? only_slices(source) : only(source, false))) continue;
      if (is_index(n, id) && !only_casts_integers(source)) continue;
      const auto& readers = uses_.readers[at(id)];
      const bool single = std::all_of(readers.begin(), readers.end(),
                                      [&](std::int32_t r) { return group_of_[at(r)] == group; });
      const std::size_t total = members_[at(group)].size() + members_[at(source)].size();
      if (!single || total > static_cast<std::size_t>(options_.max_nodes)) continue;
      // What a broadcast repeats would be computed again for each copy.
      if (elements(graph_.shape(id)) < elements(graph_.shape(graph_.nodes[at(n)].outputs[0])) &&
          f != Fusion::kReduction && !concat) {
        continue;
      }
      if (path_outside(source, members_[at(group)])) continue;
      TESSERA_TRY(const bool inside, stays_inside(id));
      if (inside) merge(group, source);
    }
    return {};
  }

  // A window would choose the part of a concatenation once for each of its places, and a product
  // would read what is transposed against the grain.
  bool only_moves(std::int32_t group, std::int32_t reader) const {
    std::uint32_t moves = 0;
    if (is_conv(reader)) moves = graph::fact::kPermutes;
    if (is(reader, graph::fact::kContracts)) moves = graph::fact::kJoins;
    const std::vector<std::int32_t>& members = members_[at(group)];
    return moves != 0 &&
           std::any_of(members.begin(), members.end(),
                       [&](std::int32_t n) { return is(n, moves); }) &&
           std::all_of(members.begin(), members.end(),
                       [&](std::int32_t n) { return is(n, moves) || is(n, "cast"); });
  }

  // What a layer of DenseNet does to all channels before it: stored, a product would read them once
  // more than they are written.
  bool changed_concat(std::int32_t group, std::int32_t reader) const {
    const auto& members = members_[at(group)];
    const auto concats = std::count_if(members.begin(), members.end(),
                                       [&](std::int32_t n) { return is(n, graph::fact::kJoins); });
    return is(reader, graph::fact::kContracts) && concats == 1 && members.size() > 1 &&
           std::all_of(members.begin(), members.end(), [&](std::int32_t n) {
             return is(n, graph::fact::kJoins) || fusion(n) == Fusion::kPointwise;
           });
  }

  // Whether `v`, which only the contraction or window `n` reads, is prepared in its kernel.
  Result<bool> prepared_inside(ValueId v, std::int32_t n) {
    const std::int32_t producer = uses_.producer[at(v)];
    const std::int32_t source = group_of_[at(producer)];
    const bool moved =
        (options_.moves_inside ? only_moves(source, n) : changed_concat(source, n)) ||
        (is_depthwise(n) && only_widens(source, v));
    if (!options_.decider) return moved;
    const Node& node = graph_.nodes[at(producer)];
    const plan::Point point = plan::make_point(
        plan::PointKind::kFront,
        fmt::format("front {} of {}", node.op->name, graph::name_in_plan(graph_, node)),
        moved ? plan::kFused : plan::kStored);
    TESSERA_TRY(const std::int32_t value, options_.decider->decide(point));
    return point.label(value) == plan::kFused;
  }

  // Whether it was decided that the kernel of this 1x1 convolution computes what it reads.
  Result<bool> chained(std::int32_t n) {
    if (!options_.decider) return false;
    const auto point = graph::algorithm_point(graph_, graph_.nodes[at(n)], {});
    if (!point || point->kind != plan::PointKind::kPointwise) return false;
    TESSERA_TRY(const std::int32_t value, options_.decider->decide(*point));
    return point->label(value) == plan::kChained;
  }

  // With channels last.
  bool is_depthwise(std::int32_t n) const {
    const Node& node = graph_.nodes[at(n)];
    if (!is_conv(n) || node.attrs.word("layout") != "nhwc") return false;
    const std::int64_t channels = graph_.shape(node.outputs[0]).back();
    return channels >= 2 && node.attrs.integer("group", 1) == channels;
  }

  // A depthwise convolution, and pointwise nodes behind it.
  bool only_depthwise(std::int32_t group) const {
    int windows = 0;
    for (const std::int32_t n : members_[at(group)]) {
      if (fusion(n) == Fusion::kPointwise) continue;
      if (!is_depthwise(n)) return false;
      ++windows;
    }
    return windows == 1;
  }

  // What the group makes of one narrower value.
  bool only_widens(std::int32_t group, ValueId v) const {
    const std::vector<std::int32_t>& members = members_[at(group)];
    ValueId from = kNoValue;
    for (const std::int32_t n : members) {
      for (const ValueId id : graph_.nodes[at(n)].inputs) {
        if (id == kNoValue || graph_.constant(id)) continue;
        const std::int32_t p = uses_.producer[at(id)];
        if (p >= 0 && group_of_[at(p)] == group) continue;
        if (from != kNoValue && from != id) return false;
        from = id;
      }
    }
    return from != kNoValue && bytes_each(from) < bytes_each(v) && only(group, false);
  }

  // A contraction or a window takes in what it alone reads, as an operand that its kernel prepares,
  // where that was decided.
  Result<void> grow_front(std::int32_t n) {
    const Fusion f = fusion(n);
    if (f != Fusion::kContraction && f != Fusion::kWindow) return {};
    const std::int32_t group = group_of_[at(n)];
    for (const ValueId id : graph_.nodes[at(n)].inputs) {
      if (id == kNoValue || uses_.producer[at(id)] < 0 || only_reader(id) != n) continue;
      // A product of matrices reads its image through a reshape.
      const std::int32_t alias = fusion(uses_.producer[at(id)]) == Fusion::kAlias
                                     ? uses_.producer[at(id)]
                                     : std::int32_t{-1};
      const ValueId made = alias < 0 ? id : graph_.nodes[at(alias)].inputs[0];
      if (uses_.producer[at(made)] < 0 || (alias >= 0 && only_reader(made) != alias)) continue;
      const std::int32_t source = group_of_[at(uses_.producer[at(made)])];
      TESSERA_TRY(const bool wanted, chained(n));
      const bool chain = wanted && alias < 0 && only_depthwise(source);
      if (source == group || !(chain || only(source, true))) continue;
      const std::size_t total = members_[at(group)].size() + members_[at(source)].size() + 1;
      if (total > static_cast<std::size_t>(options_.max_nodes)) continue;
      std::vector<std::int32_t> behind = members_[at(group)];
      if (alias >= 0) behind.push_back(alias);
      if (path_outside(source, behind)) continue;
      if (!chain) {
        TESSERA_TRY(const bool inside, prepared_inside(made, n));
        if (!inside) continue;
      }
      merge(group, source);
      if (alias >= 0) merge(group, group_of_[at(alias)]);
    }
    return {};
  }

  bool is(std::int32_t n, std::string_view op) const {
    return std::string_view(graph_.nodes[at(n)].op->name) == op;
  }
  bool is(std::int32_t n, std::uint32_t facts) const { return graph_.nodes[at(n)].op->is(facts); }
  bool is_conv(std::int32_t n) const {
    return is(n, graph::fact::kConvolves) && !is(n, graph::fact::kTransposed);
  }
  // The only node that reads the value, which is not an output; -1: there are others.
  std::int32_t only_reader(ValueId v) const {
    const auto& readers = uses_.readers[at(v)];
    return readers.size() == 1 && !uses_.is_output[at(v)] ? readers[0] : -1;
  }

  // The product in front of a softmax over the last axis, with its epilogue, and the product that
  // alone uses it become one kernel.
  Result<void> join_attention(std::int32_t n) {
    constexpr std::int64_t kLeastQueries = 8;
    if (options_.attention_keys <= 0 || !is(n, "softmax") || !alone(n)) return {};
    const Node& softmax = graph_.nodes[at(n)];
    const ValueId scores = softmax.inputs[0], weights = softmax.outputs[0];
    const Shape& shape = graph_.shape(scores);
    const bool suits = shape.size() >= 2 && shape.back() <= options_.attention_keys &&
                       shape[shape.size() - 2] >= kLeastQueries &&
                       softmax.attrs.integer("axis") == static_cast<std::int64_t>(shape.size()) - 1;
    const std::int32_t maker = uses_.producer[at(scores)], user = only_reader(weights);
    if (!suits || maker < 0 || user < 0 || only_reader(scores) != n ||
        !is(user, graph::fact::kContracts))
      return {};
    const std::int32_t first = group_of_[at(maker)], last = group_of_[at(user)];
    const auto& members = members_[at(first)];
    const bool product = std::any_of(members.begin(), members.end(), [&](std::int32_t m) {
      return is(m, graph::fact::kContracts);
    });
    const std::size_t total = members.size() + members_[at(last)].size() + 1;
    if (!product || first == last || total > static_cast<std::size_t>(options_.max_nodes) ||
        path_outside(first, {n}))
      return {};
    std::vector<std::int32_t> rest = members_[at(last)];
    rest.push_back(n);
    if (path_outside(first, rest)) return {};
    TESSERA_TRY(const bool inside, stays_inside(weights));
    if (!inside) return {};
    merge(first, group_of_[at(n)]);
    merge(first, last);
    return {};
  }

  Group describe(const std::vector<std::int32_t>& nodes) const {
    Group g;
    g.nodes = nodes;
    const Node& first = graph_.nodes[at(nodes[0])];
    if (empty(first)) {
      g.kind = GroupKind::kEmpty;
    } else if (first.op->fusion == Fusion::kHost) {
      g.kind = GroupKind::kHost;
    } else if (first.op->fusion == Fusion::kAlias) {
      g.kind = GroupKind::kAlias;
    }
    std::set<ValueId> made, read;
    for (const std::int32_t n : nodes) {
      for (const ValueId id : graph_.nodes[at(n)].inputs) {
        if (id != kNoValue && made.count(id) == 0 && read.insert(id).second) g.inputs.push_back(id);
      }
      for (const ValueId id : graph_.nodes[at(n)].outputs) {
        made.insert(id);
        const auto& readers = uses_.readers[at(id)];
        const bool outside = std::any_of(readers.begin(), readers.end(), [&](std::int32_t r) {
          return group_of_[at(r)] != group_of_[at(n)];
        });
        // A host operator writes all its outputs; an output that nothing reads still needs memory.
        if (outside || uses_.is_output[at(id)] || g.kind == GroupKind::kHost) {
          g.outputs.push_back(id);
        }
      }
    }
    return g;
  }

  // Groups in topological order, the one with the earliest node first.
  std::vector<Group> finish() const {
    std::vector<std::set<std::int32_t>> followers(members_.size());
    std::vector<std::int32_t> waiting(members_.size(), 0);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId id : graph_.nodes[n].inputs) {
        if (id == kNoValue || uses_.producer[at(id)] < 0) continue;
        const std::int32_t from = group_of_[at(uses_.producer[at(id)])], to = group_of_[n];
        if (from != to && followers[at(from)].insert(to).second) ++waiting[at(to)];
      }
    }
    std::priority_queue<std::pair<std::int32_t, std::int32_t>,
                        std::vector<std::pair<std::int32_t, std::int32_t>>, std::greater<>>
        ready;
    std::size_t alive = 0;
    for (std::size_t g = 0; g < members_.size(); ++g) {
      if (members_[g].empty()) continue;
      ++alive;
      if (waiting[g] == 0) ready.push({members_[g].front(), static_cast<std::int32_t>(g)});
    }
    std::vector<Group> groups;
    while (!ready.empty()) {
      const std::int32_t g = ready.top().second;
      ready.pop();
      groups.push_back(describe(members_[at(g)]));
      for (const std::int32_t f : followers[at(g)]) {
        if (--waiting[at(f)] == 0) ready.push({members_[at(f)].front(), f});
      }
    }
    TESSERA_CHECK(groups.size() == alive, "partition: merging made a cycle");
    return groups;
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  graph::Uses uses_;
  std::vector<std::int32_t> group_of_;              // by node
  std::vector<std::vector<std::int32_t>> members_;  // by group; empty when merged away
};

}  // namespace

Result<std::vector<Group>> partition(const graph::Graph& graph, const PartitionOptions& options) {
  return Partitioner(graph, options).run();
}

}  // namespace tessera::task
