#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/frontend/tokenizer/tokenizer.h"

namespace tessera::tokenizer {
namespace {

using Json = nlohmann::json;

const Json& cases() {
  static const Json parsed = [] {
    std::ifstream in(TESSERA_ROOT "/tests/tokenizer/cases.json");
    return Json::parse(in, nullptr, false);
  }();
  return parsed;
}

Result<Tokenizer> tokenizer_of(const Json& file) {
  TESSERA_TRY(Vocabulary vocabulary, parse_tokenizer_json(file.dump()));
  return Tokenizer::make(std::move(vocabulary));
}

// What the package tokenizers says of the same vocabularies and texts (make_cases.py).
TEST(TokenizerJson, AgreesWithTheReference) {
  ASSERT_TRUE(cases().is_object());
  for (const Json& each : cases()["cases"]) {
    const Result<Tokenizer> tokenizer = tokenizer_of(each["tokenizer"]);
    ASSERT_TRUE(tokenizer.ok()) << each["name"] << ": " << tokenizer.error().message;
    for (std::size_t i = 0; i < cases()["texts"].size(); ++i) {
      const auto text = cases()["texts"][i].get<std::string>();
      // The reference permits control tokens everywhere.
      const Part part{text, true};
      const Result<std::vector<Token>> got = tokenizer->encode(std::span(&part, 1));
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_EQ(*got, each["ids"][i].get<std::vector<Token>>()) << each["name"] << ": " << text;
      const Json& decoded = each["decoded"][i];
      EXPECT_EQ(tokenizer->decode(*got), decoded.is_null() ? text : decoded.get<std::string>())
          << each["name"] << ": " << text;
    }
  }
}

TEST(TokenizerJson, SplitsOfTheSameNameAsInGgufFiles) {
  int named = 0;
  for (const Json& each : cases()["cases"]) {
    const Result<NamedSplits> splits = splits_named(each["name"].get<std::string>());
    if (!splits.ok()) continue;
    ++named;
    Result<Vocabulary> vocabulary = parse_tokenizer_json(each["tokenizer"].dump());
    ASSERT_TRUE(vocabulary.ok());
    vocabulary->splits = splits->splits;
    EXPECT_EQ(vocabulary->whole_words, splits->whole_words) << each["name"];
    const Result<Tokenizer> tokenizer = Tokenizer::make(*vocabulary);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    for (std::size_t i = 0; i < cases()["texts"].size(); ++i) {
      const auto text = cases()["texts"][i].get<std::string>();
      const Part part{text, true};
      EXPECT_EQ(*tokenizer->encode(std::span(&part, 1)), each["ids"][i].get<std::vector<Token>>())
          << each["name"] << ": " << text;
    }
  }
  EXPECT_EQ(named, 6);
  const Result<NamedSplits> none = splits_named("qwen3");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("did you mean 'qwen2'?"), std::string::npos)
      << none.error().message;
}

// The byte-level case with one change, or the reason why it is refused.
std::string refusal(const std::function<void(Json&)>& change) {
  Json file = cases()["cases"][0]["tokenizer"];
  change(file);
  const Result<Tokenizer> tokenizer = tokenizer_of(file);
  return tokenizer.ok() ? "accepted" : tokenizer.error().message;
}

TEST(TokenizerJson, RefusesWhatItCannotDoExactly) {
  const auto expect = [](const std::function<void(Json&)>& change, const std::string& reason) {
    EXPECT_NE(refusal(change).find(reason), std::string::npos) << refusal(change);
  };
  EXPECT_EQ(refusal([](Json&) {}), "accepted");
  expect(
      [](Json& f) {
        f["normalizer"] = {{"type", "NFKC"}};
      },
      "the normalizer {\"type\":\"NFKC\"}");
  expect([](Json& f) { f["pre_tokenizer"] = {{"type", "Bert"}}; }, "the pre-tokenizer");
  expect([](Json& f) { f["pre_tokenizer"] = nullptr; }, "neither is byte-level nor marks spaces");
  expect([](Json& f) { f["post_processor"] = {{"type", "Bert"}}; }, "the post-processor");
  expect([](Json& f) { f["model"]["type"] = "WordLevel"; }, "models of type 'WordLevel'");
  expect([](Json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout");
  expect([](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix");
  expect([](Json& f) { f["model"]["vocab"] = 3; }, "model.vocab is not an object");
  expect([](Json& f) { f["model"]["merges"] = 3; }, "model.merges is not an array");
  expect([](Json& f) { f["model"]["merges"][0] = 3; }, "neither a text nor two: 3");
  expect([](Json& f) { f["model"]["merges"][0] = {"a b", "c"}; }, "which have spaces");
  expect([](Json& f) { f["model"]["merges"][0] = "ab"; },
         "merge 0 of the vocabulary, 'ab', is not a pair");
  expect([](Json& f) { f["model"]["merges"][0] = "a 中"; },
         "needs the token '中', which is missing");
  expect([](Json& f) { f["model"]["vocab"]["x1"] = -1; }, "has the number -1");
  expect([](Json& f) { f["model"]["vocab"]["x1"] = 1e12; }, "has the number");
  expect([](Json& f) { f["model"]["vocab"]["x1"] = std::int64_t{1} << 40; },
         "has the number 1099511627776");
  expect([](Json& f) { f["model"]["vocab"]["x1"] = 5; }, "have the same number");
  expect([](Json& f) { f["model"]["vocab"]["x1"] = 100000; }, "no token has the number");
  expect([](Json& f) { f["model"]["unk_token"] = "<no>"; },
         "no token '<no>', which it gives a role");
  expect([](Json& f) { f["added_tokens"][0]["single_word"] = true; }, "only between words");
  expect([](Json& f) { f["added_tokens"][0]["content"] = "!"; }, "have the same number");
  expect(
      [](Json& f) {
        f["model"]["vocab"] = Json::object(), f["added_tokens"] = nullptr,
        f["model"]["merges"] = Json::array();
      },
      "the vocabulary is empty");
  expect(
      [](Json& f) {
        f["normalizer"] = {{"type", "Sequence"},
                           {"normalizers", {{{"type", "BertNormalizer"}}, {{"type", "NFC"}}}}};
      },
      "the normalizer NFC behind others");
  expect(
      [](Json& f) {
        f["post_processor"] = {{"type", "BertProcessing"}, {"cls", 3}};
      },
      "a token with a role is not a text with a number: 3");
  expect([](Json& f) { f["model"]["type"] = "WordPiece"; }, "a byte-level vocabulary of type");
  expect(
      [](Json& f) {
        f["model"]["type"] = "WordPiece";
        f["model"]["unk_token"] = nullptr;
        f["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
      },
      "the vocabulary has no token for unknown words");
  EXPECT_EQ(parse_tokenizer_json(std::string(1 << 20, '[')).error().message,
            "tokenizer.json: it is nested more than 64 deep");
  EXPECT_NE(parse_tokenizer_json("{").error().message.find("it is not JSON"), std::string::npos);
  EXPECT_NE(parse_tokenizer_json("[]").error().message.find("it is not an object"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::tokenizer
