#include "tessera/app/generate/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/gguf/gguf_writer.h"

namespace tessera::app {
namespace {

using gguf::testing::Bytes;
using gguf::testing::Writer;

struct Fields {
  std::string model = "gpt2", pre = "llama-bpe";
  std::vector<std::string> tokens = {"a", "b", "ab", "<|eot_id|>", "</s>"};
  std::vector<std::int32_t> kinds = {0, 1, 1, 3, 1};
  std::vector<float> scores;
  std::vector<std::string> merges = {"a b"};
  std::function<void(Writer&)> more = [](Writer&) {};
};

template <class T>
std::string array_of(std::uint32_t type, const std::vector<T>& values) {
  Bytes b;
  b.add(type).add<std::uint64_t>(values.size());
  for (const T& v : values) b.add(v);
  return b.str();
}

Result<tokenizer::Vocabulary> read(const Fields& f) {
  Writer w;
  if (!f.model.empty()) w.text("tokenizer.ggml.model", f.model);
  if (!f.pre.empty()) w.text("tokenizer.ggml.pre", f.pre);
  w.texts("tokenizer.ggml.tokens", f.tokens);
  w.entry("tokenizer.ggml.token_type", 9, array_of<std::int32_t>(5, f.kinds));
  if (!f.scores.empty()) w.entry("tokenizer.ggml.scores", 9, array_of<float>(6, f.scores));
  w.texts("tokenizer.ggml.merges", f.merges);
  f.more(w);
  const auto bytes = std::make_shared<std::string>(w.str());
  TESSERA_TRY(const gguf::File file, gguf::File::parse(*bytes, bytes, "m.gguf"));
  return gguf_vocabulary(file);
}

TEST(GgufVocabulary, BytePairs) {
  const auto v = read({.more = [](Writer& w) {
    w.integer("tokenizer.ggml.bos_token_id", 3).integer("tokenizer.ggml.eos_token_id", 4);
    w.integer("tokenizer.ggml.padding_token_id", 0xffffffff);
    w.integer("tokenizer.ggml.unknown_token_id", 0);
  }});
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->algorithm, tokenizer::Algorithm::kBytePairs);
  EXPECT_EQ(v->kinds[0], tokenizer::TokenKind::kNormal) << "as 0 is meant";
  EXPECT_EQ(v->kinds[3], tokenizer::TokenKind::kControl);
  EXPECT_EQ(v->begin, std::optional<tokenizer::Token>(3));
  EXPECT_EQ(v->padding, std::nullopt);
  EXPECT_EQ(v->unknown, std::nullopt) << "bytes without a token are left out";
  EXPECT_EQ(v->also_end, std::vector<tokenizer::Token>{3}) << "control tokens alone";
  const auto defined = read({.kinds = {0, 4, 1, 4, 4}});
  EXPECT_EQ(defined->also_end, (std::vector<tokenizer::Token>{3, 4})) << "and what users define";
  EXPECT_EQ(defined->kinds[1], tokenizer::TokenKind::kUserDefined);
  EXPECT_EQ(defined->kinds[3], tokenizer::TokenKind::kControl) << "plain text in a user's words";
  EXPECT_TRUE(v->add_begin && v->whole_words);
  EXPECT_EQ(v->splits.size(), 1u);
  const auto without =
      read({.more = [](Writer& w) { w.flag("tokenizer.ggml.add_bos_token", false); }});
  EXPECT_FALSE(without->add_begin);
  for (const char* pre : {"tekken", "pixtral", "falcon3"})
    EXPECT_TRUE(read({.pre = pre})->add_begin) << pre;
  for (const char* pre : {"gpt-2", "qwen2", "smollm", ""})
    EXPECT_FALSE(read({.pre = pre})->add_begin) << pre;
}

TEST(GgufVocabulary, Scores) {
  const auto v = read({.model = "llama", .pre = "", .scores = {0, -1, -2, -3, -4}});
  ASSERT_TRUE(v.ok()) << v.error().message;
  EXPECT_EQ(v->algorithm, tokenizer::Algorithm::kPieces);
  EXPECT_EQ(v->space_before, tokenizer::SpaceBefore::kEach);
  EXPECT_TRUE(v->add_begin && v->bytes_for_unknown && v->merges.empty());
  const auto unigram = read({.model = "t5", .pre = "", .scores = {0, -1, -2, -3, -4}});
  EXPECT_EQ(unigram->algorithm, tokenizer::Algorithm::kUnigram);
  EXPECT_FALSE(unigram->add_begin);
}

TEST(GgufVocabulary, SaysWhatIsWrong) {
  const auto reason = [](const Fields& f) {
    const auto v = read(f);
    return v.ok() ? "accepted" : v.error().message;
  };
  EXPECT_NE(reason({.model = ""}).find("tokenizer.ggml.model"), std::string::npos);
  EXPECT_EQ(reason({.model = "bert"}),
            "m.gguf: tokenizer.ggml.model 'bert' is not supported; gpt2, llama and t5 are");
  EXPECT_NE(reason({.pre = "llama4x"}).find("m.gguf: the way to split text"), std::string::npos);
  EXPECT_NE(reason({.kinds = {9}}).find("token_type has the kind 9"), std::string::npos);
  EXPECT_NE(reason({.model = "llama"}).find("tokenizer.ggml.scores is missing"), std::string::npos);
  EXPECT_EQ(reason({.more = [](Writer& w) { w.integer("tokenizer.ggml.eos_token_id", 5); }}),
            "m.gguf: tokenizer.ggml.eos_token_id is 5, but there are 5 tokens");
}

}  // namespace
}  // namespace tessera::app
