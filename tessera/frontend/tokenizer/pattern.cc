#include "tessera/frontend/tokenizer/pattern.h"

#include <limits>

#include "tessera/support/invalid.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostBytes = 4 << 10;  // bounds the depth of the recursion, too
constexpr int kMostDepth = 16;

// The characters that are equal to the ASCII letter `c` where case does not matter.
std::u32string other_cases(char32_t c) {
  std::u32string out(1, c);
  if (c >= 'a' && c <= 'z') out += c - 32;
  if (c >= 'A' && c <= 'Z') out += c + 32;
  if (c == 's' || c == 'S') out += U'\x17f';   // long s
  if (c == 'k' || c == 'K') out += U'\x212a';  // the sign for Kelvin
  return out;
}

}  // namespace

bool Pattern::CharacterSet::look_up(char32_t c) const {
  bool found = (categories & only(category_of(c))) != 0;
  if (!found && (space || not_space)) found = is_space(c) ? space : not_space;
  for (const auto& [low, high] : ranges) found = found || (c >= low && c <= high);
  return found != negated;
}

void Pattern::CharacterSet::finish() {
  for (char32_t c = 0; c < 128; ++c) ascii[c] = look_up(c);
}

class PatternParser {
 public:
  using Node = Pattern::Node;
  using Set = Pattern::CharacterSet;

  explicit PatternParser(std::string_view text) : whole_(text), rest_(text) {}

  Result<std::vector<Pattern::Sequence>> parse() {
    if (whole_.size() > kMostBytes) return invalid("a split pattern of {} bytes", whole_.size());
    TESSERA_TRY(std::vector<Pattern::Sequence> out, alternatives(0));
    if (!rest_.empty()) return wrong("')' without '('");
    return out;
  }

 private:
  Error wrong(std::string_view reason) const {
    return make_error(ErrorCode::kUnsupported, "the split pattern '{}', at byte {}: {}", whole_,
                      whole_.size() - rest_.size(), reason);
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t next() {
    const CodePoint c = first_code_point(rest_);
    rest_.remove_prefix(c.bytes);
    return c.value;
  }

  Result<std::vector<Pattern::Sequence>> alternatives(int depth) {
    if (depth > kMostDepth) return wrong("groups within too many groups");
    std::vector<Pattern::Sequence> out(1);
    while (!rest_.empty() && rest_[0] != ')') {
      if (take("|")) {
        out.emplace_back();
        continue;
      }
      TESSERA_TRY(Node node, atom(depth));
      TESSERA_DO(repetition(&node));
      out.back().push_back(std::move(node));
    }
    return out;
  }

  Result<Node> atom(int depth) {
    if (take("(")) return group(depth);
    Node node;
    if (take("[")) {
      TESSERA_TRY(node.set, bracket());
    } else if (take(".")) {
      node.set.negated = true;
      node.set.ranges.push_back({'\n', '\n'});
    } else if (take("\\")) {
      TESSERA_DO(escape(&node.set));
    } else if (std::string_view("*+?{^$").find(rest_[0]) != std::string_view::npos) {
      return wrong("not supported here");
    } else {
      add_character(&node.set, next());
    }
    node.set.finish();
    return node;
  }

  Result<Node> group(int depth) {
    Node node{.kind = Pattern::Kind::kGroup};
    const bool outer = ignore_case_;
    if (take("?!")) {
      node.kind = Pattern::Kind::kNotAhead;
    } else if (take("?=")) {
      node.kind = Pattern::Kind::kAhead;
    } else if (take("?i:")) {
      ignore_case_ = true;
    } else if (!take("?:") && rest_.starts_with('?')) {
      return wrong("this kind of group is not supported");
    }
    TESSERA_TRY(node.branches, alternatives(depth + 1));
    if (!take(")")) return wrong("'(' without ')'");
    ignore_case_ = outer;
    return node;
  }

  Result<void> repetition(Node* node) {
    if (take("?")) {
      node->least = 0;
    } else if (take("*")) {
      node->least = 0, node->most = kUnbounded;
    } else if (take("+")) {
      node->most = kUnbounded;
    } else if (take("{")) {
      TESSERA_DO(bounds(node));
    } else {
      return {};
    }
    if (rest_.starts_with('?')) return wrong("repetitions that take as little as they can");
    node->possessive = take("+");
    if (node->kind == Pattern::Kind::kSet) return {};
    const bool optional = node->least == 0 && node->most == 1 && !node->possessive;
    if (node->kind != Pattern::Kind::kGroup || !optional) return wrong("groups that repeat");
    return {};
  }

  Result<void> bounds(Node* node) {
    const auto number = [&](std::size_t otherwise) {
      if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') return otherwise;
      std::size_t value = 0;
      while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9' && value < 1000)
        value = value * 10 + static_cast<std::size_t>(next() - U'0');
      return value;
    };
    node->least = number(0);
    node->most = take(",") ? number(kUnbounded) : node->least;
    if (!take("}") || node->most < node->least || node->most == 0) return wrong("wrong {n,m}");
    return {};
  }

  void add_character(Set* set, char32_t c) const {
    for (const char32_t same : ignore_case_ ? other_cases(c) : std::u32string(1, c))
      set->ranges.push_back({same, same});
  }

  // Behind a backslash: a class, or one character.
  Result<void> escape(Set* set) {
    TESSERA_TRY(const std::optional<char32_t> character, escaped(set));
    if (character) add_character(set, *character);
    return {};
  }

  Result<std::optional<char32_t>> escaped(Set* set) {
    if (rest_.empty()) return wrong("nothing behind '\\'");
    constexpr Categories kDigits = only(Category::kNd);
    const Categories words =
        categories_named("L") | categories_named("M") | kDigits | only(Category::kPc);
    std::optional<char32_t> none;
    switch (const char32_t c = next()) {
      case 's':
        return set->space = true, none;
      case 'S':
        return set->not_space = true, none;
      case 'd':
        return set->categories |= kDigits, none;
      case 'D':
        return set->categories |= kAllCategories & ~kDigits, none;
      case 'w':
        return set->categories |= words, none;
      case 'W':
        return set->categories |= kAllCategories & ~words, none;
      case 'p':
      case 'P':
        TESSERA_DO(property(set, c == 'P'));
        return none;
      case 'r':
        return std::optional<char32_t>('\r');
      case 'n':
        return std::optional<char32_t>('\n');
      case 't':
        return std::optional<char32_t>('\t');
      case 'u':
      case 'x':
        return code(c == 'u' ? 4 : 2);
      default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          return wrong("this escape is not supported");
        return std::optional<char32_t>(c);
    }
  }

  Result<void> property(Set* set, bool without) {
    const std::size_t end = rest_.find('}');
    if (!take("{") || end == std::string_view::npos) return wrong("\\p without {...}");
    const std::string_view name = rest_.substr(0, end - 1);
    const Categories named = categories_named(name);
    if (named == 0) return wrong("only general categories are supported in \\p{...}");
    set->categories |= without ? kAllCategories & ~named : named;
    rest_.remove_prefix(end);
    return {};
  }

  Result<std::optional<char32_t>> code(std::size_t digits) {
    if (take("{")) {
      digits = rest_.find('}');
      if (digits > 6) return wrong("wrong code point");
      TESSERA_TRY(const std::optional<char32_t> c, hexadecimal(digits));
      rest_.remove_prefix(1);
      return c;
    }
    return hexadecimal(digits);
  }

  Result<std::optional<char32_t>> hexadecimal(std::size_t digits) {
    if (digits == 0 || rest_.size() < digits) return wrong("wrong code point");
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const std::size_t digit =
          std::string_view("0123456789abcdef")
              .find(
                  static_cast<char>(rest_[0] >= 'A' && rest_[0] <= 'F' ? rest_[0] + 32 : rest_[0]));
      if (digit == std::string_view::npos) return wrong("wrong code point");
      value = value * 16 + static_cast<char32_t>(digit);
      rest_.remove_prefix(1);
    }
    return std::optional<char32_t>(value);
  }

  Result<Set> bracket() {
    Set set;
    set.negated = take("^");
    for (bool first = true; first || !rest_.starts_with(']'); first = false) {
      if (rest_.empty()) return wrong("'[' without ']'");
      if (rest_.starts_with("[:") || rest_.starts_with("&&")) return wrong("not supported here");
      TESSERA_TRY(const std::optional<char32_t> low, member(&set));
      if (!low) continue;
      if (rest_.size() < 2 || rest_[0] != '-' || rest_[1] == ']') {
        add_character(&set, *low);
        continue;
      }
      take("-");
      TESSERA_TRY(const std::optional<char32_t> high, member(&set));
      if (!high || *high < *low) return wrong("wrong range");
      if (ignore_case_) return wrong("ranges where case does not matter");
      set.ranges.push_back({*low, *high});
    }
    take("]");
    return set;
  }

  Result<std::optional<char32_t>> member(Set* set) {
    if (take("\\")) return escaped(set);
    return std::optional<char32_t>(next());
  }

  std::string_view whole_, rest_;
  bool ignore_case_ = false;
};

class PatternMatcher {
 public:
  PatternMatcher(std::u32string_view text, std::int64_t* steps) : text_(text), steps_(steps) {}

  // What follows a sequence: the rest of the one around it.
  struct Rest {
    const Pattern::Sequence* sequence;
    std::size_t next;
    const Rest* outer;
  };
  using End = std::optional<std::size_t>;

  End any(const std::vector<Pattern::Sequence>& branches, std::size_t at, const Rest* outer) {
    for (const Pattern::Sequence& branch : branches) {
      if (const End end = match({&branch, 0, outer}, at)) return end;
    }
    return {};
  }

 private:
  End match(const Rest& rest, std::size_t at) {
    if (--*steps_ < 0) return {};
    if (rest.next == rest.sequence->size()) {
      return rest.outer == nullptr ? End(at) : match(*rest.outer, at);
    }
    const Pattern::Node& node = (*rest.sequence)[rest.next];
    const Rest behind{rest.sequence, rest.next + 1, rest.outer};
    switch (node.kind) {
      case Pattern::Kind::kSet:
        return repeat(node, behind, at);
      case Pattern::Kind::kGroup: {
        const End end = any(node.branches, at, &behind);
        return end || node.least == 1 ? end : match(behind, at);
      }
      case Pattern::Kind::kAhead:
      case Pattern::Kind::kNotAhead:
        break;
    }
    const bool found = any(node.branches, at, nullptr).has_value();
    return found == (node.kind == Pattern::Kind::kAhead) ? match(behind, at) : End{};
  }

  End repeat(const Pattern::Node& node, const Rest& behind, std::size_t at) {
    std::size_t count = 0;
    const std::size_t most = std::min(node.most, text_.size() - at);
    while (count < most && node.set.contains(text_[at + count])) ++count;
    *steps_ -= static_cast<std::int64_t>(count) + 1;
    if (count < node.least) return {};
    for (;; --count) {
      if (const End end = match(behind, at + count)) return end;
      if (count == node.least || node.possessive || --*steps_ < 0) return {};
    }
  }

  std::u32string_view text_;
  std::int64_t* steps_;
};

Result<Pattern> Pattern::parse(std::string_view text) {
  Pattern out;
  TESSERA_TRY(out.branches_, PatternParser(text).parse());
  return out;
}

std::optional<std::size_t> Pattern::match(std::u32string_view text, std::size_t at,
                                          std::int64_t* steps) const {
  if (*steps < 0) return {};
  return PatternMatcher(text, steps).any(branches_, at, nullptr);
}

}  // namespace tessera::tokenizer
