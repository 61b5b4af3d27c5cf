#include "tessera/space/rules/part.h"

namespace tessera::space {

void Part::settle(std::span<std::int32_t>, bool) const {}

Decision number_decision(std::string name, DecisionKind kind,
                         const std::vector<std::int64_t>& numbers, std::int64_t preferred) {
  Decision d{.name = std::move(name), .kind = kind, .values = {}, .labels = {}};
  for (const std::int64_t n : numbers) {
    if (n <= preferred) d.preferred = static_cast<std::int32_t>(d.values.size());
    d.values.push_back({n});
  }
  return d;
}

Decision word_decision(std::string name, DecisionKind kind, std::vector<std::string> words,
                       std::int32_t preferred) {
  Decision d{.name = std::move(name), .kind = kind, .values = {}, .labels = {}};
  for (std::size_t i = 0; i < words.size(); ++i) d.values.push_back({static_cast<int>(i)});
  d.labels = std::move(words);
  d.preferred = preferred;
  return d;
}

}  // namespace tessera::space
