// Decoders of a few thousand random weights as GGUF files, and what they compute, written out.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/gguf/file.h"
#include "tessera/support/rng.h"
#include "tests/gguf/gguf_writer.h"

namespace tessera::app::testing {

struct TinyDecoder {
  std::string family = "llama";
  std::string blocks = "F32";  // of matrices: F32, Q4_0, Q4_1, Q8_0
  std::int64_t layers = 2, hidden = 64, ffn = 96, heads = 4, kv_heads = 2, head = 16, words = 40;
  std::int64_t context = 1000;
  bool biases = false, head_norms = false, post_norms = false, joined = false, head_matrix = true;
  bool halves = false;  // of a head are rotated, not neighbours
  bool gelu = false, scaled_input = false;
  double score_cap = 0, logit_cap = 0;
  std::int64_t window = 0;  // of all layers but the last of so many:
  std::int64_t whole_every = 2;
  double local_base = 10000;         // of rotations in layers with a window
  double base = 10000;               // of the others
  double rope_scale = 1;             // by which positions of the others are divided
  std::int64_t unrotated_every = 0;  // of so many layers the last rotates nothing
  std::function<void(gguf::testing::Writer&)> metadata = [](gguf::testing::Writer&) {};  // more
};

// Random blocks with scales around 0.02.
inline std::string random_blocks(const std::string& type, std::int64_t count, Rng& rng) {
  std::string out;
  const auto half = [&](double v) {
    const std::uint16_t bits = f32_to_f16(static_cast<float>(v));
    out.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  };
  const auto bytes = [&](int n) {
    for (int i = 0; i < n; ++i) out.push_back(static_cast<char>(rng.below(256)));
  };
  for (std::int64_t b = 0; b < count / 32; ++b) {
    const double scale = 0.01 + 0.02 * rng.uniform();
    if (type == "Q8_0") {
      half(scale / 16);
      bytes(32);
    } else {
      // Now and then a block of equal elements.
      half(b % 7 == 3 && type == "Q4_1" ? 0 : scale);
      if (type == "Q4_1") half(-7.5 * scale);
      bytes(16);
    }
  }
  return out;
}

inline std::string write_decoder(const TinyDecoder& d) {
  gguf::testing::Writer w;
  Rng rng(7);
  const auto key = [&](const char* field) { return d.family + "." + field; };
  const auto size = [&](const char* field, std::int64_t v) {
    w.integer(key(field), static_cast<std::uint32_t>(v));
  };
  w.text("general.architecture", d.family);
  d.metadata(w);
  size("block_count", d.layers);
  size("context_length", d.context);
  size("embedding_length", d.hidden);
  size("feed_forward_length", d.ffn);
  size("attention.head_count", d.heads);
  size("attention.head_count_kv", d.kv_heads);
  size("attention.key_length", d.head);
  w.number(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  w.number(key("rope.freq_base"), static_cast<float>(d.base));
  if (d.rope_scale != 1) {
    w.text(key("rope.scaling.type"), "linear");
    w.number(key("rope.scaling.factor"), static_cast<float>(d.rope_scale));
  }
  if (d.score_cap > 0) w.number(key("attn_logit_softcapping"), static_cast<float>(d.score_cap));
  if (d.logit_cap > 0) w.number(key("final_logit_softcapping"), static_cast<float>(d.logit_cap));
  if (d.window > 0) size("attention.sliding_window", d.window);
  const auto floats = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                          double mean, double spread) {
    std::int64_t count = 1;
    for (const std::int64_t s : shape) count *= s;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(mean + spread * (2 * rng.uniform() - 1)));
    w.floats(name + ".weight", shape, values);
  };
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    const std::map<std::string, std::uint32_t> ids = {{"Q4_0", 2}, {"Q4_1", 3}, {"Q8_0", 8}};
    if (d.blocks == "F32") return floats(name, {rows, columns}, 0, 0.2);
    w.tensor(name + ".weight", {rows, columns}, ids.at(d.blocks),
             random_blocks(d.blocks, rows * columns, rng));
  };
  const auto norm = [&](const std::string& name, std::int64_t n) { floats(name, {n}, 1, 0.3); };
  matrix("token_embd", d.words, d.hidden);
  norm("output_norm", d.hidden);
  if (d.head_matrix) matrix("output", d.words, d.hidden);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const auto in = [&](const char* what) { return "blk." + std::to_string(i) + "." + what; };
    const auto dense = [&](const char* what, std::int64_t rows, std::int64_t columns) {
      matrix(in(what), rows, columns);
      if (!d.biases) return;
      std::vector<float> bias;
      for (std::int64_t r = 0; r < rows; ++r)
        bias.push_back(static_cast<float>(rng.uniform() - 0.5));
      w.floats(in(what) + ".bias", {rows}, bias);
    };
    norm(in("attn_norm"), d.hidden);
    norm(in("ffn_norm"), d.hidden);
    const std::int64_t q = d.heads * d.head, kv = d.kv_heads * d.head;
    if (d.joined) {
      dense("attn_qkv", q + 2 * kv, d.hidden);
      dense("ffn_up", 2 * d.ffn, d.hidden);
    } else {
      dense("attn_q", q, d.hidden);
      dense("attn_k", kv, d.hidden);
      dense("attn_v", kv, d.hidden);
      dense("ffn_gate", d.ffn, d.hidden);
      dense("ffn_up", d.ffn, d.hidden);
    }
    dense("attn_output", d.hidden, q);
    dense("ffn_down", d.hidden, d.ffn);
    if (d.head_norms) {
      norm(in("attn_q_norm"), d.head);
      norm(in("attn_k_norm"), d.head);
    }
    if (d.post_norms) {
      norm(in("post_attention_norm"), d.hidden);
      norm(in("post_ffw_norm"), d.hidden);
    }
  }
  return w.str();
}

// One token after the other, in loops over double.
class ReferenceDecoder {
 public:
  using Vector = std::vector<double>;

  ReferenceDecoder(const TinyDecoder& d, const gguf::File& file)
      : d_(d), file_(file), keys_(size(d.layers)), values_(size(d.layers)) {}

  Vector step(std::int32_t token) {
    Vector x = row(tensor("token_embd.weight"), token, d_.hidden);
    for (double& v : x) v *= d_.scaled_input ? std::sqrt(static_cast<double>(d_.hidden)) : 1;
    for (std::int64_t i = 0; i < d_.layers; ++i) layer(i, &x);
    ++position_;
    const bool tied = file_.find_tensor("output.weight") == nullptr;
    Vector y = times(tied ? "token_embd" : "output", norm(x, "output_norm"));
    for (double& v : y) v = capped(v, d_.logit_cap);
    return y;
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static double capped(double v, double cap) { return cap > 0 ? cap * std::tanh(v / cap) : v; }

  const Vector& tensor(const std::string& name) {
    Vector& out = tensors_[name];
    if (!out.empty()) return out;
    const HostTensor wide = gguf::widened(*file_.find_tensor(name)).value();
    for (std::int64_t i = 0; i < wide.size(); ++i) out.push_back(wide.get_float(i));
    return out;
  }
  static Vector row(const Vector& of, std::int64_t r, std::int64_t columns) {
    const auto from = of.begin() + r * columns;
    return {from, from + columns};
  }
  Vector norm(const Vector& x, const std::string& name) {
    if (file_.find_tensor(name + ".weight") == nullptr) return x;
    const Vector& w = tensor(name + ".weight");
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-5);
    Vector y = x;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= scale * w[i];
    return y;
  }
  Vector times(const std::string& name, const Vector& x) {
    const Vector& w = tensor(name + ".weight");
    const bool biased = file_.find_tensor(name + ".bias") != nullptr;
    Vector y(w.size() / x.size());
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
      if (biased) y[r] += tensor(name + ".bias")[r];
    }
    return y;
  }

  bool sees_all(std::int64_t layer) const {
    return d_.window == 0 || (layer + 1) % d_.whole_every == 0;
  }

  void rotate(std::int64_t layer, Vector* head) const {
    if (d_.unrotated_every > 0 && (layer + 1) % d_.unrotated_every == 0) return;
    const bool whole = sees_all(layer);
    const double place = static_cast<double>(position_) / (whole ? d_.rope_scale : 1);
    const std::size_t half = head->size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(head->size());
      const double angle = place / std::pow(whole ? d_.base : d_.local_base, exponent);
      double &a = (*head)[d_.halves ? i : 2 * i], &b = (*head)[d_.halves ? i + half : 2 * i + 1];
      const double real = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = real;
    }
  }
  Vector part(const Vector& x, std::int64_t nth, std::int64_t count) const {
    return row(x, nth, count);
  }

  Vector attend(std::int64_t i, const Vector& q, std::int64_t kv) {
    const auto& keys = keys_[size(i)][kv];
    Vector scores;
    const std::size_t first =
        !sees_all(i) && position_ >= d_.window ? size(position_ - d_.window + 1) : 0;
    double total = 0;
    for (std::size_t j = first; j < keys.size(); ++j) {
      double s = 0;
      for (std::size_t e = 0; e < q.size(); ++e) s += q[e] * keys[j][e];
      scores.push_back(std::exp(capped(s / std::sqrt(static_cast<double>(d_.head)), d_.score_cap)));
      total += scores.back();
    }
    Vector y(q.size());
    for (std::size_t j = first; j < keys.size(); ++j) {
      for (std::size_t e = 0; e < y.size(); ++e)
        y[e] += scores[j - first] / total * values_[size(i)][kv][j][e];
    }
    return y;
  }

  void layer(std::int64_t i, Vector* x) {
    const auto in = [&](const char* what) { return "blk." + std::to_string(i) + "." + what; };
    const std::int64_t kv = d_.kv_heads, shared = d_.heads / kv;
    const Vector h = norm(*x, in("attn_norm"));
    Vector q, k, v;
    if (d_.joined) {
      const Vector all = times(in("attn_qkv"), h);
      const auto k_at = all.begin() + d_.heads * d_.head, v_at = k_at + kv * d_.head;
      q.assign(all.begin(), k_at);
      k.assign(k_at, v_at);
      v.assign(v_at, all.end());
    } else {
      q = times(in("attn_q"), h);
      k = times(in("attn_k"), h);
      v = times(in("attn_v"), h);
    }
    for (std::int64_t g = 0; g < kv; ++g) {
      Vector key = norm(part(k, g, d_.head), in("attn_k_norm"));
      rotate(i, &key);
      keys_[size(i)][g].push_back(key);
      values_[size(i)][g].push_back(part(v, g, d_.head));
    }
    Vector all;
    for (std::int64_t a = 0; a < d_.heads; ++a) {
      Vector query = norm(part(q, a, d_.head), in("attn_q_norm"));
      rotate(i, &query);
      const Vector y = attend(i, query, a / shared);
      all.insert(all.end(), y.begin(), y.end());
    }
    add(x, norm(times(in("attn_output"), all), in("post_attention_norm")));
    add(x, norm(feed_forward(i, norm(*x, in("ffn_norm"))), in("post_ffw_norm")));
  }

  static void add(Vector* x, const Vector& y) {
    for (std::size_t e = 0; e < y.size(); ++e) (*x)[e] += y[e];
  }

  Vector feed_forward(std::int64_t i, const Vector& h) {
    const auto in = [&](const char* what) { return "blk." + std::to_string(i) + "." + what; };
    Vector up = times(in("ffn_up"), h);
    Vector gate;
    if (d_.joined) {
      gate = part(up, 0, d_.ffn);
      up = part(up, 1, d_.ffn);
    } else {
      gate = times(in("ffn_gate"), h);
    }
    for (std::size_t e = 0; e < up.size(); ++e) {
      const double g = gate[e], inner = std::sqrt(2 / std::acos(-1)) * (g + 0.044715 * g * g * g);
      up[e] *= d_.gelu ? g / 2 * (1 + std::tanh(inner)) : g / (1 + std::exp(-g));
    }
    return times(in("ffn_down"), up);
  }

  const TinyDecoder& d_;
  const gguf::File& file_;
  std::map<std::string, Vector> tensors_;
  std::int64_t position_ = 0;
  std::vector<std::map<std::int64_t, std::vector<Vector>>> keys_, values_;  // layer, head, token
};

}  // namespace tessera::app::testing
