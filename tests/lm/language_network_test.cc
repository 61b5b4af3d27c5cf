#include "tessera/learn/lm/language_network.h"

#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"

namespace tessera::lm {
namespace {

using nn::Hyper;
using nn::Network;

constexpr std::int64_t kWord = 7, kValue = 5;

LanguageSpec small_spec(const Hyper& hyper = {}) {
  Hyper all = {{"width", 8}, {"layers", 2}, {"heads", 4},      {"key_heads", 2},
               {"ffn", 12},  {"choice", 6}, {"max_prompt", 6}, {"max_answers", 5}};
  for (const auto& [name, value] : hyper) all[name] = value;
  return make_language_spec(all, kWord, kValue).value();
}

using Tensors = std::map<std::string, HostTensor>;

// Inputs that nobody names are zero.
Tensors run(const Network& network, const Tensors& weights, const Tensors& data) {
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : network.graph.inputs) {
    const std::string& name = network.graph.value(id).name;
    const bool given = data.count(name) > 0;
    if (!given && weights.count(name) == 0) {
      inputs.emplace_back(DType::kF32, network.graph.shape(id));
      continue;
    }
    inputs.push_back(given ? data.at(name) : weights.at(name));
    EXPECT_EQ(inputs.back().shape(), network.graph.shape(id)) << name;
  }
  const auto out = graph::evaluate(network.graph, inputs);
  EXPECT_TRUE(out.ok());
  Tensors named;
  for (std::size_t i = 0; i < out->size(); ++i) named[network.graph.output_names[i]] = (*out)[i];
  return named;
}

HostTensor filled(const Shape& shape, float value) {
  HostTensor out(DType::kF32, shape);
  std::fill_n(out.as<float>(), out.size(), value);
  return out;
}

// The first `count` of the last axis are 1.
HostTensor mask(const Shape& shape, std::int64_t count) {
  HostTensor out(DType::kF32, shape);
  for (std::int64_t i = 0; i < out.size(); ++i) out.as<float>()[i] = i % shape.back() < count;
  return out;
}

// Row `row` of the first axis of `from` into that of `to`, as far as the smaller reaches.
void copy_rows(const HostTensor& from, std::int64_t row, HostTensor& to, std::int64_t at,
               std::int64_t count) {
  std::copy_n(from.as<float>() + row, count, to.as<float>() + at);
}

void expect_near(const float* got, const float* want, std::int64_t count, const char* what) {
  for (std::int64_t i = 0; i < count; ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << what << " " << i;
}

// Whole sentences, and the same word by word with caches that have room to spare.
void expect_steps_equal_sentences(const LanguageSpec& spec) {
  const Tensors weights = initial_weights(spec, 3).value();
  Rng rng(4);
  const LanguageShape shape{
      .subjects = 2, .prompt = 4, .sentences = 3, .answers = 5, .questions = 2, .values = 3};
  const std::int64_t columns = answer_columns(spec), lengths[] = {4, 2};
  Tensors data = {{"prompt", random_tensor(DType::kF32, {2, 4, kWord}, rng)},
                  {"prompt_mask", filled({2, 4}, 1)},
                  {"words", random_tensor(DType::kF32, {2, 3, 5, columns}, rng)},
                  {"questions", random_tensor(DType::kF32, {2, 2, kWord}, rng)},
                  {"values", random_tensor(DType::kF32, {2, 2, 3, kValue}, rng)}};
  std::fill_n(data["prompt_mask"].as<float>() + 4 + lengths[1], 4 - lengths[1], 0.0f);
  const Tensors whole = run(build_sentences(spec, shape).value(), weights, data);

  const std::int64_t layers = spec.hyper.at("layers"), choice = spec.hyper.at("choice");
  const std::int64_t kept =
      spec.hyper.at("key_heads") * spec.hyper.at("width") / spec.hyper.at("heads");
  const std::int64_t most = spec.hyper.at("max_answers"), cache = 6, places = 6;
  const Network prompt = build_prompt(spec, places).value();
  const StepShape step_shape{.rows = 3, .prompt = places, .cache = cache};
  const Network step = build_step(spec, step_shape).value();
  const Network keeping_step = build_keeping_step(spec, step_shape).value();
  for (std::int64_t s = 0; s < 2; ++s) {
    // What the padding of the prompt holds does not matter.
    Tensors text = {{"prompt", filled({1, places, kWord}, 9)},
                    {"prompt_mask", mask({1, places}, lengths[s])}};
    copy_rows(data["prompt"], s * 4 * kWord, text["prompt"], 0, lengths[s] * kWord);
    Tensors state = {{"prompt_mask", text["prompt_mask"]}, {"cache_mask", mask({3, cache}, 0)}};
    for (const auto& [name, tensor] : run(prompt, weights, text)) state["prompt_" + name] = tensor;
    for (std::int64_t i = 0; i < layers; ++i) {
      for (const char* name : {"keys", "values"}) {
        const Shape size = {3, cache, spec.hyper.at("key_heads"),
                            spec.hyper.at("width") / spec.hyper.at("heads")};
        state[name + std::to_string(i)] = filled(size, 7);
      }
    }
    Tensors keeping = state;
    for (std::int64_t t = 0; t < shape.answers; ++t) {
      state["words"] = HostTensor(DType::kF32, {3, columns});
      state["at"] = HostTensor(DType::kF32, {3, most});
      for (std::int64_t g = 0; g < 3; ++g) {
        copy_rows(data["words"], ((s * 3 + g) * 5 + t) * columns, state["words"], g * columns,
                  columns);
        state["at"].as<float>()[g * most + t] = 1;
      }
      const Tensors out = run(step, weights, state);
      for (std::int64_t g = 0; g < 3; ++g) {
        expect_near(out.at("query").as<float>() + g * choice,
                    whole.at("query").as<float>() + ((s * 3 + g) * 5 + t) * choice, choice,
                    "query");
        state["cache_mask"].as<float>()[g * cache + t] = 1;
        for (std::int64_t i = 0; i < layers; ++i) {
          const std::string n = std::to_string(i);
          copy_rows(out.at("key" + n), g * kept, state["keys" + n], (g * cache + t) * kept, kept);
          copy_rows(out.at("value" + n), g * kept, state["values" + n], (g * cache + t) * kept,
                    kept);
        }
      }
      // The one that keeps its words, after a run that has none.
      keeping["words"] = state["words"];
      for (const float goes_on : {0.0F, 1.0F}) {
        keeping["said"] = HostTensor(DType::kF32, {3, 2});
        for (std::int64_t g = 0; g < 3; ++g) {
          keeping["said"].as<float>()[2 * g] = static_cast<float>(t);
          keeping["said"].as<float>()[2 * g + 1] = goes_on;
        }
        const Tensors next = run(keeping_step, weights, keeping);
        expect_near(next.at("query").as<float>(), out.at("query").as<float>(), 3 * choice, "query");
        for (std::int64_t i = 0; i < layers; ++i) {
          for (const char* name : {"keys", "values"}) {
            const std::string n = name + std::to_string(i);
            HostTensor& before = keeping[n];
            const HostTensor& after = next.at("kept_" + n);
            const HostTensor& want = goes_on == 0 ? before : state[n];
            expect_near(after.as<float>(), want.as<float>(), 3 * cache * kept, name);
            before = after;
          }
        }
      }
    }
  }
  // Values, each beside its question.
  Tensors list = {{"questions", HostTensor(DType::kF32, {1, 12, kWord})},
                  {"values", HostTensor(DType::kF32, {1, 12, 1, kValue})}};
  for (std::int64_t i = 0; i < 12; ++i) {
    copy_rows(data["questions"], i / 3 * kWord, list["questions"], i * kWord, kWord);
    copy_rows(data["values"], i * kValue, list["values"], i * kValue, kValue);
  }
  const Tensors choices = run(build_choices(spec, 12).value(), weights, list);
  expect_near(choices.at("choices").as<float>(), whole.at("choices").as<float>(), 12 * choice,
              "choices");
}

TEST(LanguageNetwork, StepsEqualWholeSentencesAtEveryWord) {
  expect_steps_equal_sentences(small_spec());
}
TEST(LanguageNetwork, StepsEqualWholeSentencesWithRotaryPositions) {
  expect_steps_equal_sentences(small_spec({{"rotary", 1}}));
}
TEST(LanguageNetwork, StepsEqualWholeSentencesWithAKeyPerHead) {
  expect_steps_equal_sentences(small_spec({{"key_heads", 4}, {"layers", 1}}));
}

TEST(LanguageNetwork, LaterWordsChangeNothingBeforeThem) {
  const LanguageSpec spec = small_spec();
  const Tensors weights = initial_weights(spec, 5).value();
  Rng rng(6);
  const Network network =
      build_sentences(spec, {.prompt = 2, .sentences = 1, .answers = 4}).value();
  const std::int64_t columns = answer_columns(spec), choice = spec.hyper.at("choice");
  Tensors data = {{"prompt", random_tensor(DType::kF32, {1, 2, kWord}, rng)},
                  {"prompt_mask", filled({1, 2}, 1)},
                  {"words", random_tensor(DType::kF32, {1, 1, 4, columns}, rng)}};
  const HostTensor before = run(network, weights, data).at("query");
  std::fill_n(data["words"].as<float>() + 3 * columns, columns, 5.0f);
  const HostTensor after = run(network, weights, data).at("query");
  expect_near(after.as<float>(), before.as<float>(), 3 * choice, "query");
  EXPECT_GT(std::abs(after.as<float>()[3 * choice] - before.as<float>()[3 * choice]), 1e-3);
}

TEST(LanguageNetwork, EveryGraphHasAllParametersInOneOrder) {
  const LanguageSpec spec = small_spec({{"rotary", 1}});
  const Network graphs[] = {build_sentences(spec, {}).value(), build_prompt(spec, 2).value(),
                            build_choices(spec, 2).value(), build_step(spec, {}).value()};
  for (const Network& network : graphs) {
    EXPECT_TRUE(graph::verify(network.graph).ok());
    ASSERT_EQ(network.parameters.size(), graphs[0].parameters.size());
    for (std::size_t i = 0; i < network.parameters.size(); ++i) {
      EXPECT_EQ(network.parameters[i].name, graphs[0].parameters[i].name);
      EXPECT_EQ(network.parameters[i].shape, graphs[0].parameters[i].shape);
      const graph::ValueId id = network.graph.inputs[data_inputs(network) + i];
      EXPECT_EQ(network.graph.value(id).name, network.parameters[i].name);
    }
  }
}

TEST(LanguageNetwork, ReachesAHundredMillionWeights) {
  const auto count = [](const Hyper& hyper) {
    const LanguageSpec spec = make_language_spec(hyper, 164, 55).value();
    std::int64_t sum = 0;
    const Network network = build_choices(spec, 1).value();
    for (const nn::Parameter& p : network.parameters) sum += elements(p.shape);
    return sum;
  };
  EXPECT_GT(
      count({{"width", 768}, {"heads", 12}, {"key_heads", 12}, {"ffn", 3072}, {"layers", 14}}),
      95'000'000);
  EXPECT_LT(count({}), 2'500'000);
  EXPECT_GT(count({}), 1'000'000);
}

TEST(LanguageSpec, RefusesWhatItCannotBuild) {
  struct Refusal {
    Hyper hyper;
    const char* message;
  };
  const Refusal refusals[] = {
      {{{"widht", 8}}, "unknown hyper-parameter 'widht'; it has choice"},
      {{{"width", 0}}, "width=0 is outside"},
      {{{"width", 10}, {"heads", 4}}, "width=10 is not a multiple of heads=4"},
      {{{"heads", 4}, {"key_heads", 3}}, "heads=4 is not a multiple of key_heads=3"},
      {{{"width", 12}, {"heads", 4}, {"key_heads", 4}, {"rotary", 1}}, "a head has 3 numbers"},
  };
  for (const Refusal& r : refusals) {
    const auto spec = make_language_spec(r.hyper, kWord, kValue);
    ASSERT_FALSE(spec.ok()) << r.message;
    EXPECT_NE(spec.error().message.find(r.message), std::string::npos) << spec.error().message;
  }
  EXPECT_FALSE(make_language_spec({}, 0, kValue).ok());
  LanguageSpec incomplete = small_spec();
  incomplete.hyper.erase("ffn");
  EXPECT_FALSE(build_step(incomplete, {}).ok());
  EXPECT_FALSE(build_prompt(small_spec(), 7).ok());
  EXPECT_FALSE(build_sentences(small_spec(), {.answers = 6}).ok());
}

TEST(AnswerWord, TellsQuestionAnswerBeforeAndQuality) {
  const LanguageSpec spec = make_language_spec({}, 2, 1).value();
  const float question[] = {1, 2}, before[] = {3, 4}, taken[] = {5};
  std::vector<float> to(static_cast<std::size_t>(answer_columns(spec)), -1);
  write_answer_word(spec, question, before, taken, 1, to.data());
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, 4, 5, 1, 1, 1, 1, 1, 1, 1, 1}));
  write_answer_word(spec, question, nullptr, nullptr, 0.5f, to.data());
  EXPECT_EQ(to, (std::vector<float>{1, 2, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0}));
  write_answer_word(spec, question, before, taken, -1, to.data());
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace tessera::lm
