// The regular expressions by which tokenizers split text into words: as much of the syntax as they
// use. Alternatives are tried in order, repetitions take as much as they can.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/support/result.h"

namespace tessera::tokenizer {

class Pattern {
 public:
  // Literals, classes ([...] with ranges and negation, \s \d \w \p{...} and their negations), . for
  // what is no line feed, (...), (?:...), (?i:...), (?=...), (?!...), and ? * + {n,m} (with +
  // behind them: without going back) behind one character; ? alone behind a group.
  static Result<Pattern> parse(std::string_view text);

  // Where a match that begins at `at` ends. Each comparison of a character takes one from *steps;
  // nothing matches once they are used up.
  std::optional<std::size_t> match(std::u32string_view text, std::size_t at,
                                   std::int64_t* steps) const;

 private:
  friend class PatternParser;
  friend class PatternMatcher;

  struct CharacterSet {
    bool negated = false, space = false, not_space = false;
    Categories categories = 0;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    std::array<bool, 128> ascii{};

    bool contains(char32_t c) const { return c < 128 ? ascii[c] : look_up(c); }
    bool look_up(char32_t c) const;
    void finish();  // fills `ascii`
  };
  enum class Kind { kSet, kGroup, kAhead, kNotAhead };
  struct Node;
  using Sequence = std::vector<Node>;
  struct Node {
    Kind kind = Kind::kSet;
    CharacterSet set;
    std::size_t least = 1, most = 1;
    bool possessive = false;
    std::vector<Sequence> branches;
  };

  std::vector<Sequence> branches_;
};

}  // namespace tessera::tokenizer
