#include "tessera/frontend/gguf/to_model.h"

#include <cmath>
#include <fstream>

#include "tessera/frontend/gguf/architecture.h"
#include "tessera/frontend/gguf/nodes.h"
#include "tessera/support/invalid.h"

namespace tessera::gguf {
namespace {

constexpr std::int64_t kOpset = 23;
constexpr const char *kMicrosoft = "com.microsoft", *kOwn = "tessera";

using Name = std::string;  // of a value of the model

// The first failure sticks: what is written behind it is not looked at.
class DecoderWriter {
 public:
  DecoderWriter(const File& file, Architecture a, Values values)
      : file_(file), a_(std::move(a)), values_(values), n_(&model_.graph) {}

  Result<onnx::Model> write() {
    model_.ir_version = 10;
    model_.opsets = {{"", kOpset}, {kMicrosoft, 1}, {kOwn, 1}};
    model_.producer = "gguf";
    model_.graph.name = a_.family->name;
    declare_inputs();
    write_positions();
    Name x = embeddings();
    for (std::int64_t i = 0; i < a_.layers && !error_; ++i) x = layer(i, x);
    write_logits(x);
    declare_new_rows();
    if (error_) return *error_;
    return std::move(model_);
  }

 private:
  struct Rows {
    Name key, value;
  };
  struct Rotation {
    Name cosine, sine;
  };

  void fail(const Error& error) {
    if (!error_) error_ = error.with_context(file_.name());
  }

  // A tensor of the file that must have this shape. Any tensor after a failure.
  const Tensor* tensor(const std::string& name, const Shape& shape) {
    const Tensor* t = file_.find_tensor(name);
    if (t == nullptr) {
      fail(invalid("there is no tensor '{}'", file_.spelled(name)));
    } else if (t->shape != shape) {
      fail(invalid("tensor '{}' is {}, {} needed", file_.spelled(name), to_text(t->shape),
                   to_text(shape)));
    } else if (!t->type->readable()) {
      fail(make_error(ErrorCode::kUnsupported, "tensor '{}' has elements of type {}",
                      file_.spelled(name), t->type->name));
    }
    return error_ ? &file_.tensors().front() : t;
  }

  Name vector(const std::string& name, std::int64_t size) {
    const Tensor* t = tensor(name, {size});
    if (error_) return name;
    Result<HostTensor> values = plain(*t, file_, values_);
    if (!values.ok()) return fail(values.error()), name;
    return wide(n_.constant(name, std::move(*values)), *t);
  }

  // Floats shorter than f32 are widened by a node.
  Name wide(const Name& x, const Tensor& of) {
    const std::string_view type = of.type->name;
    if (type != "F16" && type != "BF16") return x;
    return n_.add("Cast", {x}, {attr("to", std::int64_t{1})});
  }

  void declare_inputs() {
    n_.input(kTokens, DType::kI64, {{1, ""}, {-1, kSequence}});
    n_.input(kPosition, DType::kI64, {{1, ""}});
    n_.input(kLast, DType::kI64, {{-1, kWanted}});
    for (std::int64_t i = 0; i < a_.layers; ++i) {
      const onnx::Dim room{-1, kCapacity};
      const auto cache = [&](const char* what, const onnx::Dim& rows, const onnx::Dim& columns) {
        Name name = fmt::format("past_key_values.{}.{}", i, what);
        n_.input(name, DType::kF32, {{1, ""}, {a_.kv_heads, ""}, rows, columns});
        return name;
      };
      Rows past;
      past.key = cache("key", {a_.key, ""}, room);
      past.value = cache("value", room, {a_.value, ""});
      past_.push_back(std::move(past));
    }
  }

  void declare_new_rows() {
    for (std::size_t i = 0; i < new_.size(); ++i) {
      const auto rows = [&](const Name& value, const char* what, std::int64_t size) {
        n_.output(value, fmt::format("new_key_values.{}.{}", i, what), DType::kF32,
                  {{1, ""}, {a_.kv_heads, ""}, {-1, kSequence}, {size, ""}});
      };
      rows(new_[i].key, "key", a_.key);
      rows(new_[i].value, "value", a_.value);
    }
  }

  // 0, 1, ... below the extent of an axis.
  Name range(const Name& x, std::int64_t axis) {
    const auto number = [&](std::int64_t v) {
      HostTensor t(DType::kI64, {});
      t.set_int(0, v);
      return n_.constant(fmt::format("range.{}.{}.{}", x, axis, v), std::move(t));
    };
    return n_.add("Range", {number(0), n_.extent(x, axis), number(1)});
  }

  // Angles of the rotation and the keys that each token sees, which all layers share.
  void write_positions() {
    n_.scope("positions");
    const Name tokens = range(kTokens, 1);  // [sequence]
    const Name positions = n_.add("Add", {tokens, kPosition});
    const Name column =
        n_.reshape(n_.add("Cast", {positions}, {attr("to", std::int64_t{1})}), {1, -1, 1});
    const std::vector<float>& divisors = a_.frequency_divisors;
    rotation_ = rotation("frequency", column, a_.rope_base, [&](std::int64_t i) {
      return a_.rope_scale *
             (divisors.empty() ? 1.0 : static_cast<double>(divisors[static_cast<std::size_t>(i)]));
    });
    local_rotation_ = rotation_;
    if (a_.local_rope_base > 0) {
      local_rotation_ =
          rotation("local_frequency", column, a_.local_rope_base, [](std::int64_t) { return 1.0; });
    }
    const Name places = range(past_[0].value, 2);  // of the cache
    const Name query = n_.reshape(tokens, {-1, 1});
    sees_past_ = n_.add("Less", {places, kPosition});
    sees_new_ = n_.add("LessOrEqual", {tokens, query});
    if (a_.window == 0) return;
    // Token i sees key j where i - j < window.
    const Name first = n_.add("Sub", {query, n_.ints({a_.window})});
    const Name absolute = n_.add("Add", {first, kPosition});
    sees_near_past_ = n_.add("And", {sees_past_, n_.add("Less", {absolute, places})});
    sees_near_new_ = n_.add("And", {sees_new_, n_.add("Less", {first, tokens})});
  }

  // By angles [1, sequence, rotated / 2], the positions over powers of the base and the divisors.
  template <class Divisor>
  Rotation rotation(const char* name, const Name& positions, double base, const Divisor& divisor) {
    HostTensor frequency(DType::kF32, {1, 1, a_.rotated / 2});
    for (std::int64_t i = 0; i < a_.rotated / 2; ++i) {
      const double exponent = static_cast<double>(2 * i) / static_cast<double>(a_.rotated);
      frequency.set_float(i, 1 / (std::pow(base, exponent) * divisor(i)));
    }
    const Name angles = n_.add("Mul", {positions, n_.constant(name, std::move(frequency))});
    return {magnified(n_.add("Cos", {angles})), magnified(n_.add("Sin", {angles}))};
  }

  Name magnified(const Name& x) {
    return a_.rope_magnitude == 1 ? x : n_.add("Mul", {x, n_.scalar(a_.rope_magnitude)});
  }

  Name embeddings() {
    n_.scope("token_embd");
    const Tensor* table = tensor("token_embd.weight", {a_.vocabulary, a_.hidden});
    if (error_) return kTokens;
    const auto rows = [&](const Name& of) {
      return n_.add("Gather", {of, kTokens}, {attr("axis", std::int64_t{0})});
    };
    const auto f32 = [&](const Name& of) {
      return n_.add("Cast", {of}, {attr("to", std::int64_t{1})});
    };
    Name x;
    if (table->type->take_apart == nullptr) {
      Result<HostTensor> values = plain(*table, file_, values_);
      if (!values.ok()) return fail(values.error()), kTokens;
      x = f32(rows(n_.constant("token_embd.weight", std::move(*values))));
    } else {
      x = grouped_rows(*table, rows, f32);
    }
    if (!a_.family->scaled_input) return x;
    return n_.add("Mul", {x, n_.scalar(std::sqrt(static_cast<double>(a_.hidden)))});
  }

  // Rows of integers, looked up with their scales.
  template <class RowsOf, class Widen>
  Name grouped_rows(const Tensor& table, const RowsOf& rows, const Widen& f32) {
    Grouped g = grouped_bytes(table, file_, values_);
    const std::int64_t groups = a_.hidden / g.group;
    const auto shared = [&](const char* name, HostTensor t) {
      return n_.reshape(rows(n_.constant(name, std::move(t))), {1, -1, groups, 1});
    };
    const Name q = f32(rows(n_.constant("token_embd.q", std::move(g.q))));
    Name x = n_.reshape(q, {1, -1, groups, g.group});
    const bool has_offset = g.has_offset();
    if (!has_offset)
      x = n_.add("Sub", {x, n_.scalar(static_cast<double>(std::int64_t{1} << (g.bits - 1)))});
    x = n_.add("Mul", {x, f32(shared("token_embd.scale", std::move(g.scale)))});
    if (has_offset) x = n_.add("Add", {x, f32(shared("token_embd.offset", std::move(g.offset)))});
    return n_.reshape(x, {1, -1, a_.hidden});
  }

  // x [1, sequence, columns] times the rows of the tensors, one after the other.
  Name product(const Name& x, const std::vector<const Tensor*>& rows, std::int64_t columns) {
    if (error_) return x;
    const std::string name(rows[0]->name);
    if (!are_grouped(rows)) {
      Result<HostTensor> values = plain(*rows[0], file_, values_);
      if (!values.ok()) return fail(values.error()), x;
      const Name w = wide(n_.constant(unique(name), std::move(*values)), *rows[0]);
      return n_.add("MatMul", {x, n_.transpose(w, {1, 0})});
    }
    Grouped g = grouped(rows, file_, values_);
    const std::int64_t count = g.q.shape()[0], groups = columns / g.group;
    std::vector<Name> inputs = {x};
    const Name prefix = unique(name);
    inputs.push_back(
        n_.constant(prefix + ".q", g.q.reshaped({count, groups, g.group * g.bits / 8})));
    inputs.push_back(n_.constant(prefix + ".scale", std::move(g.scale)));
    const bool moved = g.has_offset();
    if (moved) inputs.push_back(n_.constant(prefix + ".offset", std::move(g.offset)));
    return n_.add(
        moved ? "MatMulOffsetNBits" : "MatMulNBits", std::move(inputs),
        {attr("K", columns), attr("N", count), attr("bits", g.bits), attr("block_size", g.group)},
        moved ? kOwn : kMicrosoft);
  }

  std::string unique(const std::string& name) {
    return fmt::format("{}{}", name, model_.graph.initializers.size());
  }

  // A dense layer: `name`.weight, and `name`.bias where the file has one.
  Name dense(const Name& x, const std::string& name, std::int64_t columns, std::int64_t rows) {
    const Tensor* t = tensor(name + ".weight", {rows, columns});
    return biased(product(x, {t}, columns), name, rows);
  }

  Name biased(const Name& x, const std::string& name, std::int64_t rows) {
    if (file_.find_tensor(name + ".bias") == nullptr) return x;
    return n_.add("Add", {x, vector(name + ".bias", rows)});
  }

  Name norm(const Name& x, const std::string& name, std::int64_t size) {
    return n_.add(
        "RMSNormalization", {x, vector(name + ".weight", size)},
        {attr("axis", std::int64_t{-1}), attr("epsilon", static_cast<float>(a_.epsilon))});
  }

  // Where the file has such a tensor.
  Name norm_if(const Name& x, const std::string& name, std::int64_t size) {
    return file_.find_tensor(name + ".weight") == nullptr ? x : norm(x, name, size);
  }

  static std::string in_layer(std::int64_t i, const char* what) {
    return fmt::format("blk.{}.{}", i, what);
  }

  // Several layers that read the same: one product where their weights are of a kind, or where the
  // file has joined them.
  std::vector<Name> joined(const Name& x, const std::string& whole,
                           const std::vector<std::string>& parts,
                           const std::vector<std::int64_t>& sizes, std::int64_t columns) {
    std::int64_t all = 0;
    for (const std::int64_t size : sizes) all += size;
    if (file_.find_tensor(whole + ".weight") != nullptr)
      return n_.split(dense(x, whole, columns, all), -1, sizes);
    std::vector<const Tensor*> rows;
    for (std::size_t i = 0; i < parts.size(); ++i)
      rows.push_back(tensor(parts[i] + ".weight", {sizes[i], columns}));
    std::vector<Name> out;
    if (!error_ && are_grouped(rows)) {
      out = n_.split(product(x, rows, columns), -1, sizes);
    } else {
      for (const Tensor* t : rows) out.push_back(product(x, {t}, columns));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) out[i] = biased(out[i], parts[i], sizes[i]);
    return out;
  }

  // Of each head of x [1, sequence, heads * size].
  Name head_norm(const Name& x, const std::string& name, std::int64_t heads, std::int64_t size) {
    if (file_.find_tensor(name + ".weight") == nullptr) return x;
    const Name split = n_.reshape(x, {1, -1, heads, size});
    return n_.reshape(norm(split, name, size), {1, -1, heads * size});
  }

  Name rotated(std::int64_t layer, const Name& x, std::int64_t heads) {
    if (!a_.rotates(layer)) return x;
    const Rotation& by = a_.is_local(layer) ? local_rotation_ : rotation_;
    return n_.add("RotaryEmbedding", {x, by.cosine, by.sine},
                  {attr("interleaved", std::int64_t{a_.interleaved}), attr("num_heads", heads),
                   attr("rotary_embedding_dim", a_.rotated)});
  }

  Name capped(const Name& x, double cap) {
    if (cap == 0) return x;
    const Name limit = n_.scalar(cap);
    return n_.add("Mul", {n_.add("Tanh", {n_.add("Div", {x, limit})}), limit});
  }

  Name einsum(const char* equation, const Name& a, const Name& b) {
    return n_.add("Einsum", {a, b}, {attr("equation", std::string(equation))});
  }

  // Queries [1, kv_heads, shared, sequence, key] see the cache and the new rows, each by itself: so
  // nobody has to join the two.
  Name attend(std::int64_t i, const Name& q, const Rows& now) {
    const Rows& past = past_[static_cast<std::size_t>(i)];
    const bool local = a_.is_local(i);
    const auto scores = [&](const char* equation, const Name& key, const Name& mask) {
      const Name s = capped(einsum(equation, q, key), a_.score_cap);
      return n_.add("Where", {mask, s, n_.scalar(-HUGE_VAL)});
    };
    const Name seen = scores("bhgik,bhkj->bhgij", past.key, local ? sees_near_past_ : sees_past_);
    const Name fresh = scores("bhgik,bhjk->bhgij", now.key, local ? sees_near_new_ : sees_new_);
    const Name all = n_.add("Concat", {seen, fresh}, {attr("axis", std::int64_t{-1})});
    const Name weights = n_.add("Softmax", {all}, {attr("axis", std::int64_t{-1})});
    const auto part = [&](const Name& from, const Name& to) {
      return n_.add("Slice", {weights, from, to, n_.ints({-1})});
    };
    const Name border = n_.reshape(n_.extent(past.value, 2), {1});
    const Name of_past = part(n_.ints({0}), border);
    const Name of_now = part(border, n_.ints({INT64_MAX}));
    return n_.add("Add", {einsum("bhgij,bhjk->bhgik", of_past, past.value),
                          einsum("bhgij,bhjk->bhgik", of_now, now.value)});
  }

  Name attention(std::int64_t i, const Name& x) {
    const std::int64_t shared = a_.heads / a_.kv_heads;
    const std::vector<Name> parts =
        joined(x, in_layer(i, "attn_qkv"),
               {in_layer(i, "attn_q"), in_layer(i, "attn_k"), in_layer(i, "attn_v")},
               {a_.heads * a_.key, a_.kv_heads * a_.key, a_.kv_heads * a_.value}, a_.hidden);
    Name q =
        rotated(i, head_norm(parts[0], in_layer(i, "attn_q_norm"), a_.heads, a_.key), a_.heads);
    q = n_.add("Mul", {q, n_.scalar(a_.score_scale)});
    q = n_.transpose(n_.reshape(q, {1, -1, a_.kv_heads, shared, a_.key}), {0, 2, 3, 1, 4});
    const auto heads = [&](const Name& rows, std::int64_t size) {
      return n_.transpose(n_.reshape(rows, {1, -1, a_.kv_heads, size}), {0, 2, 1, 3});
    };
    Rows now;
    const Name keys = head_norm(parts[1], in_layer(i, "attn_k_norm"), a_.kv_heads, a_.key);
    now.key = heads(rotated(i, keys, a_.kv_heads), a_.key);
    now.value = heads(parts[2], a_.value);
    new_.push_back(now);
    const Name y = n_.transpose(attend(i, q, now), {0, 3, 1, 2, 4});
    const std::int64_t size = a_.heads * a_.value;
    return dense(n_.reshape(y, {1, -1, size}), in_layer(i, "attn_output"), size, a_.hidden);
  }

  Name gated(std::int64_t i, const Name& x) {
    std::vector<Name> parts;
    const Tensor* up = file_.find_tensor(in_layer(i, "ffn_up.weight"));
    const bool both = up != nullptr && up->shape == Shape{2 * a_.ffn, a_.hidden};
    parts = joined(x, both ? in_layer(i, "ffn_up") : in_layer(i, "ffn_gate_up"),
                   {in_layer(i, "ffn_gate"), in_layer(i, "ffn_up")}, {a_.ffn, a_.ffn}, a_.hidden);
    Name gate;
    if (a_.family->gelu) {
      gate = n_.add("Gelu", {parts[0]}, {attr("approximate", std::string("tanh"))});
    } else {
      gate = n_.add("Mul", {parts[0], n_.add("Sigmoid", {parts[0]})});
    }
    return dense(n_.add("Mul", {gate, parts[1]}), in_layer(i, "ffn_down"), a_.ffn, a_.hidden);
  }

  Name layer(std::int64_t i, Name x) {
    n_.scope(fmt::format("blk.{}", i));
    Name y = attention(i, norm(x, in_layer(i, "attn_norm"), a_.hidden));
    y = norm_if(y, in_layer(i, "post_attention_norm"), a_.hidden);
    x = n_.add("Add", {x, y});
    y = gated(i, norm(x, in_layer(i, "ffn_norm"), a_.hidden));
    y = norm_if(y, in_layer(i, "post_ffw_norm"), a_.hidden);
    return n_.add("Add", {x, y});
  }

  void write_logits(const Name& x) {
    n_.scope("output");
    const Name last = n_.add("Gather", {x, kLast}, {attr("axis", std::int64_t{1})});
    const Name y = norm(last, "output_norm", a_.hidden);
    const bool tied = file_.find_tensor("output.weight") == nullptr;
    const Name logits = dense(y, tied ? "token_embd" : "output", a_.hidden, a_.vocabulary);
    n_.output(capped(logits, a_.logit_cap), kLogits, DType::kF32,
              {{1, ""}, {-1, kWanted}, {a_.vocabulary, ""}});
  }

  const File& file_;
  const Architecture a_;
  const Values values_;
  onnx::Model model_;
  Nodes n_;
  std::optional<Error> error_;
  std::vector<Rows> past_, new_;  // by layer
  Rotation rotation_, local_rotation_;
  Name sees_past_, sees_new_, sees_near_past_, sees_near_new_;
};

}  // namespace

Result<onnx::Model> to_model(const File& file, Values values) {
  TESSERA_TRY(Architecture architecture, read_architecture(file));
  return DecoderWriter(file, std::move(architecture), values).write();
}

bool is_gguf_file(const std::string& path) {
  std::string begin(4, '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), 4);
  return is_gguf(begin);
}

Result<onnx::Model> load_model(const std::string& path, Values values) {
  TESSERA_TRY(const File file, File::open(path));
  return to_model(file, values);
}

}  // namespace tessera::gguf
