// What a model's file says of its tokens, whatever the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/tokenizer/normal.h"
#include "tessera/support/result.h"

namespace tessera::tokenizer {

using Token = std::int32_t;  // its place in the vocabulary

// How text becomes tokens.
enum class Algorithm : std::uint8_t {
  kBytePairs,  // pairs merged by rank, over bytes written as characters (GPT-2, Llama 3, Qwen)
  kPieces,     // pairs merged by rank or by the score of the result, over characters; what has no
               // token becomes bytes (Llama 2, Gemma)
  kUnigram,    // the tokens whose scores have the greatest sum
  kWordPiece,  // the longest token first, word by word (BERT)
};

// As files number them.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // special: in a text only where permitted
  kUserDefined = 4,  // taken wherever its text occurs
  kUnused = 5,
  kByte = 6,  // written <0xE2>
};

// Whether text is read as if a space stood before it: all of a text or what follows a marked token,
// and where a space stands there already.
enum class SpaceBefore : std::uint8_t { kNever, kEach, kEachUnlessThere, kFirstUnlessThere };

struct Split {
  std::string pattern;      // of a Pattern
  bool drop_match = false;  // what matches is no word, but left out
};

struct Vocabulary {
  Algorithm algorithm = Algorithm::kBytePairs;
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;     // of each token, or none: all are normal
  std::vector<double> scores;       // of each token, or none
  std::vector<std::string> merges;  // "left right", best first
  std::vector<Split> splits;        // one after the other, on what the ones before left
  // Of each token, or none: spaces around it in the text belong to it.
  std::vector<Token> takes_spaces_before, takes_spaces_behind;
  std::optional<Token> begin, end, unknown, padding;
  std::vector<Token> also_end;  // further tokens that end a text, such as that of a turn
  bool add_begin = false, add_end = false;
  SpaceBefore space_before = SpaceBefore::kNever;
  bool whole_words = false;           // a word that is a token needs no merges
  bool bytes_for_unknown = false;     // kPieces, kUnigram: bytes for characters without a token
  bool fuse_unknown = false;          // neighbours without a token are one unknown token
  bool composes = false;              // text is brought into Unicode's form NFC first
  BertNormalizer normalizer;          // or is changed in this way
  std::string word_prefix;            // kWordPiece: of tokens within a word ("##")
  std::size_t most_characters = 100;  // kWordPiece: longer words are unknown
};

// The splits that GGUF files name in tokenizer.ggml.pre, and whether whole words need no merges.
struct NamedSplits {
  std::vector<Split> splits;
  bool whole_words = false;
};
Result<NamedSplits> splits_named(std::string_view name);

// GPT-2's splits, which byte-level vocabularies without any other have.
extern const char* const kGpt2Pattern;

// From the text of a Hugging Face tokenizer.json. kUnsupported, naming the member, for what cannot
// be done exactly.
Result<Vocabulary> parse_tokenizer_json(std::string_view text);

}  // namespace tessera::tokenizer
