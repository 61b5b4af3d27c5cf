#include "tessera/frontend/tokenizer/tokenizer.h"

#include <chrono>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/rng.h"

namespace tessera::tokenizer {
namespace {

// All bytes, "in", "ing" and two control tokens.
Vocabulary byte_level() {
  Vocabulary v;
  for (int b = 0; b < 256; ++b)
    append_utf8(&v.tokens.emplace_back(), character_of_byte(static_cast<unsigned char>(b)));
  v.tokens.insert(v.tokens.end(), {"in", "ing", "<s>", "</s>", "<tool>"});
  v.kinds.assign(v.tokens.size(), TokenKind::kNormal);
  v.kinds[258] = v.kinds[259] = TokenKind::kControl;
  v.kinds[260] = TokenKind::kUserDefined;
  v.merges = {"i n", "in g"};
  v.begin = 258;
  v.end = 259;
  v.splits = {{kGpt2Pattern}};
  return v;
}

// Spaces marked, scores, bytes for the unknown.
Vocabulary scored(Algorithm algorithm) {
  Vocabulary v;
  v.algorithm = algorithm;
  const std::string space = "\xe2\x96\x81";
  v.tokens = {"<unk>", space, "a", "b", "ab", space + "a", space + "ab"};
  v.scores = {0, -9, -5, -5, -2, -3, -1};
  v.kinds.assign(v.tokens.size(), TokenKind::kNormal);
  v.kinds[0] = TokenKind::kUnknown;
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(fmt::format("<0x{:02X}>", b));
    v.scores.push_back(-100);
    v.kinds.push_back(TokenKind::kByte);
  }
  v.unknown = 0;
  v.bytes_for_unknown = true;
  v.space_before = SpaceBefore::kEach;
  return v;
}

Tokenizer made(Vocabulary v) {
  Result<Tokenizer> out = Tokenizer::make(std::move(v));
  EXPECT_TRUE(out.ok()) << out.error().message;
  return std::move(*out);
}

std::vector<Token> ids(const Tokenizer& tokenizer, std::string_view text) {
  Result<std::vector<Token>> out = tokenizer.encode(text);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return std::move(*out);
}

std::string refusal(const std::function<void(Vocabulary&)>& change) {
  Vocabulary v = byte_level();
  change(v);
  const Result<Tokenizer> out = Tokenizer::make(std::move(v));
  return out.ok() ? "accepted" : out.error().message;
}

TEST(Tokenizer, ControlTokensOnlyWherePermitted) {
  const Tokenizer t = made(byte_level());
  const Part parts[] = {{"<s>ing", true}, {"<s>", false}, {"</s>", true}};
  EXPECT_EQ(*t.encode(parts), (std::vector<Token>{258, 257, '<', 's', '>', 259}))
      << "bytes are their own tokens";
  const Part halves[] = {{"<", true}, {"s>", true}};
  EXPECT_EQ(t.encode(halves)->size(), 3u) << "not over the border of two parts";
  EXPECT_EQ(t.encode("a<tool>b")->size(), 3u) << "user-defined ones everywhere";
  EXPECT_EQ(t.decode(std::vector<Token>{258, 257, 260, 259, -1, 99999}), "ing<tool>");
  EXPECT_EQ(t.find("</s>"), std::optional<Token>(259));
  EXPECT_EQ(t.find("no"), std::nullopt);
  EXPECT_TRUE(t.is_end(259));
  EXPECT_FALSE(t.is_end(258));
}

TEST(Tokenizer, WordsReachOverParts) {
  const Tokenizer t = made(byte_level());
  const Part parts[] = {{"i", true}, {"ng", false}};
  EXPECT_EQ(*t.encode(parts), std::vector<Token>{257});
}

TEST(Tokenizer, TokensTakeTheSpacesBesideThem) {
  Vocabulary v = byte_level();
  v.takes_spaces_before = v.takes_spaces_behind = {260};
  const Tokenizer t = made(v);
  EXPECT_EQ(ids(t, "a \xc2\xa0\xe2\x80\x83 <tool> \xe3\x80\x80\n b"),
            (std::vector<Token>{'a', 260, 'b'}))
      << "spaces of all of Unicode on both sides";
  EXPECT_EQ(ids(t, "\xa0<tool>"), (std::vector<Token>{0xa0, 260})) << "no character, no space";
}

TEST(Tokenizer, AddsTheTokensOfAWholeText) {
  Vocabulary v = byte_level();
  v.add_begin = v.add_end = true;
  const Tokenizer t = made(v);
  EXPECT_EQ(ids(t, "ing"), (std::vector<Token>{258, 257, 259}));
  EXPECT_EQ(*t.encode("ing", false), std::vector<Token>{257});
  EXPECT_EQ(ids(t, ""), (std::vector<Token>{258, 259}));
}

TEST(Tokenizer, BytesWithoutATokenAreUnknownOrDropped) {
  Vocabulary v = byte_level();
  v.tokens[0xc3 /* the byte's token */] = "gone";
  EXPECT_EQ(made(v).encode("\xc3\xa9")->size(), 1u);
  v.unknown = 260;
  EXPECT_EQ(ids(made(v), "\xc3\xa9")[0], 260);
}

TEST(Tokenizer, MergesByScore) {
  const Tokenizer t = made(scored(Algorithm::kPieces));
  EXPECT_EQ(ids(t, "ab ab"), (std::vector<Token>{6, 6}));
  EXPECT_EQ(ids(t, "ba"), (std::vector<Token>{1, 3, 2}));
  EXPECT_EQ(ids(t, "\xc3\xa9"), (std::vector<Token>{1, 7 + 0xc3, 7 + 0xa9}));
  EXPECT_EQ(t.decode(ids(t, "ab \xc3\xa9 ba")), "ab \xc3\xa9 ba");
}

TEST(Tokenizer, NoSpaceIsReadBeforeATextThatContinuesAnother) {
  for (const SpaceBefore how :
       {SpaceBefore::kEach, SpaceBefore::kEachUnlessThere, SpaceBefore::kFirstUnlessThere}) {
    Vocabulary v = scored(Algorithm::kPieces);
    v.space_before = how;
    v.tokens.emplace_back("</s>");
    v.scores.push_back(0);
    v.kinds.push_back(TokenKind::kControl);
    const Tokenizer t = made(v);
    const auto end = static_cast<Token>(v.tokens.size() - 1);
    const Part parts[] = {{"b</s>b", true}};
    const bool each = how != SpaceBefore::kFirstUnlessThere;
    std::vector<Token> want = {3, end, 3};
    if (each) want.insert(want.begin() + 2, 1);
    EXPECT_EQ(*t.encode(parts, false, true), want) << "behind a mark as ever";
    want.insert(want.begin(), 1);
    EXPECT_EQ(*t.encode(parts, false), want);
  }
}

TEST(Tokenizer, TakesTheTokensOfTheGreatestScore) {
  const Tokenizer t = made(scored(Algorithm::kUnigram));
  EXPECT_EQ(ids(t, "ab ab"), (std::vector<Token>{6, 6}));
  EXPECT_EQ(ids(t, "b"), (std::vector<Token>{1, 3}));
  EXPECT_EQ(ids(t, "\xc3\xa9"), (std::vector<Token>{1, 7 + 0xc3, 7 + 0xa9}));
  Vocabulary v = scored(Algorithm::kUnigram);
  v.scores.clear();
  const Result<Tokenizer> none = Tokenizer::make(v);
  EXPECT_NE(none.error().message.find("no scores"), std::string::npos);
}

TEST(Tokenizer, UnknownNeighboursAreOneWhereTheVocabularySaysSo) {
  Vocabulary v = scored(Algorithm::kPieces);
  v.bytes_for_unknown = false;
  EXPECT_EQ(ids(made(v), "xy"), (std::vector<Token>{1, 0, 0}));
  v.fuse_unknown = true;
  EXPECT_EQ(ids(made(v), "xy"), (std::vector<Token>{1, 0}));
}

TEST(Tokenizer, AnyBytesSurvive) {
  const Tokenizer t = made(byte_level()), pieces = made(scored(Algorithm::kPieces));
  Rng rng(38);
  for (int run = 0; run < 200; ++run) {
    std::string text;
    for (std::int64_t i = rng.below(40); i > 0; --i)
      text.push_back(static_cast<char>(rng.chance(.5) ? rng.below(256) : rng.between(' ', 'z')));
    for (const Tokenizer* tokenizer : {&t, &pieces}) {
      std::string bytes;
      for (const Token token : ids(*tokenizer, text)) bytes += tokenizer->bytes(token);
      EXPECT_EQ(bytes, (tokenizer == &pieces && !text.empty() ? " " : "") + text);
    }
  }
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const Tokenizer t = made(byte_level());
  TextStream stream(t);
  std::vector<std::string> pieces;
  for (const Token token : ids(t,
                               "a\xf0\x9f\x98\x80"
                               "b\xe2\x82"))
    pieces.push_back(stream.push(token));
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "", "", "", "\xf0\x9f\x98\x80", "b", "", ""}));
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(stream.finish(), "");
  const Tokenizer spaces = made(scored(Algorithm::kPieces));
  EXPECT_EQ(TextStream(spaces).push(6), "ab");
  EXPECT_EQ(TextStream(spaces, true).push(6), " ab");
}

TEST(Tokenizer, RefusesVocabulariesThatDoNotFit) {
  const auto expect = [](const std::function<void(Vocabulary&)>& change,
                         const std::string& reason) {
    EXPECT_NE(refusal(change).find(reason), std::string::npos) << refusal(change);
  };
  EXPECT_EQ(refusal([](Vocabulary&) {}), "accepted");
  expect([](Vocabulary& v) { v.tokens.clear(), v.kinds.clear(); }, "the vocabulary is empty");
  EXPECT_EQ(refusal([](Vocabulary& v) { v.tokens[2] = v.tokens[3] = ""; }), "accepted")
      << "tokens without a text may be several";
  expect([](Vocabulary& v) { v.tokens[3] = v.tokens[2]; },
         "tokens 2 and 3 of the vocabulary are both");
  expect([](Vocabulary& v) { v.tokens[3].assign(2000, 'x'); },
         "token 3 of the vocabulary has 2000 bytes");
  expect([](Vocabulary& v) { v.tokens.resize((4 << 20) + 1); }, "4194305 tokens");
  expect([](Vocabulary& v) { v.merges.resize((4 << 20) + 1); }, "4194305 merges");
  expect([](Vocabulary& v) { v.kinds.pop_back(); }, "261 tokens with 260 kinds");
  expect([](Vocabulary& v) { v.scores = {1}; }, "and 1 scores");
  expect([](Vocabulary& v) { v.scores.assign(261, std::numeric_limits<double>::quiet_NaN()); },
         "token 0 of the vocabulary has no finite score");
  expect([](Vocabulary& v) { v.end = 261; }, "none of number 261");
  expect([](Vocabulary& v) { v.begin = -1; }, "none of number -1");
  expect([](Vocabulary& v) { v.also_end = {1 << 30}; }, "none of number 1073741824");
  expect([](Vocabulary& v) { v.takes_spaces_behind = {-7}; }, "none of number -7");
  expect([](Vocabulary& v) { v.merges = {"i"}; }, "'i', is not a pair");
  expect([](Vocabulary& v) { v.merges = {"i "}; }, "'i ', is not a pair");
  expect([](Vocabulary& v) { v.merges = {"x y"}; }, "needs the token 'xy', which is missing");
  expect([](Vocabulary& v) { v.splits = {{"("}}; }, "the split pattern '('");
}

TEST(Tokenizer, RefusesTextsThatAPatternTakesTooLongOn) {
  Vocabulary v = byte_level();
  v.splits = {{"a*a*a*a*a*b"}};
  const Tokenizer t = made(v);
  EXPECT_TRUE(t.encode("aaaab").ok());
  const Result<std::vector<Token>> slow = t.encode(std::string(3000, 'a'));
  ASSERT_FALSE(slow.ok());
  EXPECT_EQ(slow.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(slow.error().message.find("takes too long on this text"), std::string::npos);
}

// Seconds for one word, or one run of spaces, of that many bytes.
TEST(Tokenizer, TakesTimeInProportionToTheText) {
  const Tokenizer t = made(byte_level()), pieces = made(scored(Algorithm::kPieces)),
                  unigram = made(scored(Algorithm::kUnigram));
  for (const char* unit : {"in", " ", "a", "ab ", "\n", "<s", "!"}) {
    std::string text;
    while (text.size() < 400000) text += unit;
    for (const Tokenizer* each : {&t, &pieces, &unigram}) {
      const auto begin = std::chrono::steady_clock::now();
      const Result<std::vector<Token>> tokens = each->encode(text);
      ASSERT_TRUE(tokens.ok()) << tokens.error().message;
      // Quadratic time would be minutes.
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << unit;
    }
  }
}

}  // namespace
}  // namespace tessera::tokenizer
