#include "tessera/learn/nn/graph_network.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/learn/nn/network_builder.h"

namespace tessera::nn {
namespace {

using graph::kNoValue;

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

struct Limits {
  const char* name;
  std::int64_t low, high;
};
constexpr Limits kLimits[] = {
    {"both", 0, 1},      {"compare", 0, 1},    {"early", 0, 1},   {"estimate", 0, 1},
    {"hidden", 1, 1024}, {"hops", -1, 64},     {"layers", 0, 16}, {"places", 0, 1 << 16},
    {"residual", 0, 1},  {"segment", 1, 4096},
};
constexpr std::int64_t kNodeStep = 32, kPlaceStep = 8;
constexpr std::int64_t kOpcodeWidth = 16;
constexpr double kLeak = 0.2;

class GraphNetworkBuilder {
 public:
  GraphNetworkBuilder(const GraphNetworkSpec& spec, const GraphShape& shape)
      : spec_(spec), shape_(shape), b_(spec.network, {shape.configs, shape.nodes}) {}

  Result<Network> build() {
    const bool still = spec_.network == "additive" || spec_.network == "pairs";
    const ValueId score = still ? tables() : messages();
    return b_.finish(Rows::kStatement, {{"score", score}});
  }

 private:
  std::int64_t hyper(const char* name) const { return spec_.hyper.at(name); }

  // What the tables of places are read by, [places, rows]: each place's own number, or its
  // operation.
  ValueId place_keys() {
    const std::int64_t m = shape_.places, own = hyper("places");
    return own > 0 ? b_.input("place_ids", {m, own})
                   : b_.input("place_opcodes", {m, kGraphOpcodes});
  }
  std::int64_t key_rows() const { return hyper("places") > 0 ? hyper("places") : kGraphOpcodes; }

  // A weight for every place and column.
  ValueId additive(ValueId configs, ValueId keys) {
    const std::int64_t k = spec_.config_columns;
    const ValueId table = b_.parameter("table", {key_rows(), k}, Init::kZero, k);
    return b_.contract("mbk,mk->b", configs, b_.contract("mk,kn->mn", keys, table));
  }

  // The additive model and a weight for every two that are set together: the product of what each
  // says, added over all pairs as half of the square of the sum without the squares.
  ValueId pairs(ValueId configs, ValueId keys) {
    const std::int64_t k = spec_.config_columns, h = hyper("hidden");
    const ValueId alone = additive(configs, keys);
    const ValueId table = b_.parameter("pairs", {key_rows(), k * h}, Init::kNormal, k * h);
    const ValueId each = b_.reshape(b_.contract("mk,kn->mn", keys, table), {shape_.places, k, h});
    const ValueId sum = b_.contract("mbk,mkh->bh", configs, each);
    const ValueId same = b_.contract("mbk,mkh->bh", configs, b_.mul(each, each));
    const ValueId weight = b_.parameter("pair_weight", {h, 1}, Init::kNormal, 1);
    const ValueId both = b_.mul(b_.sub(b_.mul(sum, sum), same), b_.scalar(0.5));
    const ValueId score = b_.contract("mk,kn->mn", both, weight);
    return b_.add(alone, b_.reshape(score, {shape_.configs}));
  }

  // Networks without messages.
  ValueId tables() {
    const ValueId configs =
        b_.input("configs", {shape_.places, shape_.configs, spec_.config_columns});
    const ValueId keys = place_keys();
    return spec_.network == "pairs" ? pairs(configs, keys) : additive(configs, keys);
  }

  // Of the nodes alone: [nodes, hidden].
  ValueId embed_nodes(ValueId nodes, ValueId opcodes) {
    const ValueId table =
        b_.parameter("opcode", {kGraphOpcodes, kOpcodeWidth}, Init::kNormal, kOpcodeWidth);
    const ValueId op = b_.contract("mk,kn->mn", opcodes, table);
    return b_.linear(b_.concat({nodes, op}, 1), hyper("hidden"), "node");
  }

  // [nodes, configs or 1, hidden] with what its neighbours say.
  ValueId gather(ValueId x, const std::string& name) {
    const std::int64_t h = hyper("hidden");
    if (spec_.network == "gcn") {
      return b_.linear(b_.contract("nm,mbh->nbh", symmetric_, x), h, name + ".all");
    }
    if (spec_.network == "gat") return b_.add(b_.linear(x, h, name + ".self"), attend(x, name));
    ValueId sum = b_.add(b_.linear(x, h, name + ".self"),
                         b_.linear(b_.contract("nm,mbh->nbh", sources_, x), h, name + ".sources"));
    if (users_ == kNoValue) return sum;
    return b_.add(sum, b_.linear(b_.contract("nm,mbh->nbh", users_, x), h, name + ".users", false));
  }

  // Attention of each node over its neighbours, one head.
  ValueId attend(ValueId x, const std::string& name) {
    const std::int64_t n = shape_.nodes, c = configs_now_;
    const ValueId to = b_.reshape(b_.linear(x, 1, name + ".to"), {n, 1, c});
    const ValueId from = b_.reshape(b_.linear(x, 1, name + ".from", false), {1, n, c});
    const ValueId sum = b_.add(to, from);
    const ValueId leaky = b_.max(sum, b_.mul(sum, b_.scalar(kLeak)));
    const ValueId scores = b_.add(leaky, b_.reshape(linked_, {n, n, 1}));
    const ValueId value = b_.linear(x, hyper("hidden"), name + ".value", false);
    return b_.contract("nmb,mbh->nbh", b_.softmax(scores, 1), value);
  }

  // Each configuration beside the share that it has among those of the batch, by a softmax of
  // learned sharpness.
  ValueId compare(ValueId x, const std::string& name) {
    const ValueId sharp = b_.parameter(name + ".sharpness", {1}, Init::kOne, 1);
    const ValueId share =
        b_.mul(b_.softmax(b_.mul(x, sharp), 1), b_.scalar(static_cast<double>(configs_now_)));
    return b_.linear(b_.concat({x, b_.mul(share, x)}, 2), hyper("hidden"), name + ".compare");
  }

  ValueId layers(ValueId x) {
    for (std::int64_t i = 0; i < hyper("layers"); ++i) {
      const std::string name = fmt::format("layer{}", i);
      ValueId y = b_.relu(b_.layer_norm(gather(x, name), name + ".norm"));
      if (hyper("compare") != 0) y = b_.relu(compare(y, name));
      x = hyper("residual") != 0 ? b_.add(x, y) : y;
    }
    return x;
  }

  void add_matrices() {
    const Shape square = {shape_.nodes, shape_.nodes};
    if (hyper("layers") == 0) return;
    if (spec_.network == "gcn") {
      symmetric_ = b_.input("symmetric", square);
    } else if (spec_.network == "gat") {
      linked_ = b_.input("linked", square);
    } else {
      sources_ = b_.input("sources", square);
      if (hyper("both") != 0) users_ = b_.input("users", square);
    }
  }

  // One number for each row of [rows, configs, hidden], added by the weights [1, rows].
  ValueId read_out(ValueId x, std::int64_t rows, ValueId weights) {
    const std::int64_t h = hyper("hidden");
    const ValueId y = b_.relu(b_.linear(x, h, "out0"));
    const ValueId each = b_.reshape(b_.linear(y, 1, "out1", false), {rows, shape_.configs});
    return b_.reshape(b_.contract("mk,kn->mn", weights, each), {shape_.configs});
  }

  ValueId messages() {
    const std::int64_t n = shape_.nodes, m = shape_.places, h = hyper("hidden");
    const bool early = hyper("early") != 0;
    configs_now_ = early ? shape_.configs : 1;
    // All inputs before the first parameter.
    const ValueId nodes = b_.input("nodes", {n, spec_.columns});
    const ValueId opcodes = b_.input("opcodes", {n, kGraphOpcodes});
    const ValueId configs = b_.input("configs", {m, shape_.configs, spec_.config_columns});
    const ValueId place = b_.input("place", {n, m});
    const ValueId mask = b_.input("mask", {1, n});
    const std::int64_t own = hyper("places"), k = spec_.config_columns;
    const ValueId ids = own > 0 ? b_.input("place_ids", {m, own}) : kNoValue;
    if (hyper("estimate") != 0) estimate_ = b_.input("estimate", {shape_.configs});
    add_matrices();
    const ValueId still = b_.reshape(embed_nodes(nodes, opcodes), {n, 1, h});
    ValueId said = b_.linear(configs, h, "config", false);
    if (own > 0) {
      const ValueId table = b_.parameter("place_config", {own, k * h}, Init::kNormal, k * h);
      const ValueId each = b_.reshape(b_.contract("mk,kn->mn", ids, table), {m, k, h});
      said = b_.add(said, b_.contract("mbk,mkh->mbh", configs, each));
    }
    if (early) {
      const ValueId x = b_.add(b_.contract("nm,mbh->nbh", place, said), still);
      return with_estimate(read_out(layers(b_.relu(x)), n, mask));
    }
    // Each place with its nodes: one of a layout's, all of a tile's.
    const ValueId around = b_.mul(layers(b_.relu(still)), b_.reshape(mask, {n, 1, 1}));
    const ValueId at = b_.contract("nm,nh->mh", place, b_.reshape(around, {n, h}));
    const ValueId x = b_.relu(b_.add(said, b_.reshape(at, {m, 1, h})));
    const ValueId real = b_.contract("mk,kn->mn", mask, place);  // nodes of each place
    const ValueId one = b_.sub(b_.scalar(1), b_.relu(b_.sub(b_.scalar(1), real)));
    return with_estimate(read_out(b_.add(x, b_.relu(b_.linear(x, h, "place"))), m, one));
  }

  // The network says how far the estimate is off.
  ValueId with_estimate(ValueId score) {
    if (estimate_ == kNoValue) return score;
    return b_.add(score, b_.mul(estimate_, b_.parameter("estimate.weight", {1}, Init::kOne, 1)));
  }

  const GraphNetworkSpec& spec_;
  GraphShape shape_;
  NetworkBuilder b_;
  std::int64_t configs_now_ = 1;  // of what is passed along edges
  ValueId sources_ = kNoValue, users_ = kNoValue, symmetric_ = kNoValue, linked_ = kNoValue;
  ValueId estimate_ = kNoValue;
};

Hyper message_defaults(const Hyper& own) {
  Hyper out = {{"hidden", 64}, {"layers", 2},    {"early", 1},  {"residual", 1}, {"compare", 0},
               {"hops", 1},    {"segment", 512}, {"places", 0}, {"estimate", 0}};
  out.insert(own.begin(), own.end());
  return out;
}

Result<const GraphNetworkEntry*> find_entry(const std::string& name) {
  std::vector<std::string> names;
  for (const GraphNetworkEntry& entry : graph_network_table()) {
    if (name == entry.name) return &entry;
    names.emplace_back(entry.name);
  }
  return bad("unknown network '{}' of graphs; there are {}", name, fmt::join(names, ", "));
}

Result<void> check_hyper(const GraphNetworkSpec& spec, const GraphNetworkEntry& entry) {
  for (const auto& [name, value] : spec.hyper) {
    if (entry.defaults.count(name) == 0) {
      std::vector<std::string> known;
      for (const auto& [key, unused] : entry.defaults) known.push_back(key);
      return bad("{}: unknown hyper-parameter '{}'; it has {}", spec.network, name,
                 fmt::join(known, ", "));
    }
    const auto* limits = std::find_if(std::begin(kLimits), std::end(kLimits),
                                      [&n = name](const Limits& l) { return n == l.name; });
    TESSERA_CHECK(limits != std::end(kLimits), "nn: {} has no limits", name);
    if (value < limits->low || value > limits->high) {
      return bad("{}={} is outside {}..{}", name, value, limits->low, limits->high);
    }
  }
  for (const auto& [name, value] : entry.defaults) {
    if (spec.hyper.count(name) == 0) return bad("hyper-parameter {} is missing", name);
  }
  return {};
}

}  // namespace

const std::vector<GraphNetworkEntry>& graph_network_table() {
  static const std::vector<GraphNetworkEntry> table = {
      {"additive",
       "a weight for each place and what it is set to; the baseline",
       {{"places", 0}, {"hops", 0}, {"segment", 4096}}},
      {"gat", "attention over a node's neighbours", message_defaults({})},
      {"gcn", "neighbours averaged with the node by the symmetric matrix", message_defaults({})},
      {"graphsage", "means over sources and users beside the node itself",
       message_defaults({{"both", 1}})},
      {"pairs",
       "additive, and a weight for every two that are set together",
       {{"hidden", 16}, {"places", 0}, {"hops", 0}, {"segment", 4096}}}};
  return table;
}

Result<GraphNetworkSpec> make_graph_spec(const std::string& network, const Hyper& hyper,
                                         std::int64_t columns, std::int64_t config_columns) {
  TESSERA_TRY(const GraphNetworkEntry* entry, find_entry(network));
  GraphNetworkSpec spec{network, entry->defaults, columns, config_columns};
  for (const auto& [name, value] : hyper) spec.hyper[name] = value;
  TESSERA_DO(check_hyper(spec, *entry));
  return spec;
}

Result<Network> build_graph_network(const GraphNetworkSpec& spec, const GraphShape& shape) {
  TESSERA_TRY(const GraphNetworkEntry* entry, find_entry(spec.network));
  TESSERA_DO(check_hyper(spec, *entry));
  if (shape.configs < 1 || shape.nodes < 1 || shape.places < 1 || spec.columns < 1 ||
      spec.config_columns < 1) {
    return bad("{}: an instance without configurations, nodes or places", spec.network);
  }
  auto network = GraphNetworkBuilder(spec, shape).build();
  if (!network.ok()) return network.error().with_context(spec.network);
  return network;
}

GraphShape padded_graph_shape(const GraphShape& shape) {
  const auto up = [](std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; };
  return {shape.configs, up(shape.nodes, kNodeStep), up(shape.places, kPlaceStep)};
}

}  // namespace tessera::nn
