#include "tessera/scheduling/space/chooser.h"

#include <algorithm>

namespace tessera::space {
namespace {

bool is_name(const std::string& name, const std::string& stage, std::string_view what) {
  return name.size() == stage.size() + 1 + what.size() && name.ends_with(what) &&
         name.starts_with(stage);
}

// Names of stages come from models: anything may occur in them.
std::string name_of(const std::string& stage, std::string_view what) {
  return stage + "." + std::string(what);
}

}  // namespace

const Point* Chooser::find(const std::string& stage, std::string_view what) {
  if (!points_) return nullptr;
  const std::size_t count = points_->size();
  // Nearly always they are asked for in the order in which they were listed.
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t i = next_ + n < count ? next_ + n : next_ + n - count;
    const Point& d = (*points_)[i];
    if (!is_name(d.name, stage, what)) continue;
    next_ = i + 1 == count ? 0 : i + 1;
    at_ = i;
    return &d;
  }
  return nullptr;
}

const Point* Chooser::listed(const std::string& stage, std::string_view what) const {
  if (!points_) return nullptr;
  const auto it = std::find_if(points_->begin(), points_->end(),
                               [&](const Point& d) { return is_name(d.name, stage, what); });
  return it == points_->end() ? nullptr : &*it;
}

// Limits keep the search among what compiles quickly. What reasoning takes stays in any case, but
// where it is beyond them, nothing else is legal from then on.
std::size_t Chooser::answer(const Refusal& refusal) {
  const std::int32_t preferred = (*points_)[at_].preferred;
  if (!asker_) return static_cast<std::size_t>(at_ < choice_.size() ? choice_[at_] : preferred);
  const std::int32_t value = asker_->ask(at_, [&](std::int32_t v) -> const char* {
    if (v == preferred && all_preferred_) return nullptr;
    return bound_ ? "what is preferred so far is beyond the limits" : refusal(v);
  });
  bound_ = bound_ || refusal(value) != nullptr;
  all_preferred_ = all_preferred_ && value == preferred;
  return static_cast<std::size_t>(value);
}

void Chooser::list_numbers(const std::string& stage, std::string_view what, PointKind kind,
                           std::int64_t preferred, std::vector<std::int64_t> values) {
  values.push_back(preferred);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  Point d{.name = name_of(stage, what), .kind = kind, .values = {}, .labels = {}};
  for (const std::int64_t v : values) {
    if (v == preferred) d.preferred = static_cast<std::int32_t>(d.values.size());
    d.values.push_back({v});
  }
  if (d.values.size() > 1) listed_->push_back(std::move(d));
}

void Chooser::list_words(const std::string& stage, std::string_view what, PointKind kind,
                         int preferred, std::span<const char* const> words) {
  Point d{.name = name_of(stage, what), .kind = kind, .values = {}, .labels = {}};
  d.preferred = preferred;
  for (const char* word : words) {
    d.values.push_back({static_cast<std::int64_t>(d.values.size())});
    d.labels.emplace_back(word);
  }
  listed_->push_back(std::move(d));
}

}  // namespace tessera::space
