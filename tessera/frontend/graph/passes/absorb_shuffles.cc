// reshape(transpose(reshape(x))) that only permutes channels moves no data: it says in which order
// others read them. Through slices and concatenations of channels a value is then a list of
// channels of others. What sums over the channels, or treats each by itself, takes them in the
// order in which they lie in memory and permutes its constants instead.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/permutation.h"

namespace tessera::graph {
namespace {

constexpr std::size_t kChannels = 1;  // layouts are chosen later

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool is(const Node& node, std::string_view op) { return op == node.op->name; }
bool is_conv(const Node& node) {
  return node.op->is(fact::kConvolves) && !node.op->is(fact::kTransposed);
}

// The channel of x that is channel i of reshape(transpose(reshape(x, opened), perm), shape of x),
// by i; nullopt: more moves than channels.
std::optional<Permutation> channel_order(const Shape& x, const Shape& opened,
                                         const Permutation& perm) {
  const std::size_t rank = x.size(), more = opened.size() - rank;
  if (rank < 2 || opened.size() <= rank || opened[0] != x[0]) return std::nullopt;
  for (std::size_t d = 0; d < opened.size(); ++d) {
    const bool inside = d >= kChannels && d <= kChannels + more;
    if (!inside && perm[d] != static_cast<std::int64_t>(d)) return std::nullopt;
    if (d > kChannels + more && opened[d] != x[d - more]) return std::nullopt;
  }
  const auto begin = static_cast<std::ptrdiff_t>(kChannels);
  const auto end = begin + static_cast<std::ptrdiff_t>(more) + 1;
  const Shape sizes(opened.begin() + begin, opened.begin() + end);
  if (elements(sizes) != x[kChannels]) return std::nullopt;
  Permutation axes(perm.begin() + begin, perm.begin() + end);
  for (std::int64_t& axis : axes) axis -= begin;
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  Permutation order;
  for (std::int64_t i = 0; i < x[kChannels]; ++i) {
    std::int64_t rest = i, from = 0;
    for (std::size_t d = axes.size(); d-- > 0;) {
      from += rest % sizes[at(axes[d])] * strides[at(axes[d])];
      rest /= sizes[at(axes[d])];
    }
    order.push_back(from);
  }
  return order;
}

bool slices_channels(const Graph& graph, const Node& node) {
  if (!is(node, "slice")) return false;
  const Shape& whole = graph.shape(node.inputs[0]);
  const auto& sizes = node.attrs.integers("sizes");
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (d != kChannels && (sizes[d] != whole[d] || node.attrs.integers("steps")[d] != 1))
      return false;
  }
  return whole.size() > kChannels;
}

bool joins_channels(const Node& node) {
  return node.op->is(fact::kJoins) && at(node.attrs.integer("axis")) == kChannels;
}

// Computes each channel of `x`, an operand, by itself and with constants, into the same channel.
bool follows(const Graph& graph, const Node& node, ValueId x) {
  if (node.outputs.size() != 1) return false;
  const Shape &in = graph.shape(x), &out = graph.shape(node.outputs[0]);
  if (in.size() <= kChannels || out.size() <= kChannels || in[kChannels] != out[kChannels])
    return false;
  if (node.op->fusion == Fusion::kPointwise) {
    return in == out && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
             return id == x || id == kNoValue || graph.constant(id);
           });
  }
  if (node.op->is(fact::kImages) && !node.op->is(fact::kConvolves))
    return node.attrs.word("layout") == "nchw";
  if (is(node, "reduce")) {
    const auto& axes = node.attrs.integers("axes");
    return !axes.empty() &&
           std::all_of(axes.begin(), axes.end(), [](std::int64_t a) { return at(a) > kChannels; });
  }
  return is_conv(node) && node.attrs.word("layout") == "nchw" && node.inputs[0] == x &&
         graph.constant(node.inputs[1]) && in[kChannels] > 1 &&
         node.attrs.integer("group", 1) == in[kChannels];
}

// Where a node that sums over the channels of its operand `x` has its constant factors of them.
struct Factors {
  std::size_t input = 0, axis = 0;
};
std::optional<Factors> factors_of(const Graph& graph, const Node& node, ValueId x) {
  if (is_conv(node)) {
    const bool dense = node.attrs.integer("group", 1) == 1 && node.attrs.word("layout") == "nchw";
    if (!dense || node.inputs[0] != x || !graph.constant(node.inputs[1])) return std::nullopt;
    return Factors{1, 1};
  }
  if (!node.op->is(fact::kContracts) || graph.shape(x).size() <= kChannels) return std::nullopt;
  if (node.attrs.has("a_starts") || node.attrs.has("b_starts")) return std::nullopt;
  const std::size_t side = node.inputs[0] == x ? 0 : 1;
  if (node.inputs[side] != x || !graph.constant(node.inputs[1 - side])) return std::nullopt;
  const char label = node.attrs.word(side == 0 ? "a" : "b")[kChannels];
  const std::size_t axis = node.attrs.word(side == 0 ? "b" : "a").find(label);
  const bool summed = node.attrs.word("out").find(label) == std::string::npos;
  if (!summed || axis == std::string::npos) return std::nullopt;
  return Factors{1 - side, axis};
}

// The shuffles of a graph that its readers can absorb, by the value that they compute.
class Shuffles {
 public:
  Shuffles(const Graph& graph, const PassOptions& options)
      : graph_(graph), options_(options), uses_(find_uses(graph)) {
    for (const Node& node : graph.nodes) find(node);
  }

  // Leaves those that their readers absorb.
  Result<void> choose();

  bool empty() const { return found_.empty(); }
  // The order of the channels in what is shuffled; null: `out` is not a shuffle to absorb.
  const Permutation* order(ValueId out) const {
    const auto it = found_.find(out);
    return it == found_.end() ? nullptr : &it->second;
  }
  // What the shuffle `out` shuffles.
  ValueId shuffled(ValueId out) const {
    for (int i = 0; i < 3; ++i) out = graph_.nodes[at(uses_.producer[at(out)])].inputs[0];
    return out;
  }
  // Everything that reads the value does with its channels in any order.
  bool free(ValueId id) const { return free_[at(id)]; }

 private:
  const Node* own_producer(ValueId id, std::string_view op) const {
    const std::int32_t n = uses_.producer[at(id)];
    if (n < 0 || !is(graph_.nodes[at(n)], op)) return nullptr;
    const bool own = uses_.readers[at(id)].size() == 1 && !uses_.is_output[at(id)];
    return own ? &graph_.nodes[at(n)] : nullptr;
  }

  void find(const Node& close) {
    if (!close.op->is(fact::kReshapes)) return;
    const Node* transpose = own_producer(close.inputs[0], "transpose");
    const Node* open = transpose ? own_producer(transpose->inputs[0], "reshape") : nullptr;
    if (!open) return;
    const Shape& x = graph_.shape(open->inputs[0]);
    if (graph_.shape(close.outputs[0]) != x || elements(x) == 0) return;
    const auto order =
        channel_order(x, graph_.shape(open->outputs[0]), transpose->attrs.integers("perm"));
    if (!order || is_identity(*order)) return;
    found_[close.outputs[0]] = *order;
    opened_[open->outputs[0]] = close.outputs[0];
  }

  // Drops what not all readers take in any order, and where `ask`, what is decided to be stored.
  Result<void> drop_read(bool ask) {
    free_.assign(graph_.values.size(), false);
    if (found_.empty()) return {};
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      for (const ValueId out : graph_.nodes[n].outputs) {
        free_[at(out)] = any_order(out);
        if (ask && free_[at(out)] && found_.count(out) != 0) {
          TESSERA_TRY(free_[at(out)], absorbed(out));
        }
        if (!free_[at(out)]) found_.erase(out);
      }
    }
    return {};
  }
  Result<void> drop_scattered();

  Result<bool> absorbed(ValueId out) {
    const Node& node = graph_.nodes[at(uses_.producer[at(out)])];
    const plan::Point point = plan::make_point(
        plan::PointKind::kFront, "front shuffle of " + name_in_plan(graph_, node), plan::kFused);
    TESSERA_TRY(const std::string chosen, decide(options_, point));
    return chosen == plan::kFused;
  }

  bool any_order(ValueId v) const {
    const auto& readers = uses_.readers[at(v)];
    return !uses_.is_output[at(v)] && !readers.empty() &&
           std::all_of(readers.begin(), readers.end(),
                       [&](std::int32_t r) { return any_order(graph_.nodes[at(r)], v); });
  }
  bool any_order(const Node& reader, ValueId v) const {
    if (reader.outputs.size() != 1) return false;
    const ValueId out = reader.outputs[0];
    if (const auto shuffle = opened_.find(out); shuffle != opened_.end())
      return found_.count(shuffle->second) != 0 && free_[at(shuffle->second)];
    if (factors_of(graph_, reader, v)) return true;
    const bool passes_on =
        follows(graph_, reader, v) || slices_channels(graph_, reader) || joins_channels(reader);
    return passes_on && free_[at(out)];
  }

  const Graph& graph_;
  const PassOptions& options_;
  const Uses uses_;
  std::map<ValueId, Permutation> found_;
  std::map<ValueId, ValueId> opened_;  // what the first reshape computes -> the shuffle
  std::vector<bool> free_;             // by value
};

// One channel of a value that is computed.
struct Channel {
  ValueId source = kNoValue;
  std::int64_t index = 0;
  bool operator==(const Channel&) const = default;
  bool operator<(const Channel& other) const {
    return std::tie(source, index) < std::tie(other.source, other.index);
  }
};
using Channels = std::vector<Channel>;

// The order in which they lie in memory. Of equal ones each further copy follows all of the one
// before: copies of a value are runs like the value.
Permutation memory_order(const Channels& wanted) {
  Permutation order = identity_permutation(wanted.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return wanted[at(a)] < wanted[at(b)]; });
  std::vector<std::int64_t> copy(wanted.size(), 0);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (wanted[at(order[i])] == wanted[at(order[i - 1])])
      copy[at(order[i])] = copy[at(order[i - 1])] + 1;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return copy[at(a)] < copy[at(b)]; });
  return order;
}

// Behind the last of the channels from `begin` on that lie side by side.
std::size_t end_of_run(const Channels& sorted, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < sorted.size() &&
         sorted[end] == Channel{sorted[end - 1].source, sorted[end - 1].index + 1})
    ++end;
  return end;
}

// More runs, or shorter ones, cost as much to put side by side as the shuffle, and many do not fit
// into one kernel. The stages of ShuffleNet-V2 need up to 9.
bool is_scattered(const Channels& channels) {
  const Channels sorted = permuted(channels, memory_order(channels));
  std::size_t runs = 0;
  for (std::size_t i = 0; i < sorted.size(); i = end_of_run(sorted, i)) ++runs;
  return runs > std::clamp<std::size_t>(sorted.size() / 4, 4, 12);
}

// Which channels the values of a graph are behind shuffles that are absorbed. A source is a value
// of the graph; one that is computed of shuffled channels has them as they lie in memory.
class Orders {
 public:
  Orders(const Graph& graph, const Shuffles& shuffles) : graph_(graph), shuffles_(shuffles) {
    for (const Node& node : graph.nodes) {
      if (node.outputs.size() == 1) visit(node);
    }
  }

  // Null: the value is not behind a shuffle.
  const Channels* moved(ValueId id) const {
    const auto it = moved_.find(id);
    return it == moved_.end() ? nullptr : &it->second;
  }
  // The first shuffle in front of a node that would read too many runs; kNoValue: there is none.
  ValueId scattered() const { return scattered_; }

 private:
  void visit(const Node& node) {
    const ValueId out = node.outputs[0];
    if (const Permutation* order = shuffles_.order(out)) {
      const ValueId x = shuffles_.shuffled(out);
      moved_[out] = permuted(channels(x), *order);
      const auto before = first_.find(x);
      first_[out] = before == first_.end() ? out : before->second;
    } else if (slices_channels(graph_, node) && shuffles_.free(out)) {
      // Remembered before anything is shuffled too: a shuffle may follow.
      const Channels all = channels(node.inputs[0]);
      const std::int64_t start = node.attrs.integers("starts")[kChannels];
      const std::int64_t step = node.attrs.integers("steps")[kChannels];
      Channels some;
      for (std::int64_t i = 0; i < node.attrs.integers("sizes")[kChannels]; ++i)
        some.push_back(all[at(start + i * step)]);
      remember(node, std::move(some));
    } else if (joins_channels(node) && shuffles_.free(out)) {
      Channels all;
      for (const ValueId id : node.inputs) {
        const Channels part = channels(id);
        all.insert(all.end(), part.begin(), part.end());
      }
      remember(node, std::move(all));
    } else if (const auto x = std::find_if(node.inputs.begin(), node.inputs.end(),
                                           [&](ValueId id) { return moved(id) != nullptr; });
               x != node.inputs.end()) {
      read(node, *x);
    }
  }

  Channels channels(ValueId id) const {
    for (const auto* known : {&moved_, &parts_}) {
      if (const auto it = known->find(id); it != known->end()) return it->second;
    }
    Channels own;
    for (std::int64_t i = 0; i < graph_.shape(id)[kChannels]; ++i) own.push_back({id, i});
    return own;
  }

  void remember(const Node& node, Channels channels) {
    const ValueId out = node.outputs[0];
    for (const ValueId id : node.inputs) {
      if (moved(id)) first_.emplace(out, first_.at(id));
    }
    if (first_.count(out) != 0) {
      moved_[out] = std::move(channels);
    } else if (!is_scattered(channels)) {
      parts_[out] = std::move(channels);
    }
  }

  void read(const Node& node, ValueId x) {
    const ValueId out = node.outputs[0];
    const bool summed = factors_of(graph_, node, x).has_value();
    if (!summed && !(follows(graph_, node, x) && shuffles_.free(out)))
      return;  // the first reshape of the next shuffle
    if (scattered_ == kNoValue && is_scattered(*moved(x))) scattered_ = first_.at(x);
    if (summed) return;
    const Permutation order = memory_order(*moved(x));
    Channels& channels = moved_[out];
    channels.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      channels[at(order[i])] = {out, static_cast<std::int64_t>(i)};
    first_[out] = first_.at(x);
  }

  const Graph& graph_;
  const Shuffles& shuffles_;
  // By value: behind shuffles, and slices and concatenations where nothing is shuffled yet.
  std::map<ValueId, Channels> moved_, parts_;
  std::map<ValueId, ValueId> first_;  // of moved_: a shuffle with no other in front of it
  ValueId scattered_ = kNoValue;
};

// Where readers would read too many runs, the first shuffle stays: those behind it may do then.
Result<void> Shuffles::drop_scattered() {
  for (;;) {
    const ValueId out = Orders(graph_, *this).scattered();
    if (out == kNoValue) return {};
    found_.erase(out);
    TESSERA_DO(drop_read(false));
  }
}

Result<void> Shuffles::choose() {
  TESSERA_DO(drop_read(false));
  TESSERA_DO(drop_scattered());
  TESSERA_DO(drop_read(true));
  return drop_scattered();  // where those that are stored had put others in order
}

class Absorber {
 public:
  explicit Absorber(const Orders& orders) : orders_(orders) {}

  Result<ValueId> visit(Editor& e, const Node& node) {
    const auto x = std::find_if(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId id) { return orders_.moved(id) != nullptr; });
    if (x == node.inputs.end()) return kNoValue;
    return read(e, node, *x);
  }

 private:
  // The channels side by side as they lie in memory.
  Result<ValueId> gather(Editor& e, const Channels& sorted) {
    if (const auto it = gathered_.find(sorted); it != gathered_.end()) return it->second;
    std::vector<ValueId> parts;
    for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
      end = end_of_run(sorted, begin);
      const auto known = results_.find(sorted[begin].source);
      const ValueId source = known == results_.end() ? sorted[begin].source : known->second;
      Shape sizes = e.shape(source), starts(sizes.size(), 0);
      const auto length = static_cast<std::int64_t>(end - begin);
      parts.push_back(source);
      if (length == sizes[kChannels]) continue;
      starts[kChannels] = sorted[begin].index;
      sizes[kChannels] = length;
      TESSERA_TRY(parts.back(),
                  e.add("slice", {source},
                        {{"starts", starts}, {"steps", Shape(sizes.size(), 1)}, {"sizes", sizes}}));
    }
    ValueId all = parts[0];
    if (parts.size() > 1) {
      TESSERA_TRY(all, e.add("concat", parts, {{"axis", static_cast<std::int64_t>(kChannels)}}));
    }
    gathered_[sorted] = all;
    return all;
  }

  static Result<ValueId> permute(Editor& e, ValueId constant, std::size_t axis,
                                 const Permutation& order) {
    HostTensor indices(DType::kI64, {static_cast<std::int64_t>(order.size())});
    std::copy(order.begin(), order.end(), indices.as<std::int64_t>());
    const ValueId at_order = e.constant(std::move(indices));
    return e.add("gather", {constant, at_order}, {{"axis", static_cast<std::int64_t>(axis)}});
  }

  // A node whose operand `x` is a list of channels.
  Result<ValueId> read(Editor& e, const Node& node, ValueId x) {
    const std::optional<Factors> factors = factors_of(e.graph(), node, x);
    const bool followed = follows(e.graph(), node, x) && orders_.moved(node.outputs[0]);
    if (!factors && !followed) return kNoValue;
    const Permutation order = memory_order(*orders_.moved(x));
    TESSERA_TRY(const ValueId all, gather(e, permuted(*orders_.moved(x), order)));
    std::vector<ValueId> inputs = node.inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == x) {
        inputs[i] = all;
      } else if (factors && i == factors->input) {
        TESSERA_TRY(inputs[i], permute(e, id, factors->axis, order));
      } else if (!factors && id != kNoValue) {
        // Weights of a depthwise convolution have the channels first, others broadcast.
        const Shape shape = e.shape(id);
        const std::size_t missing = e.shape(x).size() - shape.size();
        if (!is_conv(node) && (missing > kChannels || shape[kChannels - missing] == 1)) continue;
        TESSERA_TRY(inputs[i], permute(e, id, is_conv(node) ? 0 : kChannels - missing, order));
      }
    }
    TESSERA_TRY(const ValueId result, e.add(node.op->name, inputs, node.attrs));
    results_[node.outputs[0]] = result;
    return factors ? result : kNoValue;
  }

  // The nodes that would compute what is moved die when all readers are rewritten.
  const Orders& orders_;
  std::map<ValueId, ValueId> results_;  // what a value of the graph is computed as
  std::map<Channels, ValueId> gathered_;
};

}  // namespace

Result<bool> absorb_shuffles(Graph& graph, const PassOptions& options) {
  if (!options.allow_reassociation) return false;
  Shuffles shuffles(graph, options);
  TESSERA_DO(shuffles.choose());
  if (shuffles.empty()) return false;
  const Orders orders(graph, shuffles);
  Absorber absorber(orders);
  return Editor(graph).rewrite(
      [&](Editor& e, const Node& node) { return absorber.visit(e, node); });
}

}  // namespace tessera::graph
