#include "tessera/learn/graphset/network_inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/support/rng.h"

namespace tessera::graphset {
namespace {

constexpr float kNever = -1e9F;
constexpr double kLeastDeviation = 1e-6;
constexpr int kComparedRounds = 4;
// Plans of a model differ by some percent: as large as what networks add to it.
constexpr double kEstimateScale = 8;

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

float squash(float x) { return std::copysign(std::log1p(std::abs(x)), x); }

// Of the squashed columns of rows.
class Moments {
 public:
  explicit Moments(std::int64_t columns)
      : sum_(static_cast<std::size_t>(columns)), squares_(sum_.size()) {}

  void add(const float* rows, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::size_t c = 0; c < sum_.size(); ++c) {
        const double x = squash(*rows++);
        sum_[c] += x;
        squares_[c] += x * x;
      }
    }
    count_ += static_cast<double>(count);
  }

  nn::Normalizer normalizer() const {
    nn::Normalizer out;
    for (std::size_t c = 0; c < sum_.size(); ++c) {
      const double mean = count_ > 0 ? sum_[c] / count_ : 0;
      const double variance = count_ > 0 ? squares_[c] / count_ - mean * mean : 0;
      const double deviation = std::sqrt(std::max(0.0, variance));
      out.shift.push_back(static_cast<float>(mean));
      out.scale.push_back(deviation < kLeastDeviation ? 0.0F : static_cast<float>(1 / deviation));
    }
    return out;
  }

 private:
  std::vector<double> sum_, squares_;
  double count_ = 0;
};

float normalized(const nn::Normalizer& n, std::size_t column, float x) {
  return (squash(x) - n.shift[column]) * n.scale[column];
}

bool names_dimension(float x) {
  return x >= -1 && x < static_cast<float>(kLayoutValues - 1) && std::floor(x) == x;
}

std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

// Rows add up to 1 where there is a neighbour.
void fill_means(const Segment& segment, bool from_users, std::int64_t n, std::vector<float>* out) {
  std::vector<float> count(static_cast<std::size_t>(n), 0);
  for (const Edge& e : segment.edges) {
    const std::int32_t to = from_users ? e.source : e.user, from = from_users ? e.user : e.source;
    (*out)[at(to, n, from)] += 1;
    count[static_cast<std::size_t>(to)] += 1;
  }
  for (std::int64_t r = 0; r < n; ++r) {
    const float total = count[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; c < n && total > 0; ++c) (*out)[at(r, n, c)] /= total;
  }
}

// 1 for neighbours and the node itself.
void fill_linked(const Segment& segment, std::int64_t n, std::vector<float>* out) {
  for (std::int64_t r = 0; r < n; ++r) (*out)[at(r, n, r)] = 1;
  for (const Edge& e : segment.edges) {
    (*out)[at(e.user, n, e.source)] = 1;
    (*out)[at(e.source, n, e.user)] = 1;
  }
}

void fill_symmetric(const Segment& segment, std::int64_t n, std::vector<float>* out) {
  fill_linked(segment, n, out);
  std::vector<float> degree(static_cast<std::size_t>(n), 0);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) degree[static_cast<std::size_t>(r)] += (*out)[at(r, n, c)];
  }
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      (*out)[at(r, n, c)] /=
          std::sqrt(degree[static_cast<std::size_t>(r)] * degree[static_cast<std::size_t>(c)]);
    }
  }
}

void fill_nodes(const Encoding& encoding, const ConfigGraph& graph, const Segment& segment,
                std::vector<float>* out) {
  float* to = out->data();
  for (const std::int32_t node : segment.nodes) {
    const float* from = graph.node_feat.as<float>() + node * encoding.columns;
    for (std::int64_t c = 0; c < encoding.columns; ++c) {
      *to++ = normalized(encoding.nodes, static_cast<std::size_t>(c), from[c]);
    }
  }
}

void fill_place(const Segment& segment, const nn::GraphShape& shape, std::vector<float>* out) {
  if (segment.at.empty()) {  // one configuration for all nodes
    for (std::size_t r = 0; r < segment.nodes.size(); ++r) {
      (*out)[at(static_cast<std::int64_t>(r), shape.places, 0)] = 1;
    }
  }
  for (std::size_t p = 0; p < segment.at.size(); ++p) {
    (*out)[at(segment.at[p], shape.places, static_cast<std::int64_t>(p))] = 1;
  }
}

void fill_opcodes(const ConfigGraph& graph, const std::vector<std::int32_t>& nodes,
                  std::vector<float>* out) {
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    const std::uint8_t id = graph.opcode[static_cast<std::size_t>(nodes[r])];
    (*out)[at(static_cast<std::int64_t>(r), nn::kGraphOpcodes, id % nn::kGraphOpcodes)] = 1;
  }
}

}  // namespace

Result<Encoding> fit_encoding(const std::vector<ConfigGraph>& graphs) {
  if (graphs.empty()) return bad("there is no graph");
  const ConfigGraph& first = graphs.front();
  Encoding out;
  out.kind = first.kind;
  out.columns = first.columns();
  const bool tile = out.kind == Kind::kTile;
  out.config_columns = tile ? first.config_columns() : first.config_columns() * kLayoutValues;
  Moments nodes(out.columns), configs(tile ? out.config_columns : 0);
  for (const ConfigGraph& g : graphs) {
    TESSERA_DO(check_fits(out, g));
    nodes.add(g.node_feat.as<float>(), g.nodes());
    if (tile) configs.add(g.configs.as<float>(), g.size());
  }
  out.nodes = nodes.normalizer();
  out.configs = configs.normalizer();
  return out;
}

Encoding encoding_of(const nn::TrainedGraphNetwork& network) {
  return {.kind = network.kind == "tile" ? Kind::kTile : Kind::kLayout,
          .nodes = network.nodes,
          .configs = network.configs,
          .columns = network.spec.columns,
          .config_columns = network.spec.config_columns,
          .places = network.spec.hyper.at("places")};
}

Result<void> check_fits(const Encoding& encoding, const ConfigGraph& graph) {
  if (graph.kind != encoding.kind) {
    return bad("{}: a {} set where {} sets are read", graph.name, to_text(graph.kind),
               to_text(encoding.kind));
  }
  const bool tile = graph.kind == Kind::kTile;
  const std::int64_t raw = tile ? encoding.config_columns : encoding.config_columns / kLayoutValues;
  if (graph.columns() != encoding.columns || graph.config_columns() != raw) {
    return bad("{}: nodes of {} and configurations of {} numbers where {} and {} are read",
               graph.name, graph.columns(), graph.config_columns(), encoding.columns, raw);
  }
  if (encoding.places > 0 && graph.places() != encoding.places) {
    return bad("{}: {} places, the weights are of {}", graph.name, graph.places(), encoding.places);
  }
  const float* values = graph.configs.as<float>();
  if (!tile && !std::all_of(values, values + graph.configs.size(), names_dimension)) {
    return bad("{}: layouts have numbers that are not dimensions (-1 to {})", graph.name,
               kLayoutValues - 2);
  }
  return {};
}

int score_rounds(const nn::GraphNetworkSpec& spec) {
  const auto compare = spec.hyper.find("compare");
  return compare != spec.hyper.end() && compare->second != 0 ? kComparedRounds : 1;
}

std::vector<std::int64_t> round_order(std::int64_t size, int round) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  if (round == 0) return order;
  Rng rng(static_cast<std::uint64_t>(round));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
  return order;
}

CutOptions cut_options(const nn::GraphNetworkSpec& spec) {
  return {.hops = spec.hyper.at("hops"), .nodes = spec.hyper.at("segment")};
}

std::vector<float> still_input(const std::string& name, const Encoding& encoding,
                               const ConfigGraph& graph, const Segment& segment,
                               const nn::GraphShape& shape) {
  const std::int64_t n = shape.nodes, m = shape.places;
  const auto zeros = [](std::int64_t rows, std::int64_t columns) {
    return std::vector<float>(static_cast<std::size_t>(rows * columns), 0);
  };
  std::vector<float> out;
  if (name == "nodes") {
    fill_nodes(encoding, graph, segment, &(out = zeros(n, encoding.columns)));
  } else if (name == "opcodes") {
    fill_opcodes(graph, segment.nodes, &(out = zeros(n, nn::kGraphOpcodes)));
  } else if (name == "place_opcodes") {
    std::vector<std::int32_t> nodes;
    nodes.reserve(segment.at.size());
    for (const std::int32_t i : segment.at) {
      nodes.push_back(segment.nodes[static_cast<std::size_t>(i)]);
    }
    fill_opcodes(graph, nodes.empty() ? std::vector{segment.nodes.back()} : nodes,
                 &(out = zeros(m, nn::kGraphOpcodes)));
  } else if (name == "place_ids") {
    out = zeros(m, encoding.places);
    for (std::size_t p = 0; p < segment.places.size(); ++p) {
      out[at(static_cast<std::int64_t>(p), encoding.places, segment.places[p])] = 1;
    }
  } else if (name == "place") {
    fill_place(segment, shape, &(out = zeros(n, m)));
  } else if (name == "mask") {
    out = zeros(1, n);
    std::fill_n(out.begin(), segment.nodes.size(), 1.0F);
  } else if (name == "sources" || name == "users") {
    fill_means(segment, name == "users", n, &(out = zeros(n, n)));
  } else if (name == "symmetric") {
    fill_symmetric(segment, n, &(out = zeros(n, n)));
  } else if (name == "linked") {
    fill_linked(segment, n, &(out = zeros(n, n)));
    for (float& x : out) x = x > 0 ? 0 : kNever;
  }
  return out;
}

void fill_configs(const Encoding& encoding, const ConfigGraph& graph, const Segment& segment,
                  std::span<const std::int64_t> configs, const nn::GraphShape& shape, float* out) {
  const std::int64_t columns = encoding.config_columns, raw = graph.config_columns();
  std::fill_n(out, shape.places * shape.configs * columns, 0.0F);
  for (std::size_t p = 0; p < segment.places.size(); ++p) {
    float* to = out + static_cast<std::int64_t>(p) * shape.configs * columns;
    for (const std::int64_t config : configs) {
      const float* from = graph.config(config) + segment.places[p] * raw;
      for (std::int64_t c = 0; c < raw; ++c) {
        if (graph.kind == Kind::kTile) {
          to[c] = normalized(encoding.configs, static_cast<std::size_t>(c), from[c]);
        } else {
          to[c * kLayoutValues + static_cast<std::int64_t>(from[c]) + 1] = 1;
        }
      }
      to += columns;
    }
  }
}

void fill_estimates(const ConfigGraph& graph, std::span<const std::int64_t> configs,
                    std::size_t segments, float* out) {
  for (const std::int64_t config : configs) {
    double faster = 0;  // than the first
    if (!graph.estimate_ns.empty()) {
      faster = std::log(static_cast<double>(graph.estimate_ns.front()) /
                        static_cast<double>(graph.estimate_ns[static_cast<std::size_t>(config)]));
    }
    *out++ = static_cast<float>(kEstimateScale * faster / static_cast<double>(segments));
  }
}

}  // namespace tessera::graphset
