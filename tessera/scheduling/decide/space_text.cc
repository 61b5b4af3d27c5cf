#include <algorithm>
#include <optional>
#include <string>

#include "tessera/scheduling/decide/space.h"

namespace tessera::decide {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Names of several words stand in quotation marks.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return out;
    text.remove_prefix(begin);
    const std::size_t quoted = text[0] == '"' ? text.find("\"=") : 0;
    const std::size_t end = std::min(text.find_first_of(kBlanks, quoted), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// As texts have it.
std::string name_of(const Point& p) {
  return p.name.find_first_of(kBlanks) == std::string::npos ? p.name : "\"" + p.name + "\"";
}

Result<std::int32_t> value_of(const Point& d, std::string_view text) {
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

std::optional<std::int32_t> value_without(const Sketch& sketch, const Point& p) {
  const char* value = sketch.value_before(p);
  if (value == nullptr) return std::nullopt;
  const Result<std::int32_t> index = value_of(p, value);
  return index.ok() ? std::optional(*index) : std::nullopt;
}

}  // namespace

std::string Space::to_text(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  std::string out = sketch.name() + ":";
  for (std::size_t d = 0; d < c.choice.size(); ++d)
    out += " " + name_of(sketch.points()[d]) + "=" + sketch.points()[d].label(c.choice[d]);
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
  const std::vector<Point>& points = (*found)->points();
  Candidate c{.sketch = static_cast<std::int32_t>(found - sketches_.begin()), .choice = {}};
  constexpr std::int32_t kAbsent = -1;
  c.choice.assign(points.size(), kAbsent);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].rfind('=');
    if (equals == std::string_view::npos)
      return make_error(ErrorCode::kInvalidArgument, "'{}' is not decision=value", words[i]);
    const std::string_view key = words[i].substr(0, equals);
    const auto d = std::find_if(points.begin(), points.end(),
                                [&](const Point& each) { return name_of(each) == key; });
    if (d == points.end()) {
      std::string known;
      for (const Point& each : points) known += " " + name_of(each);
      return make_error(ErrorCode::kInvalidArgument, "sketch {} has no decision {}; it has{}", name,
                        key, known);
    }
    TESSERA_TRY(const std::int32_t index, value_of(*d, words[i].substr(equals + 1)));
    c.choice[static_cast<std::size_t>(d - points.begin())] = index;
  }
  std::string absent;
  bool earlier = false;
  for (std::size_t d = 0; d < points.size(); ++d) {
    if (c.choice[d] != kAbsent) continue;
    const std::optional<std::int32_t> value = value_without(**found, points[d]);
    if (!value) absent += " " + name_of(points[d]);
    c.choice[d] = value.value_or(kAbsent);
    earlier = true;
  }
  if (!absent.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "a candidate of {} without{}", name, absent);
  }
  if (earlier) (*found)->settle(c.choice);
  return c;
}

}  // namespace tessera::decide
