#include "tessera/app/generate/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/app/generate/bench_text.h"
#include "tessera/app/generate/memory_file.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/safetensors.h"
#include "tessera/support/temporary_folder.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::app {
namespace {

using testing::ReferenceDecoder;
using testing::TinyDecoder;

// Sums of a few hundred products in f32, twice as often as there are layers.
constexpr double kRelative = 2e-4;

class DecoderTest : public ::testing::Test {
 protected:
  DecoderTest() : folder_(TemporaryFolder::make("decoder").value()) {
    options_.compile.target = target::code_target(target::host(), 1);
  }

  std::string save(const TinyDecoder& d) const { return save(testing::write_decoder(d)); }
  std::string save(const std::string& bytes) const {
    const std::string path = folder_.path() + "/m.gguf";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Decoder open(const TinyDecoder& d) const {
    auto decoder = Decoder::open(save(d), options_);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return std::move(*decoder);
  }

  TemporaryFolder folder_;
  DecoderOptions options_;
};

std::vector<std::int32_t> words(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> out;
  Rng rng(3);
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int32_t>(rng.below(vocabulary)));
  return out;
}

void expect_near(std::span<const float> got, const std::vector<double>& want,
                 double relative = kRelative) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  EXPECT_GT(largest, 0.01);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], relative * (largest + 1)) << "word " << i;
}

// Each token by itself, all of them at once, and a few at a time.
void expect_reference(Decoder& decoder, const TinyDecoder& d, std::int64_t count) {
  const std::vector<std::int32_t> tokens = words(count, d.words);
  ReferenceDecoder reference(d, decoder.file());
  std::vector<std::vector<double>> want;
  for (const std::int32_t t : tokens) want.push_back(reference.step(t));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto got = decoder.step({&tokens[i], 1});
    ASSERT_TRUE(got.ok()) << got.error().message;
    expect_near(*got, want[i]);
  }
  for (const std::size_t at_once : {tokens.size(), std::size_t{13}}) {
    decoder.reset();
    for (std::size_t i = 0; i < tokens.size(); i += at_once) {
      const std::size_t part = std::min(at_once, tokens.size() - i);
      const auto got = decoder.step(std::span(tokens).subspan(i, part));
      ASSERT_TRUE(got.ok()) << got.error().message;
      expect_near(*got, want[i + part - 1]);
    }
    EXPECT_EQ(decoder.position(), count);
  }
}

// The decoder has read the first `at` tokens and reads the others.
void expect_continues(Decoder& decoder, const TinyDecoder& d,
                      const std::vector<std::int32_t>& tokens, std::size_t at) {
  ReferenceDecoder reference(d, decoder.file());
  std::vector<double> want;
  for (const std::int32_t t : tokens) want = reference.step(t);
  const auto got = decoder.step(std::span(tokens).subspan(at));
  ASSERT_TRUE(got.ok()) << got.error().message;
  expect_near(*got, want);
}

TEST_F(DecoderTest, LlamaAgreesWithTheLoops) {
  for (const char* blocks : {"F32", "Q4_0", "Q4_1", "Q8_0"}) {
    SCOPED_TRACE(blocks);
    TinyDecoder d;
    d.blocks = blocks;
    d.head_matrix = d.blocks != "Q4_1";  // once with a head that is the table of words
    Decoder decoder = open(d);
    EXPECT_EQ(decoder.vocabulary(), d.words);
    expect_reference(decoder, d, 30);
  }
}

// Chunks and single tokens, of odd numbers of columns and rows.
TEST_F(DecoderTest, RoundedProductsStayNearTheLoops) {
  options_.compile.rounding = graph::Rounding::kAlways;
  for (const char* blocks : {"Q4_0", "Q4_1", "Q8_0"}) {
    SCOPED_TRACE(blocks);
    TinyDecoder d;
    d.blocks = blocks;
    d.words = 43;
    Decoder decoder = open(d);
    const std::vector<std::int32_t> tokens = words(20, d.words);
    ReferenceDecoder reference(d, decoder.file());
    std::vector<double> want;
    for (const std::int32_t t : tokens) want = reference.step(t);
    constexpr double kOfBytes = 0.03;
    const auto all = decoder.step(tokens);
    ASSERT_TRUE(all.ok()) << all.error().message;
    expect_near(*all, want, kOfBytes);
    const std::vector<float> at_once(all->begin(), all->end());
    decoder.reset();
    std::span<const float> last;
    for (const std::int32_t t : tokens) {
      const auto got = decoder.step({&t, 1});
      ASSERT_TRUE(got.ok()) << got.error().message;
      last = *got;
    }
    expect_near(last, want, kOfBytes);
    expect_near(last, {at_once.begin(), at_once.end()}, kOfBytes);
  }
}

TEST_F(DecoderTest, OtherFamiliesAgreeWithTheLoops) {
  const std::vector<TinyDecoder> families = {
      {.family = "qwen2", .biases = true, .halves = true},
      {.family = "qwen3", .head = 24, .head_norms = true, .halves = true},
      {.family = "phi3", .blocks = "Q4_0", .joined = true, .halves = true},
      {.family = "gemma", .kv_heads = 1, .halves = true, .gelu = true, .scaled_input = true},
      {.family = "gemma2",
       .post_norms = true,
       .halves = true,
       .gelu = true,
       .scaled_input = true,
       .score_cap = 2,
       .logit_cap = 3,
       .window = 11},
      {.family = "gemma3",
       .layers = 7,
       .head_norms = true,
       .post_norms = true,
       .halves = true,
       .gelu = true,
       .scaled_input = true,
       .window = 7,
       .whole_every = 6,
       .base = 500,
       .rope_scale = 3},
      {.family = "smollm3", .layers = 5, .unrotated_every = 4},
  };
  for (const TinyDecoder& d : families) {
    SCOPED_TRACE(d.family);
    Decoder decoder = open(d);
    expect_reference(decoder, d, 30);
  }
}

TEST_F(DecoderTest, MemoryGrowsUpToTheCapacity) {
  TinyDecoder d;
  d.layers = 1;
  d.context = 300;
  Decoder decoder = open(d);
  EXPECT_EQ(decoder.capacity(), 300);
  expect_reference(decoder, d, 270);
  const std::vector<std::int32_t> more = words(31, d.words);
  EXPECT_EQ(decoder.step(more).error().message,
            "31 tokens behind 270 others: there is room for 300");
  EXPECT_EQ(decoder.position(), 270);
  EXPECT_TRUE(decoder.step(std::span(more).first(30)).ok());
}

TEST_F(DecoderTest, ForgetsWhatItIsToldTo) {
  TinyDecoder d;
  Decoder decoder = open(d);
  const std::vector<std::int32_t> tokens = words(12, d.words), others = {1, 2, 3, 4, 5, 6, 7};
  ReferenceDecoder reference(d, decoder.file());
  std::vector<double> want;
  for (const std::int32_t t : tokens) want = reference.step(t);
  ASSERT_TRUE(decoder.step(std::span(tokens).first(8)).ok());
  ASSERT_TRUE(decoder.step(others).ok());
  decoder.rewind(8);
  EXPECT_EQ(decoder.position(), 8);
  const auto got = decoder.step(std::span(tokens).subspan(8));
  ASSERT_TRUE(got.ok());
  expect_near(*got, want);
  decoder.rewind(99);
  EXPECT_EQ(decoder.position(), 12);
}

// The elements of a word that are no numbers become rows of the cache.
TEST_F(DecoderTest, ForgetsWhatWasNoNumber) {
  TinyDecoder d;
  d.context = 300;
  constexpr std::int32_t kBroken = 39;
  std::string bytes = testing::write_decoder(d);
  {
    const auto view = std::make_shared<const std::string>(bytes);
    const gguf::File file = gguf::File::parse(*view, view, "m").value();
    const std::string_view table = file.find_tensor("token_embd.weight")->bytes;
    const float none = std::nanf("");
    std::memcpy(bytes.data() + (table.data() - view->data()) +
                    static_cast<std::size_t>(kBroken * d.hidden) * sizeof(float),
                &none, sizeof(none));
  }
  auto decoder = Decoder::open(save(bytes), options_);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const std::vector<std::int32_t> tokens = words(20, kBroken);
  const std::vector<std::int32_t> broken(9, kBroken);
  for (const bool at_once : {true, false}) {
    SCOPED_TRACE(at_once);
    ASSERT_TRUE(decoder->step(std::span(tokens).first(5)).ok());
    for (std::size_t i = 0; i < broken.size(); i += at_once ? 9 : 1)
      ASSERT_TRUE(decoder->step(std::span(broken).subspan(i, at_once ? 9 : 1)).ok());
    const auto spoiled = decoder->step({&tokens[0], 1});
    ASSERT_TRUE(spoiled.ok());
    EXPECT_TRUE(std::isnan((*spoiled)[0])) << "or this is no test";
    decoder->rewind(5);
    expect_continues(*decoder, d, tokens, 5);
    decoder->reset();
  }
  const NamedTensors empty = [&] {
    EXPECT_TRUE(decoder->step({&tokens[0], 1}).ok());
    return decoder->memory();
  }();
  ASSERT_TRUE(decoder->step(broken).ok());
  ASSERT_TRUE(decoder->restore(empty, 1).ok());
  expect_continues(*decoder, d, tokens, 1);
}

// Chunks have at most another order of the weights that single tokens read, of as few bits; as
// floats they would take four to eight times the bytes.
TEST_F(DecoderTest, ChunksReadNoWideWeights) {
  for (const char* blocks : {"Q4_0", "Q4_1", "Q8_0"}) {
    for (const graph::Rounding rounding : {graph::Rounding::kNever, graph::Rounding::kAlways}) {
      SCOPED_TRACE(std::string(blocks) +
                   (rounding == graph::Rounding::kNever ? " float" : " int8"));
      TinyDecoder d;
      d.blocks = blocks;
      d.layers = 1;
      d.hidden = 256;
      d.ffn = 512;
      d.heads = 16;
      d.kv_heads = 4;
      options_.compile.rounding = rounding;
      Decoder decoder = open(d);
      EXPECT_EQ(decoder.weight_bytes(), 0);
      const std::vector<std::int32_t> tokens = words(20, d.words);
      ASSERT_TRUE(decoder.step(std::span(tokens).first(1)).ok());
      const std::int64_t one = decoder.weight_bytes();
      ASSERT_TRUE(decoder.step(tokens).ok());
      EXPECT_GT(one, std::int64_t{256} * 512 * 3 / 2);
      EXPECT_LT(decoder.weight_bytes(), 2 * one);
    }
  }
}

TEST_F(DecoderTest, GivesTheLogitsOfEachToken) {
  options_.each = 4;
  TinyDecoder d;
  d.context = 300;
  Decoder decoder = open(d);
  const std::vector<std::int32_t> tokens = words(270, d.words);
  ReferenceDecoder reference(d, decoder.file());
  for (std::size_t at = 0, n = 1; at < tokens.size(); at += n, n = n % 4 + 1) {
    n = std::min(n, tokens.size() - at);
    const auto got = decoder.step_each(std::span(tokens).subspan(at, n));
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ(got->size(), n * static_cast<std::size_t>(d.words));
    for (std::size_t i = 0; i < n; ++i) {
      expect_near(
          got->subspan(i * static_cast<std::size_t>(d.words), static_cast<std::size_t>(d.words)),
          reference.step(tokens[at + i]));
    }
  }
  EXPECT_EQ(decoder.position(), 270);
  EXPECT_EQ(decoder.step_each(std::span(tokens).first(5)).error().message,
            "5 tokens with logits each, 4 at most");
  EXPECT_FALSE(decoder.step_each({}).ok());
  ASSERT_TRUE(decoder.step(std::span(tokens).first(28)).ok());
  EXPECT_EQ(decoder.step_each(std::span(tokens).first(3)).error().message,
            "3 tokens behind 298 others: there is room for 300");
}

TEST_F(DecoderTest, AnotherOneHasItsOwnMemory) {
  TinyDecoder d;
  Decoder decoder = open(d);
  const std::vector<std::int32_t> tokens = words(20, d.words), others = {5, 6, 7};
  ASSERT_TRUE(decoder.step(std::span(tokens).first(9)).ok());
  std::optional<Decoder> another;
  {
    auto made = decoder.another();
    ASSERT_TRUE(made.ok()) << made.error().message;
    another.emplace(std::move(*made));
  }
  EXPECT_EQ(another->position(), 0);
  std::thread thread([&] {
    for (const std::int32_t t : others) EXPECT_TRUE(another->step({&t, 1}).ok());
  });
  expect_continues(decoder, d, tokens, 9);
  thread.join();
  EXPECT_EQ(another->position(), 3);
  another->reset();
  decoder = open(d);  // the first of the two is gone
  expect_continues(*another, d, tokens, 0);
}

TEST_F(DecoderTest, MemoryIsKeptInFiles) {
  TinyDecoder d;
  Decoder decoder = open(d);
  const std::vector<std::int32_t> tokens = words(20, d.words);
  ASSERT_TRUE(decoder.step(std::span(tokens).first(12)).ok());
  const std::string file = folder_.path() + "/memory.safetensors";
  const std::vector<std::int32_t> first(tokens.begin(), tokens.begin() + 12);
  ASSERT_TRUE(save_memory(file, decoder, first, "this").ok());
  const auto want = decoder.step(std::span(tokens).subspan(12));
  ASSERT_TRUE(want.ok());
  const std::vector<float> logits(want->begin(), want->end());

  Decoder other = open(d);
  ASSERT_TRUE(other.step(std::span(tokens).last(3)).ok());
  const auto loaded = load_memory(file, other, "this");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(*loaded, first);
  EXPECT_EQ(other.position(), 12);
  const auto got = other.step(std::span(tokens).subspan(12));
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(std::ranges::equal(*got, logits));

  EXPECT_EQ(load_memory(file, other, "that").error().message, file + ": of another model");
  EXPECT_EQ(other.position(), 20) << "nothing was changed";
  TinyDecoder wider = d;
  wider.kv_heads = 4;
  Decoder third = open(wider);
  EXPECT_EQ(load_memory(file, third, "this").error().message,
            file + ": tensor 'past_key_values.0.key' is f32 2x12x16, f32 4x12x16 needed");
  TinyDecoder longer = d;
  longer.layers = 3;
  Decoder fourth = open(longer);
  EXPECT_EQ(load_memory(file, fourth, "this").error().message,
            file + ": there is no tensor 'past_key_values.2.key'");
  options_.capacity = 5;
  Decoder small = open(d);
  EXPECT_EQ(load_memory(file, small, "this").error().message,
            file + ": 12 tokens: there is room for 5");
  ASSERT_TRUE(third.step(std::span(tokens).first(2)).ok());
  NamedTensors broken = third.memory();
  for (NamedTensor& t : broken) t.tensor.set_float(5, std::nan(""));
  EXPECT_EQ(third.restore(broken, 2).error().message,
            "tensor 'past_key_values.0.key' has elements that are not finite");
  ASSERT_TRUE(write_safetensors(file, {}).ok());
  EXPECT_EQ(load_memory(file, other, "this").error().message,
            file + ": not what --save-cache writes");
}

TEST_F(DecoderTest, RefusesWhatIsNoToken) {
  TinyDecoder d;
  Decoder decoder = open(d);
  EXPECT_EQ(decoder.step({}).error().message, "no tokens");
  const std::vector<std::int32_t> wrong = {1, 40};
  EXPECT_EQ(decoder.step(wrong).error().message, "the model has 40 tokens, not 40");
  EXPECT_EQ(decoder.position(), 0);
  EXPECT_FALSE(decoder.warm_up(1001).ok());
  EXPECT_TRUE(decoder.warm_up(20).ok());
}

TEST_F(DecoderTest, IsTimed) {
  Decoder decoder = open(TinyDecoder{});
  const TextBenchOptions options{.prompt = 20, .tokens = 3, .samples = 2};
  const auto bench = bench_text(decoder, options);
  ASSERT_TRUE(bench.ok()) << bench.error().message;
  EXPECT_EQ(bench->samples.size(), 2U);
  EXPECT_EQ(decoder.position(), 23);
  EXPECT_GT(bench->first_token_s(), 0);
  EXPECT_GT(bench->prompt_tokens_per_s(options), 0);
  EXPECT_GT(bench->decode_tokens_per_s(options), 0);
  EXPECT_EQ(bench->weight_bytes, decoder.weight_bytes());
  EXPECT_GT(bench->resident_bytes, bench->weight_bytes);
  const auto once = bench_text(decoder, {.prompt = 1, .tokens = 1, .time_limit_s = 0});
  ASSERT_TRUE(once.ok()) << once.error().message;
  EXPECT_EQ(once->samples.size(), 1U) << "one in any case";
  EXPECT_EQ(bench_text(decoder, {.prompt = 900, .tokens = 101}).error().message,
            "101 tokens behind 900: there is room for 1000");
  EXPECT_FALSE(bench_text(decoder, {.prompt = 0}).ok());
}

TEST_F(DecoderTest, RefusesFilesThatAreNoDecoders) {
  EXPECT_NE(Decoder::open(save("GGUF"), options_).error().message.find("the file ends"),
            std::string::npos);
  EXPECT_EQ(Decoder::open(folder_.path() + "/none", options_).error().code, ErrorCode::kIo);
  DecoderOptions none = options_;
  none.chunk = 1;
  EXPECT_EQ(Decoder::open(save(TinyDecoder{}), none).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::app
