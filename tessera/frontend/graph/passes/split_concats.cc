// conv(concat(a, b), w) -> conv(a, w of a) + conv(b, w of b): nothing is copied to stand side by
// side, and the partial sums are stored once more instead.
// pool(concat(a, b)) -> concat(pool(a), pool(b)): less is copied, or nothing where a convolution
// follows.
// cast(f(concat(a, b))) -> concat(cast(f(a)), cast(f(b))), to a narrower type: what makes a and b
// stores them narrow.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"

namespace tessera::graph {
namespace {

// More parts store and read more partial sums than a copy would move.
constexpr std::size_t kMostParts = 4;

bool is_pool(const Node& node) {
  return node.op->is(fact::kImages) && !node.op->is(fact::kConvolves);
}

// The concatenation of channels that only this convolution or pool reads; null: there is none.
const Node* joined_channels(const Editor& e, const Node& node) {
  const bool conv = node.op->is(fact::kConvolves) && !node.op->is(fact::kTransposed) &&
                    node.attrs.integer("group", 1) == 1 && e.constant_of(node.inputs[1]);
  if (!conv && !is_pool(node)) return nullptr;
  const Node* concat = e.producer(node.inputs[0], "concat");
  if (!concat || !e.has_one_reader(node.inputs[0])) return nullptr;
  const auto rank = static_cast<std::int64_t>(e.shape(node.inputs[0]).size());
  const std::int64_t channels = node.attrs.word("layout") == "nhwc" ? rank - 1 : 1;
  if (concat->attrs.integer("axis") != channels || concat->inputs.size() > kMostParts)
    return nullptr;
  for (const ValueId part : concat->inputs) {
    if (elements(e.shape(part)) == 0) return nullptr;
  }
  return concat;
}

// Whether fewer bytes are written and read then. Products that prepare what they read in their
// kernels copy nothing.
bool saves_bytes(const Editor& e, const Node& node, const Node& concat, const plan::Rules& rules) {
  if (rules.moves_inside) return false;
  const std::int64_t joined = elements(e.shape(node.inputs[0]));
  const std::int64_t result = elements(e.shape(node.outputs[0]));
  if (is_pool(node)) return result < joined;
  // Windows would sum up once more at each place, and Winograd transform more sums back.
  const Shape w = e.shape(node.inputs[1]);
  if (std::any_of(w.begin() + 2, w.end(), [](std::int64_t k) { return k != 1; })) return false;
  // A product of half the length is a little slower by itself.
  return 2 * static_cast<std::int64_t>(concat.inputs.size() - 1) * result <= joined;
}

// Nodes that share a name, as they have none of their own, prefer what their shapes say.
std::string key_of(const Editor& e, const Node& node, const Node& concat) {
  const std::string name = name_in_plan(e.graph(), node);
  if (node.origin.empty() || node.origin.find(' ') != std::string::npos)
    return "concat into " + name;
  std::string parts;
  for (const ValueId part : concat.inputs)
    parts += (parts.empty() ? "" : "+") + to_text(e.shape(part));
  const std::string by = is_pool(node) ? "pool" : to_text(e.shape(node.inputs[1]));
  return fmt::format("concat {} by {} to {} into {}", parts, by, to_text(e.shape(node.outputs[0])),
                     name);
}

Result<ValueId> pools_of_parts(Editor& e, const Node& pool, const Node& concat) {
  std::vector<ValueId> parts;
  for (const ValueId part : concat.inputs) {
    TESSERA_TRY(const ValueId pooled, e.add("pool", {part}, pool.attrs));
    parts.push_back(pooled);
  }
  return e.add("concat", parts, concat.attrs);
}

Result<ValueId> sum_of_parts(Editor& e, const Node& conv, const Node& concat) {
  const auto axis = static_cast<std::size_t>(concat.attrs.integer("axis"));
  const Shape all = e.shape(conv.inputs[1]);
  std::vector<std::int64_t> starts(all.size(), 0);
  const std::vector<std::int64_t> steps(all.size(), 1);
  ValueId sum = kNoValue;
  for (const ValueId part : concat.inputs) {
    Shape size = all;
    size[1] = e.shape(part)[axis];
    TESSERA_TRY(const ValueId w, e.add("slice", {conv.inputs[1]},
                                       {{"starts", starts}, {"steps", steps}, {"sizes", size}}));
    TESSERA_TRY(const ValueId y, e.add("conv", {part, w}, conv.attrs));
    starts[1] += size[1];
    if (sum == kNoValue) {
      sum = y;
    } else {
      TESSERA_TRY(sum, e.add("add", {y, sum}));
    }
  }
  return sum;
}

// The operand of what the node computes element by element from that and numbers; kNoValue: there
// is none, or others read the operand.
ValueId only_operand(const Editor& e, const Node& node) {
  ValueId out = kNoValue;
  if (node.op->fusion != Fusion::kPointwise) return kNoValue;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue || (e.constant_of(id) && e.shape(id).empty())) continue;
    if (out != kNoValue || !e.has_one_reader(id)) return kNoValue;
    out = id;
  }
  return out;
}

Result<ValueId> narrow_parts(Editor& e, const Node& node) {
  if (std::string_view(node.op->name) != "cast" || !is_float(e.dtype(node.inputs[0])) ||
      size_bytes(node.attrs.dtype("to")) >= size_bytes(e.dtype(node.inputs[0])))
    return kNoValue;
  std::vector<const Node*> chain = {&node};
  ValueId from = only_operand(e, node);
  const Node* concat = nullptr;
  while (from != kNoValue && !(concat = e.producer(from, "concat"))) {
    const Node* next = e.producer(from);
    if (!next) return kNoValue;
    chain.push_back(next);
    from = only_operand(e, *next);
  }
  if (!concat) return kNoValue;
  std::vector<ValueId> parts = concat->inputs;
  for (ValueId& part : parts) {
    for (auto step = chain.rbegin(); step != chain.rend(); ++step) {
      std::vector<ValueId> inputs = (*step)->inputs;
      for (ValueId& id : inputs) {
        if (id != kNoValue && !e.constant_of(id)) id = part;
      }
      TESSERA_TRY(part, e.add((*step)->op->name, inputs, (*step)->attrs));
    }
  }
  return e.add("concat", parts, concat->attrs);
}

}  // namespace

Result<bool> split_concats(Graph& graph, const PassOptions& options) {
  TESSERA_TRY(const bool narrowed, Editor(graph).rewrite(narrow_parts));
  if (!options.allow_reassociation) return narrowed;
  TESSERA_TRY(
      const bool split, Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
        const Node* concat = joined_channels(e, node);
        if (!concat) return kNoValue;
        const plan::Point point = plan::make_point(
            plan::PointKind::kSplit, key_of(e, node, *concat),
            saves_bytes(e, node, *concat, options.rules) ? plan::kSplitUp : plan::kJoined);
        TESSERA_TRY(const std::string chosen, decide(options, point));
        if (chosen == plan::kJoined) return kNoValue;
        return is_pool(node) ? pools_of_parts(e, node, *concat) : sum_of_parts(e, node, *concat);
      }));
  return narrowed || split;
}

}  // namespace tessera::graph
