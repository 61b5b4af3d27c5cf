#include "tessera/learn/lm/language_network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "tessera/learn/nn/network_builder.h"

namespace tessera::lm {

using graph::kNoValue;
using graph::ValueId;
using nn::Hyper;
using nn::Linear;
using nn::Network;
using nn::NetworkBuilder;
using nn::Norm;

namespace {

struct Limits {
  const char* name;
  std::int64_t low, high, usual;
};
constexpr Limits kHyperLimits[] = {
    {"choice", 1, 1024, 48},     {"ffn", 1, 16384, 768}, {"heads", 1, 64, 4},
    {"key_heads", 1, 64, 2},     {"layers", 1, 64, 4},   {"max_answers", 1, 4096, 64},
    {"max_prompt", 1, 4096, 96}, {"rotary", 0, 1, 0},    {"width", 1, 8192, 192},
};
constexpr Limits kNumbers = {"numbers", 1, 1 << 16, 0};

// Far below every score, and far from the end of f32.
constexpr double kNever = 1e9;

// Where the shares of slower candidates are told apart: the best ones finely.
constexpr std::array<float, kQualityNumbers> kQualityEnds = {0.0f, 0.25f, 0.5f,  0.75f,
                                                             0.9f, 0.97f, 0.99f, 1.0f};

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

Result<void> check(const char* name, std::int64_t value, const Limits& limits) {
  if (value >= limits.low && value <= limits.high) return {};
  return bad("{}={} is outside {}..{}", name, value, limits.low, limits.high);
}

Result<void> check_spec(const LanguageSpec& spec) {
  for (const auto& [name, value] : spec.hyper) {
    const auto* limits = std::find_if(std::begin(kHyperLimits), std::end(kHyperLimits),
                                      [&n = name](const Limits& l) { return n == l.name; });
    if (limits == std::end(kHyperLimits)) {
      std::vector<std::string> known;
      for (const Limits& l : kHyperLimits) known.emplace_back(l.name);
      return bad("unknown hyper-parameter '{}'; it has {}", name, fmt::join(known, ", "));
    }
    TESSERA_DO(check(limits->name, value, *limits));
  }
  for (const Limits& l : kHyperLimits) {
    if (spec.hyper.count(l.name) == 0) return bad("hyper-parameter {} is missing", l.name);
  }
  const std::int64_t width = spec.hyper.at("width"), heads = spec.hyper.at("heads");
  const std::int64_t key_heads = spec.hyper.at("key_heads");
  if (width % heads != 0) return bad("width={} is not a multiple of heads={}", width, heads);
  if (heads % key_heads != 0) {
    return bad("heads={} is not a multiple of key_heads={}", heads, key_heads);
  }
  if (spec.hyper.at("rotary") != 0 && width / heads % 2 != 0) {
    return bad("rotary positions turn pairs, and a head has {} numbers", width / heads);
  }
  TESSERA_DO(check("word", spec.word, kNumbers));
  return check("value", spec.value, kNumbers);
}

struct Layer {
  Norm norm0, norm1;
  Linear query, key, value, out, ffn0, ffn1;
};

// Angles of the pairs of a head at `count` places from `first`: [count, 1, d / 2] each.
struct Turn {
  ValueId cosine = kNoValue, sine = kNoValue;
};

// The parameters, and what all graphs do with them. Lists of sizes are those in front of the heads.
class Writer {
 public:
  Writer(NetworkBuilder& builder, const LanguageSpec& spec)
      : b(builder),
        width(spec.hyper.at("width")),
        heads(spec.hyper.at("heads")),
        key_heads(spec.hyper.at("key_heads")),
        size(width / heads),
        choice(spec.hyper.at("choice")),
        rotary(spec.hyper.at("rotary") != 0),
        max_prompt(spec.hyper.at("max_prompt")),
        max_answers(spec.hyper.at("max_answers")) {
    const std::int64_t ffn = spec.hyper.at("ffn"), kept = key_heads * size;
    prompt_words_ = {b.linear_layer("prompt.0", spec.word, width),
                     b.linear_layer("prompt.1", width, width)};
    answer_words_ = {b.linear_layer("answer.0", answer_columns(spec), width),
                     b.linear_layer("answer.1", width, width)};
    if (!rotary) {
      prompt_places_ = b.parameter("prompt.places", {max_prompt, width}, nn::Init::kNormal, width);
      answer_places_ = b.parameter("answer.places", {max_answers, width}, nn::Init::kNormal, width);
    }
    for (std::int64_t i = 0; i < spec.hyper.at("layers"); ++i) {
      const std::string name = fmt::format("layer{}.", i);
      layers.push_back({.norm0 = b.norm_layer(name + "norm0", width),
                        .norm1 = b.norm_layer(name + "norm1", width),
                        .query = b.linear_layer(name + "query", width, width, false),
                        .key = b.linear_layer(name + "key", width, kept, false),
                        .value = b.linear_layer(name + "value", width, kept, false),
                        .out = b.linear_layer(name + "out", width, width),
                        .ffn0 = b.linear_layer(name + "ffn0", width, ffn),
                        .ffn1 = b.linear_layer(name + "ffn1", ffn, width)});
    }
    norm_ = b.norm_layer("norm", width);
    query_ = b.linear_layer("query", width, choice);
    choice_of_ = {b.linear_layer("choice.value", spec.value, width),
                  b.linear_layer("choice.question", spec.word, width, false),
                  b.linear_layer("choice.out", width, choice)};
  }

  // Words of prompts [..., places, word] as flat rows [.. * places, width], and their turns.
  ValueId read_prompt(ValueId words, std::int64_t rows, std::int64_t places) {
    if (places > max_prompt) b.refuse("a prompt of {} words, at most {}", places, max_prompt);
    const ValueId x = embed(prompt_words_, words, rows * places);
    return rotary ? x : add_places(x, prompt_places_, rows, places);
  }
  ValueId read_answers(ValueId words, std::int64_t rows, std::int64_t places) {
    if (places > max_answers) b.refuse("{} answers, at most {}", places, max_answers);
    const ValueId x = embed(answer_words_, words, rows * places);
    return rotary ? x : add_places(x, answer_places_, rows, places);
  }
  // `at` chooses the place of each row: [rows, max_answers].
  ValueId read_answer(ValueId words, ValueId at, std::int64_t rows) {
    const ValueId x = embed(answer_words_, words, rows);
    return rotary ? x : b.add(x, b.contract("mk,kn->mn", at, answer_places_));
  }

  // Answers are numbered behind the longest prompt, so that padding does not move them.
  Turn prompt_turn(std::int64_t places) { return turn(0, places); }
  Turn answer_turn(std::int64_t places) { return turn(max_prompt, places); }
  Turn turn_at(ValueId at, std::int64_t rows) {
    if (!rotary) return {};
    const auto pick = [&](bool sine) {
      const ValueId all = b.constant(angles(max_prompt, max_answers, sine));
      return b.reshape(b.contract("mk,kn->mn", at, all), {rows, 1, size / 2});
    };
    return {pick(false), pick(true)};
  }

  // Of normed rows x, with the sizes `lead` in front: [lead..., heads, d].
  ValueId queries(const Layer& layer, ValueId x, const Turn& t, const Shape& lead) {
    const ValueId scaled =
        b.mul(b.apply(layer.query, x), b.scalar(1 / std::sqrt(static_cast<double>(size))));
    const ValueId q = turned(b.reshape(scaled, with(lead, {heads, size})), t, lead);
    return b.reshape(q, with(lead, {key_heads, heads / key_heads, size}));
  }
  ValueId keys(const Layer& layer, ValueId x, const Turn& t, const Shape& lead) {
    const ValueId k = b.reshape(b.apply(layer.key, x), with(lead, {key_heads, size}));
    return turned(k, t, lead);
  }
  ValueId values(const Layer& layer, ValueId x, const Shape& lead) {
    return b.reshape(b.apply(layer.value, x), with(lead, {key_heads, size}));
  }

  // 0 for what is there, far below every score for what is not.
  ValueId bias(ValueId mask, const Shape& shape) {
    return b.reshape(b.mul(b.sub(mask, b.scalar(1)), b.scalar(kNever)), shape);
  }

  // What follows the attention in a layer: rows of x [n, width].
  ValueId finish_layer(const Layer& layer, ValueId x, ValueId attended, std::int64_t rows) {
    x = b.add(x, b.apply(layer.out, b.reshape(attended, {rows, width})));
    const ValueId y = b.relu(b.apply(layer.ffn0, b.apply(layer.norm1, x)));
    return b.add(x, b.apply(layer.ffn1, y));
  }

  ValueId query_of(ValueId x) {
    const double scale = 1 / std::sqrt(static_cast<double>(choice));
    return b.mul(b.apply(query_, b.apply(norm_, x)), b.scalar(scale));
  }

  // questions [s, q, word], values [s, q, n, value].
  ValueId choices(ValueId questions, ValueId list, std::int64_t asked, std::int64_t n) {
    const ValueId each = b.reshape(
        b.apply(choice_of_[0], b.reshape(list, {asked * n, b.width(list)})), {asked, n, width});
    const ValueId all = b.apply(choice_of_[1], b.reshape(questions, {asked, b.width(questions)}));
    const ValueId x = b.relu(b.add(each, b.reshape(all, {asked, 1, width})));
    return b.apply(choice_of_[2], b.reshape(x, {asked * n, width}));
  }

  // Keys and values of all layers for prompts [s, p, word]. Behind the last layer's nothing of a
  // prompt is read.
  struct KeysValues {
    ValueId keys, values;
  };
  std::vector<KeysValues> prompt(ValueId words, ValueId mask, std::int64_t s, std::int64_t p) {
    const Shape lead = {s, p};
    const Turn t = prompt_turn(p);
    const ValueId absent = bias(mask, {s, 1, 1, 1, p});
    ValueId x = read_prompt(words, s, p);
    std::vector<KeysValues> out;
    for (const Layer& layer : layers) {
      const ValueId y = b.apply(layer.norm0, x);
      const ValueId k = keys(layer, y, t, lead), v = values(layer, y, lead);
      out.push_back({k, v});
      if (out.size() == layers.size()) break;
      const ValueId q = queries(layer, y, t, lead);
      const ValueId scores = b.add(b.contract("spkrd,smkd->skrpm", q, k), absent);
      const ValueId attended = b.contract("skrpm,smkd->spkrd", b.softmax(scores), v);
      x = finish_layer(layer, x, attended, s * p);
    }
    return out;
  }

  NetworkBuilder& b;
  const std::int64_t width, heads, key_heads, size, choice;
  const bool rotary;
  const std::int64_t max_prompt, max_answers;
  std::vector<Layer> layers;

 private:
  static Shape with(Shape lead, const Shape& rest) {
    lead.insert(lead.end(), rest.begin(), rest.end());
    return lead;
  }

  ValueId embed(const std::array<Linear, 2>& layer, ValueId words, std::int64_t rows) {
    const ValueId x = b.relu(b.apply(layer[0], b.reshape(words, {rows, layer[0].in})));
    return b.apply(layer[1], x);
  }

  ValueId add_places(ValueId x, ValueId table, std::int64_t rows, std::int64_t places) {
    const ValueId by_place = b.reshape(x, {rows, places, width});
    return b.reshape(b.add(by_place, b.slice(table, 0, 0, places)), {rows * places, width});
  }

  HostTensor angles(std::int64_t first, std::int64_t count, bool sine) const {
    HostTensor out(DType::kF32, {count, size / 2});
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < size / 2; ++j) {
        const double angle =
            static_cast<double>(first + i) *
            std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(size));
        out.as<float>()[i * (size / 2) + j] =
            static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
      }
    }
    return out;
  }
  Turn turn(std::int64_t first, std::int64_t count) {
    if (!rotary) return {};
    const auto table = [&](bool sine) {
      return b.reshape(b.constant(angles(first, count, sine)), {count, 1, size / 2});
    };
    return {table(false), table(true)};
  }
  // Pairs are the halves of a head.
  ValueId turned(ValueId x, const Turn& t, const Shape& lead) {
    if (t.cosine == kNoValue) return x;
    const auto axis = static_cast<std::int64_t>(lead.size()) + 1;
    const ValueId low = b.slice(x, axis, 0, size / 2), high = b.slice(x, axis, size / 2, size / 2);
    return b.concat({b.sub(b.mul(low, t.cosine), b.mul(high, t.sine)),
                     b.add(b.mul(high, t.cosine), b.mul(low, t.sine))},
                    axis);
  }

  std::array<Linear, 2> prompt_words_, answer_words_;
  ValueId prompt_places_ = kNoValue, answer_places_ = kNoValue;
  Norm norm_;
  Linear query_;
  std::array<Linear, 3> choice_of_;
};

// Scores of a sentence's words among themselves: [answers, answers], 0 at and before each word.
HostTensor causal(std::int64_t answers) {
  HostTensor out(DType::kF32, {answers, answers});
  for (std::int64_t i = 0; i < answers; ++i) {
    for (std::int64_t j = i + 1; j < answers; ++j) {
      out.as<float>()[i * answers + j] = -static_cast<float>(kNever);
    }
  }
  return out;
}

Result<Network> finish(NetworkBuilder& b,
                       const std::vector<std::pair<std::string, ValueId>>& outputs) {
  return b.finish(nn::Rows::kStatement, outputs);  // it reads none
}

}  // namespace

const Hyper& language_defaults() {
  static const Hyper defaults = [] {
    Hyper h;
    for (const Limits& l : kHyperLimits) h[l.name] = l.usual;
    return h;
  }();
  return defaults;
}

Result<LanguageSpec> make_language_spec(const Hyper& hyper, std::int64_t word, std::int64_t value) {
  LanguageSpec spec{word, value, language_defaults()};
  for (const auto& [name, number] : hyper) spec.hyper[name] = number;
  TESSERA_DO(check_spec(spec));
  return spec;
}

std::int64_t answer_columns(const LanguageSpec& spec) {
  return 2 * spec.word + spec.value + kQualityNumbers;
}

void write_answer_word(const LanguageSpec& spec, const float* question, const float* before,
                       const float* taken, float quality, float* to) {
  const auto put = [&](const float* from, std::int64_t count) {
    if (from == nullptr) {
      std::fill_n(to, count, 0.0f);
    } else {
      std::copy_n(from, count, to);
    }
    to += count;
  };
  put(question, spec.word);
  put(before, spec.word);
  put(taken, spec.value);
  // The first says that it is known, each further how far it is from one end to the next.
  std::fill_n(to, kQualityNumbers, 0.0f);
  if (quality < 0) return;
  to[0] = 1;
  for (std::size_t i = 1; i < kQualityEnds.size(); ++i) {
    const float low = kQualityEnds[i - 1], high = kQualityEnds[i];
    to[i] = std::clamp((quality - low) / (high - low), 0.0f, 1.0f);
  }
}

Result<Network> build_sentences(const LanguageSpec& spec, const LanguageShape& shape) {
  TESSERA_DO(check_spec(spec));
  const auto [s, p, g, t, q, n] = shape;
  NetworkBuilder b("language.sentences", {.batch = s, .rows = p});
  const ValueId words = b.input("prompt", {s, p, spec.word}), mask = b.input("prompt_mask", {s, p});
  const ValueId said = b.input("words", {s, g, t, answer_columns(spec)});
  const ValueId questions = b.input("questions", {s, q, spec.word});
  const ValueId list = b.input("values", {s, q, n, spec.value});
  Writer w(b, spec);
  const std::vector<Writer::KeysValues> prompt = w.prompt(words, mask, s, p);
  const Shape lead = {s, g, t};
  const Turn turn = w.answer_turn(t);
  const ValueId absent = w.bias(mask, {s, 1, 1, 1, 1, p}), later = b.constant(causal(t));
  ValueId x = w.read_answers(said, s * g, t);
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    const Layer& layer = w.layers[i];
    const ValueId y = b.apply(layer.norm0, x);
    const ValueId query = w.queries(layer, y, turn, lead), key = w.keys(layer, y, turn, lead);
    const ValueId value = w.values(layer, y, lead);
    const ValueId to_prompt =
        b.add(b.contract("sgtkrd,smkd->sgkrtm", query, prompt[i].keys), absent);
    const ValueId to_own = b.add(b.contract("sgtkrd,sgukd->sgkrtu", query, key), later);
    const ValueId share = b.softmax(b.concat({to_prompt, to_own}, 5));
    const ValueId attended =
        b.add(b.contract("sgkrtm,smkd->sgtkrd", b.slice(share, 5, 0, p), prompt[i].values),
              b.contract("sgkrtu,sgukd->sgtkrd", b.slice(share, 5, p, t), value));
    x = w.finish_layer(layer, x, attended, s * g * t);
  }
  return finish(
      b, {{"query", b.reshape(w.query_of(x), {s, g, t, w.choice})},
          {"choices", b.reshape(w.choices(questions, list, s * q, n), {s, q, n, w.choice})}});
}

Result<Network> build_prompt(const LanguageSpec& spec, std::int64_t words) {
  TESSERA_DO(check_spec(spec));
  NetworkBuilder b("language.prompt", {.batch = 1, .rows = words});
  const ValueId text = b.input("prompt", {1, words, spec.word});
  const ValueId mask = b.input("prompt_mask", {1, words});
  Writer w(b, spec);
  const Shape shape = {words, w.key_heads, w.size};
  std::vector<std::pair<std::string, ValueId>> outputs;
  for (const Writer::KeysValues& kept : w.prompt(text, mask, 1, words)) {
    const std::size_t layer = outputs.size() / 2;
    outputs.emplace_back(fmt::format("keys{}", layer), b.reshape(kept.keys, shape));
    outputs.emplace_back(fmt::format("values{}", layer), b.reshape(kept.values, shape));
  }
  return finish(b, outputs);
}

Result<Network> build_choices(const LanguageSpec& spec, std::int64_t count) {
  TESSERA_DO(check_spec(spec));
  NetworkBuilder b("language.choices", {.batch = 1, .rows = count});
  const ValueId questions = b.input("questions", {1, count, spec.word});
  const ValueId list = b.input("values", {1, count, 1, spec.value});
  Writer w(b, spec);
  const ValueId out = w.choices(questions, list, count, 1);
  return finish(b, {{"choices", b.reshape(out, {1, count, 1, w.choice})}});
}

namespace {

// What a word of each row reads.
struct StepInputs {
  struct Layer {
    ValueId prompt_keys, prompt_values, keys, values;
  };
  ValueId prompt_mask = kNoValue;
  std::vector<Layer> layers;
};

StepInputs step_inputs(NetworkBuilder& b, const LanguageSpec& spec, const StepShape& shape) {
  const std::int64_t key_heads = spec.hyper.at("key_heads");
  const std::int64_t d = spec.hyper.at("width") / spec.hyper.at("heads");
  const Shape of_prompt = {shape.prompt, key_heads, d};
  const Shape of_rows = {shape.rows, shape.cache, key_heads, d};
  StepInputs out;
  for (std::int64_t i = 0; i < spec.hyper.at("layers"); ++i) {
    out.layers.push_back({b.input(fmt::format("prompt_keys{}", i), of_prompt),
                          b.input(fmt::format("prompt_values{}", i), of_prompt),
                          b.input(fmt::format("keys{}", i), of_rows),
                          b.input(fmt::format("values{}", i), of_rows)});
  }
  return out;
}

// The query of the words x [rows, width] whose place `turn` knows, and of each layer their keys and
// values. `earlier`: as cache_mask.
ValueId read_step(Writer& w, const StepShape& shape, const StepInputs& in, ValueId x,
                  const Turn& turn, ValueId earlier, std::vector<Writer::KeysValues>* own) {
  NetworkBuilder& b = w.b;
  const auto [rows, p, cache] = shape;
  const std::int64_t key_heads = w.key_heads, group = w.heads / key_heads;
  const Shape lead = {rows};
  const ValueId absent = w.bias(in.prompt_mask, {1, 1, 1, p});
  const ValueId unsaid = w.bias(earlier, {rows, 1, 1, cache});
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    const Layer& layer = w.layers[i];
    const StepInputs::Layer& kept = in.layers[i];
    const ValueId y = b.apply(layer.norm0, x);
    const ValueId query = w.queries(layer, y, turn, lead), key = w.keys(layer, y, turn, lead);
    const ValueId value = w.values(layer, y, lead);
    own->push_back({key, value});
    const ValueId to_prompt = b.add(b.contract("bkrd,mkd->bkrm", query, kept.prompt_keys), absent);
    const ValueId to_own = b.add(b.contract("bkrd,btkd->bkrt", query, kept.keys), unsaid);
    const ValueId to_self =
        b.reshape(b.contract("bkrd,bkd->bkr", query, key), {rows, key_heads, group, 1});
    const ValueId share = b.softmax(b.concat({to_prompt, to_own, to_self}, 3));
    ValueId attended = b.contract("bkrm,mkd->bkrd", b.slice(share, 3, 0, p), kept.prompt_values);
    attended =
        b.add(attended, b.contract("bkrt,btkd->bkrd", b.slice(share, 3, p, cache), kept.values));
    attended = b.add(attended, b.mul(b.slice(share, 3, p + cache, 1),
                                     b.reshape(value, {rows, key_heads, 1, w.size})));
    x = w.finish_layer(layer, x, attended, rows);
  }
  return w.query_of(x);
}

}  // namespace

Result<Network> build_step(const LanguageSpec& spec, const StepShape& shape) {
  TESSERA_DO(check_spec(spec));
  const std::int64_t rows = shape.rows;
  NetworkBuilder b("language.step", {.batch = rows, .rows = 1});
  const ValueId words = b.input("words", {rows, answer_columns(spec)});
  const ValueId at = b.input("at", {rows, spec.hyper.at("max_answers")});
  const ValueId mask = b.input("prompt_mask", {1, shape.prompt});
  const ValueId earlier = b.input("cache_mask", {rows, shape.cache});
  StepInputs in = step_inputs(b, spec, shape);
  in.prompt_mask = mask;
  Writer w(b, spec);
  std::vector<Writer::KeysValues> own;
  const ValueId query =
      read_step(w, shape, in, w.read_answer(words, at, rows), w.turn_at(at, rows), earlier, &own);
  std::vector<std::pair<std::string, ValueId>> outputs = {{"query", query}};
  for (std::size_t i = 0; i < own.size(); ++i) {
    outputs.emplace_back(fmt::format("key{}", i), own[i].keys);
    outputs.emplace_back(fmt::format("value{}", i), own[i].values);
  }
  return finish(b, outputs);
}

Result<Network> build_keeping_step(const LanguageSpec& spec, const StepShape& shape) {
  TESSERA_DO(check_spec(spec));
  const auto [rows, p, cache] = shape;
  NetworkBuilder b("language.keeping_step", {.batch = rows, .rows = 1});
  const ValueId words = b.input("words", {rows, answer_columns(spec)});
  const ValueId said = b.input("said", {rows, 2});
  const ValueId mask = b.input("prompt_mask", {1, p});
  StepInputs in = step_inputs(b, spec, shape);
  in.prompt_mask = mask;
  Writer w(b, spec);
  // Places as numbers: 1 where a place is that of the word, or before it, and else 0.
  const ValueId count = b.slice(said, 1, 0, 1), one = b.scalar(1);
  const auto behind = [&](std::int64_t places) {
    HostTensor all(DType::kF32, {1, places});
    std::iota(all.as<float>(), all.as<float>() + places, 0.0F);
    return b.sub(count, b.constant(std::move(all)));
  };
  const auto is_at = [&](std::int64_t places) {
    const ValueId distance = behind(places);
    return b.relu(b.sub(one, b.mul(distance, distance)));
  };
  const ValueId at = is_at(spec.hyper.at("max_answers"));
  const ValueId earlier = b.relu(b.sub(one, b.relu(b.sub(one, behind(cache)))));
  std::vector<Writer::KeysValues> own;
  const ValueId query =
      read_step(w, shape, in, w.read_answer(words, at, rows), w.turn_at(at, rows), earlier, &own);
  const ValueId place = b.reshape(b.mul(is_at(cache), b.slice(said, 1, 1, 1)), {rows, cache, 1, 1});
  const ValueId others = b.sub(one, place);
  std::vector<std::pair<std::string, ValueId>> outputs = {{"query", query}};
  const auto keep = [&, rows = rows](const char* name, std::size_t layer, ValueId kept,
                                     ValueId word) {
    const ValueId by_place = b.reshape(word, {rows, 1, w.key_heads, w.size});
    outputs.emplace_back(fmt::format("{}{}", name, layer),
                         b.add(b.mul(kept, others), b.mul(by_place, place)));
  };
  for (std::size_t i = 0; i < own.size(); ++i) {
    keep("kept_keys", i, in.layers[i].keys, own[i].keys);
    keep("kept_values", i, in.layers[i].values, own[i].values);
  }
  return finish(b, outputs);
}

std::size_t data_inputs(const Network& network) {
  return network.graph.inputs.size() - network.parameters.size();
}

Result<std::map<std::string, HostTensor>> initial_weights(const LanguageSpec& spec,
                                                          std::uint64_t seed) {
  TESSERA_TRY(const Network network, build_choices(spec, 1));
  Rng rng(seed);
  std::map<std::string, HostTensor> weights;
  for (const nn::Parameter& p : network.parameters) weights[p.name] = initial_value(p, rng);
  return weights;
}

}  // namespace tessera::lm
