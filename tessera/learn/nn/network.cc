#include "tessera/learn/nn/network.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/learn/nn/network_builder.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {

using graph::kNoValue;

namespace {

constexpr std::array<const char*, 3> kOutputs = {"score", "validity", "log_time"};

struct Limits {
  const char* name;
  std::int64_t low, high;
};
constexpr Limits kHyperLimits[] = {
    {"depth", 1, 64},  {"ffn", 1, 16384},     {"heads", 1, 64}, {"hidden", 1, 4096},
    {"layers", 1, 16}, {"masked", 0, 1},      {"n_a", 1, 1024}, {"n_d", 1, 1024},
    {"slots", 1, 64},  {"max_rows", 1, 4096}, {"steps", 1, 16},
};
constexpr Limits kColumns = {"columns", 1, 1 << 16}, kContext = {"context", 0, 1 << 16};
constexpr Limits kBatch = {"batch", 1, 1 << 22}, kRows = {"rows", 1, 4096};

// A step is at most a third: rows that are not there cost as much as rows that are.
constexpr std::array<std::int64_t, 15> kPaddings = {2,  3,  4,  5,  6,  8,  10, 12,
                                                    16, 20, 24, 32, 48, 64, 128};
// Of networks that see their padding. Scores compare best among candidates of the same length, and
// nearly all have fewer rows than the first.
constexpr std::array<std::int64_t, 4> kSeenPaddings = {16, 32, 64, 128};

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

Result<void> check(const Limits& limits, std::int64_t value) {
  if (value >= limits.low && value <= limits.high) return {};
  return bad("{}={} is outside {}..{}", limits.name, value, limits.low, limits.high);
}

std::vector<std::string> names_of(const Hyper& hyper) {
  std::vector<std::string> names;
  for (const auto& [name, value] : hyper) names.push_back(name);
  return names;
}

Result<void> check_spec(const NetworkSpec& spec, const NetworkEntry& entry) {
  for (const auto& [name, value] : spec.hyper) {
    if (entry.defaults.count(name) == 0) {
      const std::vector<std::string> known = names_of(entry.defaults);
      return bad("unknown hyper-parameter '{}'; it has {}", name, fmt::join(known, ", "));
    }
    const auto* limits = std::find_if(std::begin(kHyperLimits), std::end(kHyperLimits),
                                      [&n = name](const Limits& l) { return n == l.name; });
    TESSERA_CHECK(limits != std::end(kHyperLimits), "nn: {} has no limits", name);
    TESSERA_DO(check(*limits, value));
  }
  for (const auto& [name, value] : entry.defaults) {
    if (spec.hyper.count(name) == 0) return bad("hyper-parameter {} is missing", name);
  }
  TESSERA_DO(check(kColumns, spec.columns));
  return check(kContext, spec.context);
}

Inputs make_inputs(NetworkBuilder& b, const NetworkSpec& spec, Rows rows) {
  Inputs inputs;
  inputs.rows = b.input("rows", {b.batch(), b.rows(), spec.columns});
  inputs.mask = b.input("mask", {b.batch(), b.rows()});
  if (spec.context > 0) inputs.context = b.input("context", {b.batch(), spec.context});
  if (rows == Rows::kLoop) inputs.parents = b.input("parents", {b.batch(), b.rows(), b.rows()});
  return inputs;
}

// Two residual layers as in TenSet's network, then one column per output.
std::vector<std::pair<std::string, ValueId>> add_heads(NetworkBuilder& b, ValueId x,
                                                       std::int64_t hidden) {
  if (b.width(x) != hidden) x = b.relu(b.linear(x, hidden, "head.in"));
  for (const char* name : {"head.0", "head.1"}) {
    x = b.add(b.relu(b.linear(x, hidden, name)), x);
  }
  const ValueId all = b.linear(x, static_cast<std::int64_t>(kOutputs.size()), "head.out");
  std::vector<std::pair<std::string, ValueId>> outputs;
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const ValueId column = b.slice(all, 1, static_cast<std::int64_t>(i), 1);
    outputs.emplace_back(kOutputs[i], b.reshape(column, {b.batch()}));
  }
  return outputs;
}

}  // namespace

const std::vector<NetworkEntry>& network_table() {
  static const std::vector<NetworkEntry> table = {
      atformer_network(), lstm_network(),   mha_network(),    mlp_network(),
      sequence_network(), tabnet_network(), treegru_network()};
  return table;
}

Result<const NetworkEntry*> find_network(const std::string& name) {
  std::vector<std::string> names;
  for (const NetworkEntry& entry : network_table()) {
    if (name == entry.name) return &entry;
    names.emplace_back(entry.name);
  }
  return bad("unknown network '{}'; there are {}", name, fmt::join(names, ", "));
}

Result<NetworkSpec> make_spec(const std::string& network, const Hyper& hyper, std::int64_t columns,
                              std::int64_t context) {
  TESSERA_TRY(const NetworkEntry* entry, find_network(network));
  NetworkSpec spec{network, entry->defaults, columns, context};
  for (const auto& [name, value] : hyper) spec.hyper[name] = value;
  // What only the definition knows, such as widths that do not divide, shows when it is built.
  if (const auto built = build_network(spec, {.batch = 1, .rows = 1}); !built.ok()) {
    return built.error();
  }
  return spec;
}

Result<Network> build_network(const NetworkSpec& spec, const InstanceShape& shape) {
  TESSERA_TRY(const NetworkEntry* entry, find_network(spec.network));
  if (auto fits = check_spec(spec, *entry); !fits.ok()) {
    return fits.error().with_context(spec.network);
  }
  TESSERA_DO(check(kBatch, shape.batch));
  TESSERA_DO(check(kRows, shape.rows));
  NetworkBuilder b(spec.network, shape);
  const Inputs inputs = make_inputs(b, spec, entry->rows);
  const ValueId encoded = entry->encode(b, inputs, spec.hyper);
  auto network = b.finish(entry->rows, add_heads(b, encoded, spec.hyper.at("hidden")));
  if (!network.ok()) return network.error().with_context(spec.network);
  return network;
}

bool sees_padding(const NetworkSpec& spec) {
  const auto masked = spec.hyper.find("masked");
  return masked != spec.hyper.end() && masked->second == 0;
}

std::int64_t padded_rows(const NetworkSpec& spec, std::int64_t count) {
  const auto limit = spec.hyper.find("max_rows");
  const auto smallest = [&](const auto& sizes) {
    const auto at = std::lower_bound(sizes.begin(), sizes.end(), count);
    const std::int64_t rows = at == sizes.end() ? sizes.back() : *at;
    return limit == spec.hyper.end() ? rows : std::min(rows, limit->second);
  };
  return sees_padding(spec) ? smallest(kSeenPaddings) : smallest(kPaddings);
}

HostTensor initial_value(const Parameter& parameter, Rng& rng) {
  HostTensor value(DType::kF32, parameter.shape);
  const double scale =
      1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, parameter.fan_in)));
  float* data = value.as<float>();
  for (std::int64_t i = 0; i < value.size(); ++i) {
    double x = 0;
    switch (parameter.init) {
      case Init::kZero:
        break;
      case Init::kOne:
        x = 1;
        break;
      case Init::kUniformFanIn:
        x = (2 * rng.uniform() - 1) * scale;
        break;
      case Init::kNormal:
        // The sum of twelve: logarithms and cosines round differently on other machines.
        for (int k = 0; k < 12; ++k) x += rng.uniform();
        x = (x - 6) * scale;
        break;
    }
    data[i] = static_cast<float>(x);
  }
  return value;
}

}  // namespace tessera::nn
