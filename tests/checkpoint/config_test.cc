#include "tessera/frontend/checkpoint/config.h"

#include <cmath>
#include <functional>

#include "tests/checkpoint/tiny_folder.h"

namespace tessera::checkpoint {
namespace {

using testing::case_named;
using testing::json;

// config.json as versions of transformers before the fifth wrote it.
json old(const char* model_type) {
  return {{"model_type", model_type},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_hidden_layers", 2},
          {"max_position_embeddings", 100},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 500.0},
          {"hidden_act", std::string(model_type).starts_with("gemma") ? "gelu" : "silu"}};
}

Result<Config> read(const json& config, Parts* parts) {
  return read_config(config.dump(), "config.json", parts);
}

double number(const Parts& parts, const char* key) {
  const auto at = parts.metadata.find(key);
  if (at == parts.metadata.end()) return std::nan("");
  const auto* whole = std::get_if<std::int64_t>(&at->second.value);
  return whole ? static_cast<double>(*whole) : std::get<double>(at->second.value);
}

std::vector<float> made(const Parts& parts, std::string_view name) {
  for (const gguf::Tensor& t : parts.tensors) {
    if (t.name != name) continue;
    const HostTensor wide = gguf::widened(t).value();
    return {wide.as<float>(), wide.as<float>() + wide.size()};
  }
  return {};
}

TEST(Config, FieldsBecomeThoseOfTheFamily) {
  Parts parts;
  const auto config = read(old("qwen2"), &parts);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, "qwen2");
  EXPECT_FALSE(config->tied);
  EXPECT_EQ(number(parts, "qwen2.embedding_length"), 64);
  EXPECT_EQ(number(parts, "qwen2.attention.layer_norm_rms_epsilon"), 1e-6);
  EXPECT_EQ(number(parts, "qwen2.rope.freq_base"), 500);
  EXPECT_EQ(number(parts, "qwen2.rope.dimension_count"), 16);
  EXPECT_TRUE(std::isnan(number(parts, "qwen2.feed_forward_length")));
}

TEST(Config, GemmaIsTiedWhereNothingIsSaid) {
  Parts parts;
  const auto config = read(old("gemma"), &parts);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->tied);
  EXPECT_TRUE(config->norms_from_one);
}

// No text that is longer than a window is read where the family has none of its own.
TEST(Config, WindowsCutTheContext) {
  const auto context = [](const json& more) {
    json config = old("mistral");
    config.update(more);
    Parts parts;
    EXPECT_TRUE(read(config, &parts).ok());
    return number(parts, "llama.context_length");
  };
  EXPECT_EQ(context(json::object()), 100);
  EXPECT_EQ(context({{"sliding_window", nullptr}}), 100);
  EXPECT_EQ(context({{"sliding_window", 30}}), 30);
  EXPECT_EQ(context({{"sliding_window", 300}}), 100);
  EXPECT_EQ(context({{"sliding_window", 30}, {"use_sliding_window", false}}), 100);
  json phi = old("phi3");
  phi["sliding_window"] = 30;
  Parts parts;
  ASSERT_TRUE(read(phi, &parts).ok());
  EXPECT_EQ(number(parts, "phi3.attention.sliding_window"), 30);
  EXPECT_EQ(number(parts, "phi3.context_length"), 100);
}

TEST(Config, ScaledPositionsOfEveryKind) {
  json linear = old("llama");
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  Parts parts;
  ASSERT_TRUE(read(linear, &parts).ok());
  EXPECT_EQ(number(parts, "llama.rope.scaling.factor"), 4);

  // The divisors of Llama 3.2, by the formula of its authors.
  json llama3 = old("llama");
  llama3["rope_theta"] = 500000.0;
  llama3["head_dim"] = 64;
  llama3["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 32.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  Parts scaled;
  ASSERT_TRUE(read(llama3, &scaled).ok());
  const std::vector<float> divisors = made(scaled, "rope_freqs.weight");
  ASSERT_EQ(divisors.size(), 32U);
  EXPECT_EQ(divisors[0], 1);
  EXPECT_EQ(divisors[31], 32);
  const double length = 2 * std::acos(-1) * std::pow(500000.0, 32.0 / 64);
  const double smooth = (8192 / length - 1) / 3;
  EXPECT_FLOAT_EQ(divisors[16], static_cast<float>(1 / ((1 - smooth) / 32 + smooth)));

  json longrope = old("phi3");
  longrope["original_max_position_embeddings"] = 25;
  longrope["rope_scaling"] = {
      {"type", "su"}, {"short_factor", {1.0, 2.0}}, {"long_factor", {3.0, 4.0}}};
  Parts factors;
  ASSERT_TRUE(read(longrope, &factors).ok());
  EXPECT_EQ(made(factors, "rope_factors_short.weight"), (std::vector<float>{1, 2}));
  EXPECT_DOUBLE_EQ(number(factors, "phi3.rope.scaling.attn_factor"),
                   std::sqrt(1 + std::log(4.0) / std::log(25.0)));
  EXPECT_EQ(number(factors, "phi3.rope.scaling.original_context_length"), 25);
}

// As versions before and since the fifth have them.
TEST(Config, TwoBasesOfPositions) {
  json before = old("gemma3_text");
  before.update({{"rope_local_base_freq", 300.0},
                 {"sliding_window", 30},
                 {"sliding_window_pattern", 6},
                 {"query_pre_attn_scalar", 16},
                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  json now = old("gemma3_text");
  now.erase("rope_theta");
  now.update({{"sliding_window", 30},
              {"layer_types", {"sliding_attention", "sliding_attention"}},
              {"query_pre_attn_scalar", 16},
              {"rope_parameters",
               {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 500}}},
                {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}}}});
  for (const json& config : {before, now}) {
    Parts parts;
    const auto read_config = read(config, &parts);
    ASSERT_TRUE(read_config.ok()) << read_config.error().message;
    EXPECT_EQ(read_config->family, "gemma3");
    EXPECT_TRUE(read_config->tied && read_config->norms_from_one && read_config->norms_around);
    EXPECT_EQ(number(parts, "gemma3.rope.freq_base"), 500);
    EXPECT_EQ(number(parts, "gemma3.rope.freq_base_swa"), 300);
    EXPECT_EQ(number(parts, "gemma3.rope.scaling.factor"), 8);
    EXPECT_EQ(number(parts, "gemma3.attention.sliding_window"), 30);
    EXPECT_EQ(number(parts, "gemma3.attention.scale"), 0.25);
  }
}

TEST(Config, LayersWithoutPositionsAreThoseOfTheFamily) {
  for (const json& more : {json::object(), json{{"no_rope_layer_interval", 4}},
                           json{{"no_rope_layers", {1, 1, 1, 0, 1, 1, 1, 0}}}}) {
    json config = old("smollm3");
    config.update(more);
    Parts parts;
    const auto read_config = read(config, &parts);
    ASSERT_TRUE(read_config.ok()) << read_config.error().message;
    EXPECT_EQ(read_config->family, "smollm3");
    EXPECT_TRUE(read_config->tied);
  }
}

TEST(Config, SaysWhatIsWrong) {
  const auto refusal = [](const char* type, const json& more) {
    json config = old(type);
    config.update(more);
    Parts parts;
    const auto read_config = read(config, &parts);
    EXPECT_FALSE(read_config.ok());
    return read_config.ok() ? "" : read_config.error().message;
  };
  EXPECT_EQ(refusal("bert", json::object()),
            "config.json: model_type 'bert'; those known are gemma, gemma2, gemma3_text, llama, "
            "mistral, phi3, qwen2, qwen3, smollm3");
  EXPECT_EQ(refusal("llama", {{"model_type", 3}}), "config.json: 'model_type' is not a text");
  EXPECT_EQ(refusal("llama", {{"quantization_config", {{"bits", 4}}}}),
            "config.json: quantization_config: weights in this form");
  EXPECT_EQ(refusal("llama", {{"hidden_act", "relu"}}), "config.json: 'hidden_act' is relu");
  EXPECT_EQ(refusal("llama", {{"hidden_size", "x"}}), "config.json: 'hidden_size' is not a number");
  EXPECT_EQ(refusal("llama", {{"num_hidden_layers", 1ULL << 63}}),
            "config.json: 'num_hidden_layers' is too large");
  EXPECT_EQ(refusal("llama", {{"tie_word_embeddings", 1}}),
            "config.json: 'tie_word_embeddings' is not true or false");
  EXPECT_EQ(refusal("llama", {{"rope_theta", -1}}),
            "config.json: 'rope_theta' is not a positive number");
  EXPECT_EQ(refusal("mistral", {{"sliding_window", 1.5}}),
            "config.json: 'sliding_window' is not a size");
  EXPECT_EQ(refusal("llama", {{"hidden_size", 3}}), "config.json: heads of 0 elements");
  EXPECT_EQ(refusal("llama", {{"rope_scaling", 3}}),
            "config.json: 'rope_scaling' is not an object");
  EXPECT_EQ(refusal("llama", {{"rope_scaling", {{"type", "yarn"}}}}),
            "config.json: positions scaled by 'yarn'");
  EXPECT_EQ(refusal("llama", {{"rope_scaling", {{"type", "linear"}}}}),
            "config.json: there is no 'factor' for scaled positions");
  EXPECT_EQ(refusal("llama", {{"rope_scaling",
                               {{"rope_type", "llama3"},
                                {"factor", 8},
                                {"low_freq_factor", 4},
                                {"high_freq_factor", 4},
                                {"original_max_position_embeddings", 8}}}}),
            "config.json: 'high_freq_factor' is 4, low 4");
  EXPECT_EQ(refusal("phi3", {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {"a"}}}}}),
            "config.json: 'short_factor' is not a list of numbers");
  EXPECT_EQ(refusal("gemma2", {{"layer_types", {"full_attention"}}}),
            "config.json: 'layer_types': layer 0 has no sliding_attention");
  EXPECT_EQ(refusal("gemma2", {{"layer_types", 2}}), "config.json: 'layer_types' is not a list");
  const char *near = "sliding_attention", *all = "full_attention";
  EXPECT_EQ(refusal("gemma3_text", {{"layer_types", {near, near, near, near, near, near}}}),
            "config.json: 'layer_types': layer 5 has no full_attention");
  EXPECT_EQ(refusal("gemma3_text", {{"layer_types", {near, all}}}),
            "config.json: 'layer_types': layer 1 has no sliding_attention");
  EXPECT_EQ(refusal("gemma3_text", {{"use_bidirectional_attention", true}}),
            "config.json: 'use_bidirectional_attention': this is for models that read forwards");
  EXPECT_EQ(refusal("gemma3_text",
                    {{"rope_parameters",
                      {{"full_attention", {{"rope_theta", 2.0}}},
                       {"sliding_attention", {{"rope_theta", 2.0}, {"rope_type", "linear"}}}}}}),
            "config.json: positions in a window scaled by 'linear'");
  EXPECT_EQ(refusal("gemma3_text", {{"rope_parameters", {{"sliding_attention", 3}}}}),
            "config.json: 'rope_parameters' is not an object");
  EXPECT_EQ(refusal("smollm3", {{"no_rope_layer_interval", 3}}),
            "config.json: 'no_rope_layer_interval' is 3, not 4");
  EXPECT_EQ(refusal("smollm3", {{"no_rope_layers", {1, 1, 1, 1}}}),
            "config.json: 'no_rope_layers': layer 3 has no 0");
  EXPECT_EQ(refusal("smollm3", {{"no_rope_layers", 2}}),
            "config.json: 'no_rope_layers' is not a list");
}

}  // namespace
}  // namespace tessera::checkpoint
