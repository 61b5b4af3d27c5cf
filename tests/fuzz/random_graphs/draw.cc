#include "draw.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/onnx/model_builder.h"

namespace tessera::fuzz {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF32,  DType::kF32, DType::kF32, DType::kF16,
                            DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32,
                            DType::kI8,  DType::kU8,   DType::kI16, DType::kU16, DType::kU32,
                            DType::kU64, DType::kBool};

bool in_range(const HostTensor& t, Range range) {
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double v = is_float(t.dtype()) ? t.get_float(i) : static_cast<double>(t.get_int(i));
    if (!(v >= range.low && v <= range.high)) return false;
  }
  return true;
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

std::int64_t extreme(DType t, bool high) {
  const int bits = 8 * size_bytes(t);
  if (is_unsigned_int(t)) return high ? (bits == 64 ? -1 : (std::int64_t{1} << bits) - 1) : 0;
  const std::int64_t most =
      bits == 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
  return high ? most : -most - 1;
}

}  // namespace

Draw::Draw(std::uint64_t seed, std::int64_t model_opset, std::int64_t max_elements)
    : rng(seed),
      opset(model_opset),
      max_elements_(max_elements),
      trace_({{"", model_opset}, {kMicrosoft, 1}, {kTraining, 1}}) {}

void Draw::set_focus(bool last) {
  focus_.clear();
  if (last && !outputs.empty() &&
      std::find(pool_.begin(), pool_.end(), outputs[0]) != pool_.end()) {
    focus_ = outputs[0];
    return;
  }
  std::vector<std::string> unread;
  for (const std::string& n : pool_) {
    if (read_.count(n) == 0 && !trace_.at(n).constant) unread.push_back(n);
  }
  focus_ = unread.empty() || chance(0.1) ? "" : one_of(unread);
}

DType Draw::type(Types types) {
  if (!focus_.empty() && (types & bit(dtype(focus_))) != 0 && chance(0.9)) return dtype(focus_);
  std::vector<DType> present;
  for (const std::string& n : pool_) {
    if ((types & bit(dtype(n))) != 0) present.push_back(dtype(n));
  }
  if (!present.empty() && chance(0.6)) return one_of(present);
  for (;;) {
    const DType t = kTypes[rng.below(std::ssize(kTypes))];
    if ((types & bit(t)) != 0) return t;
  }
}

std::int64_t Draw::dim() {
  static const Shape sizes = {1, 1, 2, 3, 3, 5, 5, 7, 9, 4, 8, 11, 13, 16, 17, 33};
  if (chance(0.01)) return 0;
  return one_of(sizes);
}

Shape Draw::shape(Ranks ranks) {
  Shape out(static_cast<std::size_t>(between(ranks.least, ranks.most)));
  for (std::int64_t& d : out) d = dim();
  while (elements(out) > max_elements_) {
    *std::max_element(out.begin(), out.end()) = between(1, 3);
  }
  return out;
}

HostTensor Draw::tensor(DType t, const Shape& shape, Range range) {
  HostTensor out(t, shape);
  const bool extremes = is_int(t) && !range.bounded && chance(0.3);
  // Sixteenths: sums and products of a few are exact, so that a difference is one of meaning.
  const bool coarse = chance(0.3);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    if (t == DType::kBool) {
      out.set_int(i, rng.below(2));
    } else if (is_float(t)) {
      double v = range.low + rng.uniform() * (range.high - range.low);
      if (coarse) v = std::clamp(std::round(v * 16) / 16, range.low, range.high);
      out.set_float(i, v);
    } else if (extremes && chance(0.2)) {
      out.set_int(i, extreme(t, chance(0.5)));
    } else {
      const double low = std::ceil(is_unsigned_int(t) ? std::fmax(0, range.low) : range.low);
      out.set_int(i, between(static_cast<std::int64_t>(low),
                             static_cast<std::int64_t>(std::fmax(low, std::floor(range.high)))));
    }
  }
  return out;
}

std::string Draw::input(HostTensor value) {
  const std::string n = name("x");
  graph_.inputs.push_back(onnx::testing::value_info(n, value.dtype(), value.shape()));
  trace_.define(n, value, false);
  inputs_[n] = value;
  pool_.push_back(n);
  return n;
}

std::string Draw::constant(const HostTensor& value) {
  for (const onnx::Initializer& v : graph_.initializers) {
    if (same_bytes(std::get<HostTensor>(v.value), value)) return v.name;
  }
  const std::string n = name("c");
  graph_.initializers.push_back({n, value});
  trace_.define(n, value, true);
  return n;
}

std::string Draw::fresh(DType t, const Shape& shape, Range range) {
  HostTensor value = tensor(t, shape, range);
  if (chance(0.75)) return input(std::move(value));
  const std::string n = constant(value);
  pool_.push_back(n);
  return n;
}

std::string Draw::integers(const Shape& values) {
  HostTensor t(DType::kI64, {std::ssize(values)});
  for (std::size_t i = 0; i < values.size(); ++i) {
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  }
  return waits && chance(0.03) ? input(t) : constant(t);
}

std::string Draw::scalar(DType t, double v) {
  HostTensor out(t, {});
  if (is_float(t)) {
    out.set_float(0, v);
  } else {
    out.set_int(0, static_cast<std::int64_t>(v));
  }
  return constant(out);
}

// Mostly known before the run, as weights are.
std::string Draw::weight(DType t, const Shape& shape, Range range) {
  const HostTensor value = tensor(t, shape, range);
  return chance(0.8) ? constant(value) : input(value);
}

bool Draw::fits(const Traced& x, DType t, Ranks ranks, Range range) const {
  const std::int64_t rank = std::ssize(x.value.shape());
  return x.value.dtype() == t && rank >= ranks.least && rank <= ranks.most &&
         (!range.bounded || (in_range(x.value, range) &&
                             std::all_of(x.shadows.begin(), x.shadows.end(),
                                         [&](const HostTensor& s) { return in_range(s, range); })));
}

std::string Draw::find(const std::function<bool(const Traced&)>& wanted) {
  if (!focus_.empty() && wanted(trace_.at(focus_))) return std::exchange(focus_, "");
  std::vector<std::string> found;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (!wanted(trace_.at(pool_[i]))) continue;
    // Later values more often: graphs grow deep.
    for (std::size_t k = 0; k <= 4 * i / pool_.size(); ++k) found.push_back(pool_[i]);
  }
  return found.empty() ? "" : one_of(found);
}

std::string Draw::any(DType t, Ranks ranks, Range range) {
  if (!chance(0.1)) {
    const std::string n = find([&](const Traced& x) { return fits(x, t, ranks, range); });
    if (!n.empty()) return n;
  }
  return fresh(t, shape(ranks), range);
}

std::string Draw::shaped(DType t, const Shape& wanted, Range range) {
  if (!chance(0.1)) {
    const std::string n =
        find([&](const Traced& x) { return x.value.shape() == wanted && fits(x, t, {}, range); });
    if (!n.empty()) return n;
  }
  return fresh(t, wanted, range);
}

std::string Draw::broadcast(DType t, const Shape& with, Range range) {
  const auto agrees = [&](const Shape& s) {
    std::int64_t total = 1;
    for (std::size_t k = 0; k < std::max(s.size(), with.size()); ++k) {
      const std::int64_t a = k < s.size() ? s[s.size() - 1 - k] : 1;
      const std::int64_t b = k < with.size() ? with[with.size() - 1 - k] : 1;
      if (a != b && a != 1 && b != 1) return false;
      total *= a == 1 ? b : a;
    }
    return total <= max_elements_;
  };
  if (chance(0.6)) {
    const std::string n =
        find([&](const Traced& x) { return agrees(x.value.shape()) && fits(x, t, {}, range); });
    if (!n.empty()) return n;
  }
  Shape s = with;
  s.erase(s.begin(), s.begin() + between(0, std::ssize(s)));
  for (std::int64_t& d : s) {
    if (chance(0.3)) d = 1;
  }
  return fresh(t, s, range);
}

bool Draw::emit(const std::string& op, const Names& inputs, Attributes attributes,
                std::size_t count, const std::string& domain) {
  outputs.clear();
  for (std::size_t i = 0; i < count; ++i) outputs.push_back(name("t"));
  onnx::Node node = onnx::testing::make_node(op, inputs, outputs, std::move(attributes));
  node.domain = domain;
  if (const Result<void> ok = trace_.add(node); !ok.ok()) {
    refusal_ = ok.error().message;
    return false;
  }
  read_.merge(names_read(node));
  graph_.nodes.push_back(std::move(node));
  for (const std::string& n : outputs) {
    if (trace_.has(n)) pool_.push_back(n);
  }
  return true;
}

void Draw::take_back(std::size_t nodes) {
  for (std::size_t i = nodes; i < graph_.nodes.size(); ++i) {
    for (const std::string& n : graph_.nodes[i].outputs) std::erase(pool_, n);
  }
  graph_.nodes.resize(nodes);
}

Case Draw::finish() {
  Case c;
  c.model.opsets[""] = opset;
  for (const onnx::Node& node : graph_.nodes) {
    if (!node.domain.empty()) c.model.opsets[node.domain] = 1;
  }
  c.model.ir_version = 10;
  std::set<std::string> read;
  for (const onnx::Node& node : graph_.nodes) read.merge(names_read(node));
  onnx::Graph& g = c.model.graph;
  g.name = "random";
  g.nodes = graph_.nodes;
  for (const onnx::Initializer& v : graph_.initializers) {
    if (read.count(v.name) != 0) g.initializers.push_back(v);
  }
  const bool symbolic = chance(0.3);
  for (onnx::ValueInfo v : graph_.inputs) {
    if (read.count(v.name) == 0) continue;
    for (onnx::Dim& d : v.dims) {
      if (!symbolic || !chance(0.5)) continue;
      d.symbol = fmt::format("n{}", d.size);
      c.symbols[d.symbol] = d.size;
      d.size = -1;
    }
    g.inputs.push_back(v);
    c.inputs[v.name] = inputs_.at(v.name);
  }
  for (const onnx::Node& node : g.nodes) {
    for (const std::string& n : node.outputs) {
      if (!trace_.has(n) || (read.count(n) != 0 && !chance(0.1))) continue;
      const HostTensor& t = value(n);
      g.outputs.push_back(onnx::testing::value_info(n, t.dtype(), t.shape()));
    }
  }
  // An input may be an output as it is.
  if (!c.inputs.empty() && chance(0.03)) {
    const auto& [n, t] = *c.inputs.begin();
    g.outputs.push_back(onnx::testing::value_info(n, t.dtype(), t.shape()));
  }
  return c;
}

}  // namespace tessera::fuzz
