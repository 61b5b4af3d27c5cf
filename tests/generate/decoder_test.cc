#include "tessera/app/generate/decoder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tessera/machine/target/target.h"
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

void expect_near(std::span<const float> got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  EXPECT_GT(largest, 0.01);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], kRelative * (largest + 1)) << "word " << i;
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
