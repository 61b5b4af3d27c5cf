// Networks against plain loops over one candidate without padding.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "candidates.h"

namespace tessera::nn {
namespace {

using Vector = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Vector map(Vector v, const std::function<double(double)>& f) {
  for (double& x : v) x = f(x);
  return v;
}
Vector relu(const Vector& v) {
  return map(v, [](double x) { return std::max(x, 0.0); });
}
Vector plus(Vector a, const Vector& b, double factor = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}
Vector part(const Vector& v, std::size_t i, std::size_t width) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(i * width);
  return Vector(at, at + static_cast<std::ptrdiff_t>(width));
}
Vector softmax(Vector v) {
  double sum = 0;
  for (double& x : v) sum += x = std::exp(x);
  return map(v, [&](double x) { return x / sum; });
}

class Reference {
 public:
  Reference(const std::string& network, const Hyper& hyper)
      : spec(small_spec(network, hyper)), weights(fresh_weights(spec, 11)) {
    Rng rng(12);
    candidate = random_candidate(spec, 5, rng);
  }

  Vector values(const std::string& name) const {
    const HostTensor& t = weights.at(name);
    return Vector(t.as<float>(), t.as<float>() + t.size());
  }
  // x W, plus the bias where there is one.
  Vector linear(const Vector& x, const std::string& name) const {
    const Vector w = values(name + ".weight");
    const std::size_t n = w.size() / x.size();
    Vector y = weights.count(name + ".bias") ? values(name + ".bias") : Vector(n, 0);
    for (std::size_t k = 0; k < x.size(); ++k) {
      for (std::size_t j = 0; j < n; ++j) y[j] += x[k] * w[k * n + j];
    }
    return y;
  }
  Vector norm(Vector x, const std::string& name) const {
    double mean = 0, var = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) var += (v - mean) * (v - mean) / static_cast<double>(x.size());
    const Vector scale = values(name + ".scale"), shift = values(name + ".shift");
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean) / std::sqrt(var + 1e-5) * scale[i] + shift[i];
    }
    return x;
  }
  // Of every row.
  std::vector<Vector> embed(const std::string& name) const {
    const Vector c(candidate.context.begin(), candidate.context.end());
    std::vector<Vector> out;
    for (const auto& row : candidate.rows) {
      const Vector x(row.begin(), row.end());
      out.push_back(plus(linear(x, name), linear(c, name + ".context")));
    }
    return out;
  }
  std::vector<Vector> encode_rows() const {
    std::vector<Vector> out = embed("encoder.0");
    for (Vector& x : out) x = relu(linear(relu(x), "encoder.1"));
    return out;
  }

  void expect(Vector x) const {
    if (weights.count("head.in.weight")) x = relu(linear(x, "head.in"));
    x = plus(relu(linear(x, "head.0")), x);
    x = plus(relu(linear(x, "head.1")), x);
    const Vector want = linear(x, "head.out");
    const Outputs got = run(spec, weights, {candidate}, candidate.rows.size());
    EXPECT_NEAR(got.score[0], want[0], 1e-5);
    EXPECT_NEAR(got.validity[0], want[1], 1e-5);
    EXPECT_NEAR(got.log_time[0], want[2], 1e-5);
  }

  NetworkSpec spec;
  std::map<std::string, HostTensor> weights;
  Candidate candidate;
};

Vector sum(const std::vector<Vector>& rows) {
  Vector total(rows[0].size(), 0);
  for (const Vector& row : rows) total = plus(total, row);
  return total;
}

TEST(Meaning, Mlp) {
  const Reference r("mlp", {});
  r.expect(sum(r.encode_rows()));
}

std::vector<Vector> attention(const Reference& r, const std::vector<Vector>& x,
                              const std::string& name, std::size_t heads) {
  const std::size_t size = x[0].size() / heads;
  std::vector<Vector> out;
  for (const Vector& from : x) {
    const Vector q = r.linear(from, name + ".query");
    Vector joined;
    for (std::size_t h = 0; h < heads; ++h) {
      Vector scores;
      for (const Vector& to : x) {
        const Vector a = part(q, h, size), b = part(r.linear(to, name + ".key"), h, size);
        double dot = 0;
        for (std::size_t i = 0; i < size; ++i) dot += a[i] * b[i];
        scores.push_back(dot / std::sqrt(static_cast<double>(size)));
      }
      const Vector share = softmax(scores);
      Vector mixed(size, 0);
      for (std::size_t s = 0; s < x.size(); ++s) {
        mixed = plus(mixed, part(r.linear(x[s], name + ".value"), h, size), share[s]);
      }
      joined.insert(joined.end(), mixed.begin(), mixed.end());
    }
    out.push_back(r.linear(joined, name + ".out"));
  }
  return out;
}

TEST(Meaning, Mha) {
  const Reference r("mha", {});
  std::vector<Vector> x = r.encode_rows();
  const std::vector<Vector> y = attention(r, x, "attention", 2);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = r.linear(plus(x[i], y[i]), "out");
  r.expect(sum(x));
}

std::vector<Vector> transformer(const Reference& r, std::vector<Vector> x) {
  for (const std::string layer : {"layer0", "layer1"}) {
    std::vector<Vector> normal;
    for (const Vector& row : x) normal.push_back(r.norm(row, layer + ".norm0"));
    const std::vector<Vector> y = attention(r, normal, layer + ".attention", 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = plus(x[i], y[i]);
      const Vector inner = relu(r.linear(r.norm(x[i], layer + ".norm1"), layer + ".ffn0"));
      x[i] = plus(x[i], r.linear(inner, layer + ".ffn1"));
    }
  }
  for (Vector& row : x) row = r.norm(row, "norm");
  return x;
}

TEST(Meaning, Atformer) {
  const Reference r("atformer", {{"layers", 2}});
  r.expect(sum(transformer(r, r.encode_rows())));
}

TEST(Meaning, Sequence) {
  const Reference r("sequence", {{"layers", 2}});
  std::vector<Vector> x = r.embed("embedding");
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = plus(x[i], part(r.values("positions"), i, x[i].size()));
  }
  const double count = static_cast<double>(x.size());
  r.expect(map(sum(transformer(r, x)), [&](double v) { return v / count; }));
}

TEST(Meaning, Lstm) {
  const Reference r("lstm", {});
  const std::size_t width = 8;
  Vector hidden(width, 0), cell(width, 0);
  for (const Vector& x : r.encode_rows()) {
    const Vector g = plus(r.linear(x, "lstm.input"), r.linear(hidden, "lstm.state"));
    for (std::size_t i = 0; i < width; ++i) {
      cell[i] = sigmoid(g[width + i]) * cell[i] + sigmoid(g[i]) * std::tanh(g[3 * width + i]);
      hidden[i] = sigmoid(g[2 * width + i]) * std::tanh(cell[i]);
    }
  }
  r.expect(hidden);
}

TEST(Meaning, TreegruFoldsTheTree) {
  Reference r("treegru", {});
  r.candidate.parents = {-1, 0, 1, 0, 3};  // three levels, two of the outermost loop's children
  const std::size_t width = 8, slots = 3;
  std::vector<Vector> x = r.embed("embedding");
  const std::function<Vector(std::size_t)> state = [&](std::size_t at) {
    Vector inner(width, 0), out;
    for (std::size_t c = 0; c < x.size(); ++c) {
      if (r.candidate.parents[c] == static_cast<int>(at)) inner = plus(inner, state(c));
    }
    const Vector own = r.linear(relu(x[at]), "gru.input"), gates = r.linear(inner, "gru.gates");
    Vector reset = inner;
    for (std::size_t i = 0; i < width; ++i) {
      reset[i] *= sigmoid(own[width + i] + gates[width + i]);
    }
    const Vector fresh = r.linear(reset, "gru.new");
    for (std::size_t i = 0; i < width; ++i) {
      const double keep = sigmoid(own[i] + gates[i]);
      out.push_back((1 - keep) * std::tanh(own[2 * width + i] + fresh[i]) + keep * inner[i]);
    }
    return out;
  };
  std::vector<Vector> memory(slots, Vector(width, 0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Vector h = state(i), share = softmax(r.linear(h, "slots"));
    for (std::size_t m = 0; m < slots; ++m) memory[m] = plus(memory[m], h, share[m]);
  }
  Vector joined;
  for (const Vector& slot : memory) joined.insert(joined.end(), slot.begin(), slot.end());
  r.expect(joined);
}

// Gated layers of a step of TabNet: two shared, two of its own.
Vector glu_layers(const Reference& r, Vector x, const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    const std::string layer = fmt::format("{}.glu{}", name, i);
    const Vector z =
        r.norm(r.linear(x, i < 2 ? fmt::format("shared{}", i) : layer), layer + ".norm");
    Vector gated = part(z, 0, z.size() / 2);
    for (std::size_t k = 0; k < gated.size(); ++k) gated[k] *= sigmoid(z[gated.size() + k]);
    x = i == 0 ? gated : map(plus(x, gated), [](double v) { return v / std::sqrt(2.0); });
  }
  return x;
}

TEST(Meaning, Tabnet) {
  const Reference r("tabnet", {});
  const std::size_t decision = 5;
  Vector total(decision, 0);
  for (const auto& row : r.candidate.rows) {
    Vector x(row.begin(), row.end());
    x.insert(x.end(), r.candidate.context.begin(), r.candidate.context.end());
    Vector y = glu_layers(r, x, "start"), prior(x.size(), 1);
    for (const std::string step : {"step0", "step1", "step2"}) {
      const Vector a(y.begin() + decision, y.end());
      Vector choice = r.norm(r.linear(a, step + ".mask"), step + ".norm"), chosen = x;
      for (std::size_t i = 0; i < x.size(); ++i) choice[i] *= prior[i];
      const Vector mask = softmax(choice);
      for (std::size_t i = 0; i < x.size(); ++i) {
        chosen[i] *= mask[i] * static_cast<double>(x.size());
        prior[i] *= 1.3 - mask[i];
      }
      y = glu_layers(r, chosen, step);
      total = plus(total, relu(part(y, 0, decision)));
    }
  }
  r.expect(total);
}

}  // namespace
}  // namespace tessera::nn
