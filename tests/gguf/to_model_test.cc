#include "tessera/frontend/gguf/to_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "tessera/frontend/gguf/architecture.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::gguf {
namespace {

using app::testing::TinyDecoder;
using app::testing::write_decoder;
using testing::Writer;

File parse(const std::string& bytes) {
  const auto kept = std::make_shared<const std::string>(bytes);
  Result<File> file = File::parse(*kept, kept, "m.gguf");
  EXPECT_TRUE(file.ok()) << file.error().message;
  return std::move(*file);
}

// The fields of a decoder without tensors, each of which may be left out or changed.
Writer fields(const std::string& changed = "", std::uint32_t value = 0) {
  Writer w;
  w.text("general.architecture", "llama").number("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  const std::vector<std::pair<std::string, std::uint32_t>> sizes = {
      {"block_count", 1},          {"context_length", 8},       {"embedding_length", 64},
      {"feed_forward_length", 64}, {"attention.head_count", 2}, {"attention.head_count_kv", 1}};
  for (const auto& [key, size] : sizes) {
    if (key != changed) w.integer("llama." + key, size);
  }
  if (value != 0) w.integer("llama." + changed, value);
  w.floats("token_embd.weight", {3, 64}, std::vector<float>(192, .5F));
  return w;
}

std::string refusal(const Writer& w) {
  const Result<onnx::Model> model = to_model(parse(w.str()));
  EXPECT_FALSE(model.ok());
  return model.ok() ? "" : model.error().message;
}

TEST(ToModel, SaysWhichFieldIsMissingOrWrong) {
  EXPECT_EQ(refusal(fields("block_count")), "m.gguf: there is no 'llama.block_count'");
  EXPECT_EQ(refusal(fields("block_count", 5000)),
            "m.gguf: 'llama.block_count' is 5000, not 1 to 1000");
  EXPECT_EQ(refusal(fields("embedding_length", 128)),
            "m.gguf: tensor 'token_embd.weight' is 3x64, rows of 128 needed");
  EXPECT_EQ(refusal(fields("attention.head_count_kv", 4)),
            "m.gguf: 2 heads of queries for 4 of keys");
  EXPECT_EQ(refusal(fields("attention.head_count", 3)), "m.gguf: 3 heads of 64 elements");
  EXPECT_EQ(refusal(fields("rope.dimension_count", 34)),
            "m.gguf: 'llama.rope.dimension_count' is 34 of 32 elements");
  EXPECT_EQ(refusal(fields("expert_count", 8)), "m.gguf: a mixture of 8 experts");
  EXPECT_EQ(refusal(fields().number("llama.rope.freq_base", -1)),
            "m.gguf: 'llama.rope.freq_base' is -1, not a positive number");
  EXPECT_EQ(refusal(fields().text("llama.rope.scaling.type", "yarn")),
            "m.gguf: 'llama.rope.scaling.type' is yarn");
  EXPECT_EQ(refusal(Writer()), "m.gguf: there is no 'general.architecture'");
  EXPECT_EQ(
      refusal(Writer().text("general.architecture", "mamba")),
      "m.gguf: models of the family mamba; those of gemma, gemma2, gemma3, llama, phi3, qwen2, "
      "qwen3, smollm3 are known");
}

// The second has no metadata but its number.
TEST(ToModel, PartsOfAModelAreRefused) {
  EXPECT_EQ(refusal(Writer().integer("split.count", 3)),
            "m.gguf: one of 3 files of a model; join them, for instance with `llama-gguf-split "
            "--merge FIRST WHOLE`");
  EXPECT_TRUE(read_architecture(parse(fields().integer("split.count", 1).str())).ok());
}

TEST(ToModel, LayersWithWindowsHavePositionsOfTheirOwn) {
  TinyDecoder d{.family = "gemma3", .layers = 7, .window = 5, .base = 500, .rope_scale = 8};
  const auto read = [&] { return read_architecture(parse(write_decoder(d))); };
  const auto a = read();
  ASSERT_TRUE(a.ok()) << a.error().message;
  EXPECT_EQ(a->local_rope_base, 10000);
  EXPECT_EQ(a->rope_scale, 8);
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(a->is_local(i), i != 5) << i;
    EXPECT_TRUE(a->rotates(i));
  }
  d.metadata = [](Writer& w) { w.number("gemma3.rope.freq_base_swa", 20); };
  EXPECT_EQ(read()->local_rope_base, 20);
  d.metadata = [](Writer& w) { w.integer("gemma3.attention.sliding_window_pattern", 4); };
  EXPECT_EQ(read().error().message,
            "m.gguf: 'gemma3.attention.sliding_window_pattern' is 4, 6 in models of the family "
            "gemma3");
  d.metadata = [](Writer&) {};
  d.window = 0;
  EXPECT_EQ(read().error().message, "m.gguf: there is no 'gemma3.attention.sliding_window'");
  const auto smollm = read_architecture(parse(write_decoder({.family = "smollm3", .layers = 9})));
  ASSERT_TRUE(smollm.ok()) << smollm.error().message;
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(smollm->rotates(i), i != 3 && i != 7) << i;
}

TEST(ToModel, SaysWhichTensorIsMissingOrWrong) {
  EXPECT_EQ(refusal(fields()), "m.gguf: there is no tensor 'blk.0.attn_norm.weight'");
  EXPECT_EQ(refusal(fields().floats("blk.0.attn_norm.weight", {2}, {1, 1})),
            "m.gguf: tensor 'blk.0.attn_norm.weight' is 2, 64 needed");
  Writer other = fields();
  other.tensor("blk.0.attn_norm.weight", {64}, 24, std::string(64, 'x'));
  EXPECT_EQ(refusal(other), "m.gguf: tensor 'blk.0.attn_norm.weight' has elements of type I8");
  EXPECT_EQ(refusal(fields().floats("rope_freqs.weight", {3}, {1, 1, 1})),
            "m.gguf: tensor 'rope_freqs.weight' has 3 elements, 16 needed");
  EXPECT_EQ(refusal(fields().floats("rope_freqs.weight", {16}, std::vector<float>(16, 0))),
            "m.gguf: tensor 'rope_freqs.weight' has an element of 0");
}

TEST(ToModel, ScalesOfPositionsAreRead) {
  const auto llama3 = read_architecture(
      parse(fields().floats("rope_freqs.weight", {16}, std::vector<float>(16, 8)).str()));
  ASSERT_TRUE(llama3.ok()) << llama3.error().message;
  EXPECT_EQ(llama3->frequency_divisors, std::vector<float>(16, 8));
  Writer linear = fields();
  linear.text("llama.rope.scaling.type", "linear").number("llama.rope.scaling.factor", 4);
  EXPECT_EQ(read_architecture(parse(linear.str()))->rope_scale, 4);
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const auto old = read_architecture(parse(fields().number(key, 4).str()));
    ASSERT_TRUE(old.ok()) << old.error().message;
    EXPECT_EQ(old->rope_scale, 4) << key;
  }
  EXPECT_EQ(read_architecture(parse(fields().str()))->rope_scale, 1);
  Writer longer = fields();
  longer.text("llama.rope.scaling.type", "longrope");
  longer.integer("llama.rope.scaling.original_context_length", 5);
  longer.floats("rope_factors_long.weight", {16}, std::vector<float>(16, 9));
  longer.floats("rope_factors_short.weight", {16}, std::vector<float>(16, 2));
  const auto both = read_architecture(parse(longer.str()));
  EXPECT_EQ(both->context, 5);
  EXPECT_EQ(both->frequency_divisors, std::vector<float>(16, 2));
}

TEST(ToModel, ScoresAreScaledAsTheFamilyDoes) {
  TinyDecoder d{.family = "gemma2", .layers = 2, .head = 24};
  const auto scale = [&] { return read_architecture(parse(write_decoder(d)))->score_scale; };
  EXPECT_EQ(scale(), 1 / std::sqrt(24.0));
  d.layers = 46;
  EXPECT_EQ(scale(), 1 / std::sqrt(16.0)) << "64 elements, 4 heads";
  d.family = "gemma3";
  d.layers = 62;
  d.window = 5;
  EXPECT_EQ(scale(), 1 / std::sqrt(16.0));
  d.family = "llama";
  EXPECT_EQ(scale(), 1 / std::sqrt(24.0));
}

// An outline has the nodes, types and shapes of the model, and the values of what is small.
TEST(ToModel, OutlinesLeaveLargeValuesInTheFile) {
  for (const char* blocks : {"F32", "Q4_1"}) {
    TinyDecoder d;
    d.blocks = blocks;
    d.words = 2200;
    const File file = parse(write_decoder(d));
    const auto whole = to_model(file), outline = to_model(file, Values::kLeft);
    ASSERT_TRUE(whole.ok() && outline.ok());
    ASSERT_EQ(whole->graph.initializers.size(), outline->graph.initializers.size());
    int left = 0;
    for (std::size_t i = 0; i < whole->graph.initializers.size(); ++i) {
      const auto &a = std::get<HostTensor>(whole->graph.initializers[i].value),
                 &b = std::get<HostTensor>(outline->graph.initializers[i].value);
      const std::string& name = whole->graph.initializers[i].name;
      EXPECT_EQ(a.shape(), b.shape()) << name;
      EXPECT_EQ(a.dtype(), b.dtype());
      const bool large = a.bytes() > onnx::kOutlineBytes;
      EXPECT_EQ(b.is_view(), large) << name;
      left += large ? 1 : 0;
      // Scales beside what is left, too.
      if (large || name.starts_with("token_embd") || name.starts_with("output.weight")) continue;
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << name;
    }
    EXPECT_GE(left, 2);
  }
}

// Weights of a few bits stay weights of a few bits, those of one kind in one product.
TEST(ToModel, BlocksBecomeProductsOfFewBits) {
  TinyDecoder d;
  d.blocks = "Q4_1";
  const auto model = to_model(parse(write_decoder(d)));
  ASSERT_TRUE(model.ok());
  std::vector<std::int64_t> rows;
  for (const onnx::Node& node : model->graph.nodes) {
    if (node.op_type != "MatMulOffsetNBits") continue;
    rows.push_back(std::get<std::int64_t>(node.find("N")->value));
    EXPECT_EQ(std::get<std::int64_t>(node.find("bits")->value), 4);
  }
  EXPECT_EQ(rows, (std::vector<std::int64_t>{128, 64, 192, 64, 128, 64, 192, 64, 40}));
}

// Byte i has elements 2 i and 2 i + 1, the file's those of i and i + 16.
TEST(Weights, NibblesLieSideBySide) {
  std::string block(18, '\0');
  for (int i = 0; i < 16; ++i)
    block[static_cast<std::size_t>(2 + i)] = static_cast<char>(i | (15 - i) << 4);
  const File file = parse(Writer().tensor("t", {1, 32}, 2, block).str());
  const Grouped g = grouped({file.find_tensor("t")}, file, Values::kRead);
  EXPECT_EQ(g.bits, 4);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(g.q.get_int(i), (2 * i) | (2 * i + 1) << 4);
    EXPECT_EQ(g.q.get_int(8 + i), (15 - 2 * i) | (14 - 2 * i) << 4);
  }
  EXPECT_FALSE(g.has_offset());
}

}  // namespace
}  // namespace tessera::gguf
