#include <algorithm>
#include <optional>
#include <string>

#include "tessera/scheduling/space/space.h"

namespace tessera::space {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  constexpr std::string_view kBlanks = " \t\r\n";
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return out;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Result<std::int32_t> value_of(const Decision& d, std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < d.values.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const std::string label = d.label(index);
    if (label == text) return index;
    known += " " + label;
  }
  return make_error(ErrorCode::kInvalidArgument, "{} has no value {}; it has{}", d.name, text,
                    known);
}

// Decisions of later versions, and what candidates did that were written without them.
struct Later {
  std::string_view decision, value;
};
constexpr Later kLater[] = {
    {".prefetch_next", "no"}, {".turn_a", "no"}, {".own_copies", "no"}, {".parts", "1"}};

std::optional<std::int32_t> value_without(const Decision& d) {
  for (const Later& later : kLater) {
    if (!d.name.ends_with(later.decision)) continue;
    const Result<std::int32_t> value = value_of(d, later.value);
    if (value.ok()) return *value;
  }
  return std::nullopt;
}

}  // namespace

std::string Space::to_text(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  std::string out = sketch.name() + ":";
  for (std::size_t d = 0; d < c.choice.size(); ++d)
    out += " " + sketch.decisions()[d].name + "=" + sketch.decisions()[d].label(c.choice[d]);
  return out;
}

Result<Candidate> Space::parse(std::string_view text) const {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty() || words[0].size() < 2 || words[0].back() != ':')
    return make_error(ErrorCode::kInvalidArgument, "a candidate begins with 'sketch:'");
  const std::string_view name = words[0].substr(0, words[0].size() - 1);
  const auto found = std::find_if(sketches_.begin(), sketches_.end(),
                                  [&](const auto& s) { return s->name() == name; });
  if (found == sketches_.end()) {
    std::string known;
    for (const auto& s : sketches_) known += " " + s->name();
    return make_error(ErrorCode::kInvalidArgument, "no sketch {}; there are{}", name, known);
  }
  const std::vector<Decision>& decisions = (*found)->decisions();
  Candidate c{.sketch = static_cast<std::int32_t>(found - sketches_.begin()), .choice = {}};
  constexpr std::int32_t kAbsent = -1;
  c.choice.assign(decisions.size(), kAbsent);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].rfind('=');
    if (equals == std::string_view::npos)
      return make_error(ErrorCode::kInvalidArgument, "'{}' is not decision=value", words[i]);
    const std::string_view key = words[i].substr(0, equals);
    const auto d = std::find_if(decisions.begin(), decisions.end(),
                                [&](const Decision& each) { return each.name == key; });
    if (d == decisions.end()) {
      std::string known;
      for (const Decision& each : decisions) known += " " + each.name;
      return make_error(ErrorCode::kInvalidArgument, "sketch {} has no decision {}; it has{}", name,
                        key, known);
    }
    TESSERA_TRY(const std::int32_t index, value_of(*d, words[i].substr(equals + 1)));
    c.choice[static_cast<std::size_t>(d - decisions.begin())] = index;
  }
  std::string absent;
  bool earlier = false;
  for (std::size_t d = 0; d < decisions.size(); ++d) {
    if (c.choice[d] != kAbsent) continue;
    const std::optional<std::int32_t> value = value_without(decisions[d]);
    if (!value) absent += " " + decisions[d].name;
    c.choice[d] = value.value_or(kAbsent);
    earlier = true;
  }
  if (!absent.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "a candidate of {} without{}", name, absent);
  }
  if (earlier) (*found)->settle(c.choice);
  return c;
}

}  // namespace tessera::space
