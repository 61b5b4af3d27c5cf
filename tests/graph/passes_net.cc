#include "passes_net.h"

#include <gtest/gtest.h>

#include "tests/testing/testing.h"

namespace tessera::graph {

ValueId Net::input(const Shape& shape, DType dtype) {
  return builder_.input(fmt::format("x{}", builder_.graph().inputs.size()), {dtype, shape});
}

ValueId Net::weights(const Shape& shape, DType dtype) {
  return builder_.constant(random_tensor(dtype, shape, rng_));
}

ValueId Net::op(std::string_view name, const std::vector<ValueId>& inputs, Attrs attrs) {
  auto id = builder_.add(name, inputs, std::move(attrs));
  if (!id) throw std::runtime_error(fmt::format("{}: {}", name, id.error().message));
  return *id;
}

ValueId Net::conv(ValueId x, std::int64_t co, std::int64_t kernel, std::int64_t pad,
                  std::int64_t stride, std::int64_t group) {
  const ValueId w = weights({co, shape(x)[1] / group, kernel, kernel});
  return op("conv", {x, w},
            {{"strides", Integers{stride, stride}},
             {"before", Integers{pad, pad}},
             {"after", Integers{pad, pad}},
             {"dilations", Integers{1, 1}},
             {"group", group},
             {"layout", std::string("nchw")}});
}

ValueId Net::contract(ValueId x, ValueId y, const char* a, const char* b, const char* out) {
  return op("contract", {x, y},
            {{"a", std::string(a)}, {"b", std::string(b)}, {"out", std::string(out)}});
}

ValueId Net::reduce(ValueId x, const char* kind, const Integers& axes, bool keepdims) {
  return op("reduce", {x},
            {{"kind", std::string(kind)},
             {"axes", axes},
             {"keepdims", static_cast<std::int64_t>(keepdims)}});
}

Graph Net::finish(const std::vector<ValueId>& outputs) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) names.push_back(fmt::format("y{}", i));
  return builder_.finish(outputs, names);
}

namespace {

// Sums of a few hundred products, rounded differently by folded weights and winograd.
constexpr double kTolerance = 2e-3;

}  // namespace

void expect_same(const Graph& want, const Graph& got, const std::string& what) {
  Rng rng(7);
  std::vector<HostTensor> inputs;
  for (const ValueId id : want.inputs) {
    inputs.push_back(random_tensor(want.type(id).dtype, want.shape(id), rng));
  }
  const auto a = evaluate(want, inputs), b = evaluate(got, inputs);
  ASSERT_TRUE(a.ok()) << what << ": " << a.error().message;
  ASSERT_TRUE(b.ok()) << what << ": " << b.error().message << "\n" << to_text(got);
  ASSERT_EQ(a->size(), b->size());
  for (std::size_t i = 0; i < a->size(); ++i) {
    ASSERT_EQ((*a)[i].shape(), (*b)[i].shape());
    const double allowed = is_float((*a)[i].dtype()) ? kTolerance : 0;
    EXPECT_EQ(testing::mismatch((*b)[i], (*a)[i], allowed), "")
        << what << ", output " << i << "\nbefore:\n"
        << to_text(want) << "after:\n"
        << to_text(got);
  }
}

Graph check_pass(const Graph& graph, PassFunction pass, const PassOptions& options) {
  Graph out = graph;
  const auto changed = pass(out, options);
  if (!changed) throw std::runtime_error(changed.error().message);
  compact(out);
  const auto ok = verify(out);
  EXPECT_TRUE(ok.ok()) << ok.error().message << "\n" << to_text(out);
  if (!*changed) {
    EXPECT_EQ(to_text(out), to_text(graph));
  }
  expect_same(graph, out, "pass");
  return out;
}

std::int64_t count(const Graph& graph, std::string_view op) {
  std::int64_t n = 0;
  for (const Node& node : graph.nodes) n += node.op->name == op;
  return n;
}

const Node& last_node(const Graph& graph, std::size_t i) {
  const std::int32_t n = find_uses(graph).producer[static_cast<std::size_t>(graph.outputs[i])];
  if (n < 0) throw std::runtime_error("the output is not computed");
  return graph.nodes[static_cast<std::size_t>(n)];
}

namespace {

// Adds random nodes behind a pool of live values.
class RandomNet {
 public:
  explicit RandomNet(std::uint64_t seed) : net_(seed) {}

  Graph build() {
    const std::int64_t c = 2 * pick(1, 3), size = pick(3, 6);
    live_.push_back(net_.input({pick(1, 2), c, size, pick(3, 6)}));
    if (net_.rng().chance(0.4)) live_.push_back(net_.input({pick(1, 3), pick(2, 5)}));
    for (std::int64_t steps = pick(4, 12); steps > 0; --steps) step();
    std::vector<ValueId> outputs = {live_.back()};
    if (net_.rng().chance(0.3)) outputs.push_back(any());
    return net_.finish(outputs);
  }

 private:
  std::int64_t pick(std::int64_t lo, std::int64_t hi) { return net_.rng().between(lo, hi); }
  // Later values more often, so that networks grow deep.
  ValueId any() {
    const auto n = static_cast<std::int64_t>(live_.size());
    return live_[static_cast<std::size_t>(std::max(pick(0, n - 1), pick(0, n - 1)))];
  }
  std::int64_t rank(ValueId x) const { return static_cast<std::int64_t>(net_.shape(x).size()); }

  Integers random_perm(std::int64_t n) {
    Integers perm(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < perm.size(); ++i) {
      perm[i] = static_cast<std::int64_t>(i);
      std::swap(perm[i], perm[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(i)))]);
    }
    if (n == 4 && net_.rng().chance(0.5))
      perm = net_.rng().chance(0.5) ? Integers{0, 2, 3, 1} : Integers{0, 3, 1, 2};
    return perm;
  }

  void step() {
    const ValueId x = any();
    ValueId y = kNoValue;
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2:
        y = rank(x) == 4 ? image_step(x) : matrix_step(x);
        break;
      case 3:
        y = net_.transpose(x, random_perm(rank(x)));
        break;
      case 4:
        y = reshape_step(x);
        break;
      case 5:
        y = matrix_step(x);
        break;
      case 6:
        y = norm_step(x);
        break;
      default:
        y = pointwise_step(x);
    }
    if (elements(net_.shape(y)) <= 2000) live_.push_back(y);
  }

  ValueId image_step(ValueId x) {
    const Shape s = net_.shape(x);
    const std::int64_t kernel = std::min<std::int64_t>({pick(1, 3), s[2], s[3]});
    switch (pick(0, 4)) {
      case 0:
        return net_.op("pool", {x},
                       {{"kind", std::string(net_.rng().chance(0.5) ? "max" : "avg")},
                        {"kernel", Integers{kernel, kernel}},
                        {"strides", Integers{1, pick(1, 2)}},
                        {"before", Integers{kernel / 2, 0}},
                        {"after", Integers{0, kernel / 2}},
                        {"dilations", Integers{1, 1}},
                        {"include_pad", pick(0, 1)},
                        {"layout", std::string("nchw")}});
      case 1:
        return net_.conv(x, s[1], kernel, kernel / 2, 1, s[1]);
      case 2: {
        const ValueId y = net_.conv(x, pick(1, 5), kernel, pick(0, 1), pick(1, 2));
        const ValueId scaled = net_.op("mul", {y, net_.weights({net_.shape(y)[1], 1, 1})});
        return net_.op("add", {scaled, net_.weights({1, net_.shape(y)[1], 1, 1})});
      }
      case 3: {  // gate per channel
        const ValueId gate =
            net_.op("sigmoid", {net_.conv(net_.reduce(x, "mean", {2, 3}), s[1], 1)});
        return net_.op("mul", {x, gate});
      }
      default: {  // residual
        const ValueId y = net_.conv(x, s[1], 3, 1);
        return net_.op("add", {net_.rng().chance(0.5) ? net_.relu(y) : y, x});
      }
    }
  }

  ValueId matrix_step(ValueId x) {
    const Shape s = net_.shape(x);
    if (s.size() == 4 && net_.rng().chance(0.5)) {
      const ValueId flat = net_.reshape(x, {s[0], s[1] * s[2] * s[3]});
      return net_.contract(flat, net_.weights({pick(1, 4), s[1] * s[2] * s[3]}), "mk", "nk", "mn");
    }
    const std::string labels = std::string("abcdefgh").substr(0, s.size());
    if (s.empty()) return net_.relu(x);
    const std::string out = labels.substr(0, s.size() - 1) + "z";
    const ValueId w = net_.weights({s.back(), pick(1, 5)});
    return net_.contract(x, w, labels.c_str(), (labels.substr(s.size() - 1) + "z").c_str(),
                         out.c_str());
  }

  ValueId reshape_step(ValueId x) {
    Shape s = net_.shape(x);
    if (s.size() < 2) return net_.reshape(x, {1, elements(s)});
    const auto at = static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(s.size()) - 2));
    if (s.size() > 3 || net_.rng().chance(0.5)) {
      s[at] *= s[at + 1];
      s.erase(s.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    } else if (s[at] % 2 == 0) {
      s[at] /= 2;
      s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), 2);
    } else {
      s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), 1);
    }
    return net_.reshape(x, s);
  }

  ValueId norm_step(ValueId x) {
    const std::int64_t r = rank(x);
    if (r == 0) return net_.relu(x);
    const std::int64_t axis = pick(0, r - 1);
    switch (pick(0, 3)) {
      case 0:
        return net_.op("softmax", {x}, {{"axis", axis}});
      case 1:
        return net_.op("layernorm", {x, net_.weights({net_.shape(x).back()})},
                       {{"axis", r - 1}, {"epsilon", 1e-5}});
      case 2:
        return net_.reduce(x, net_.rng().chance(0.5) ? "mean" : "max", {axis},
                           r == 1 || pick(0, 1) != 0);
      default: {
        const ValueId d = net_.op("sub", {x, net_.reduce(x, "max", {axis})});
        const ValueId e = net_.op("exp", {d});
        return net_.op("div", {e, net_.reduce(e, "sum", {axis})});
      }
    }
  }

  ValueId pointwise_step(ValueId x) {
    const Shape s = net_.shape(x);
    const auto r = static_cast<std::int64_t>(s.size());
    switch (pick(0, 6)) {
      case 0:
        return net_.relu(x);
      case 1:
        return net_.op("mul", {x, net_.op("sigmoid", {x})});
      case 2:
        return net_.op("div", {x, net_.scalar(static_cast<double>(pick(1, 4)))});
      case 3: {
        if (r == 0) return net_.op("tanh", {x});
        const std::int64_t axis = pick(0, r - 1);
        return net_.op("concat", {x, net_.relu(x)}, {{"axis", axis}});
      }
      case 4: {
        Integers starts(s.size(), 0), steps(s.size(), 1), sizes = s;
        if (r > 0) {
          const auto d = static_cast<std::size_t>(pick(0, r - 1));
          starts[d] = s[d] / 2;
          sizes[d] -= starts[d];
        }
        return net_.op("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", sizes}});
      }
      case 5: {
        Integers before(s.size(), 0), after(s.size(), 0);
        if (r > 0) after[static_cast<std::size_t>(pick(0, r - 1))] = 1;
        return net_.op("pad", {x},
                       {{"mode", std::string("constant")}, {"before", before}, {"after", after}});
      }
      default: {
        for (const ValueId other : live_) {
          if (other != x && net_.shape(other) == s) return net_.op("add", {x, other});
        }
        return net_.op("pow", {net_.op("abs", {x}), net_.scalar(pick(0, 1) ? 2 : 0.5)});
      }
    }
  }

  Net net_;
  std::vector<ValueId> live_;
};

}  // namespace

Graph random_net(std::uint64_t seed) { return RandomNet(seed).build(); }

}  // namespace tessera::graph
