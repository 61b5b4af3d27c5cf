#include "tessera/space/chooser.h"

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

Chooser::Chooser(const std::vector<Decision>& decisions, std::span<const std::int32_t> choice,
                 std::vector<Decision>* listed)
    : decisions_(&decisions), choice_(choice), listed_(listed), asked_(decisions.size(), false) {}

const Decision* Chooser::find(const std::string& stage, std::string_view what) {
  if (!decisions_) return nullptr;
  const std::size_t count = decisions_->size();
  // Nearly always they are asked for in the order in which they were listed.
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t i = next_ + n < count ? next_ + n : next_ + n - count;
    const Decision& d = (*decisions_)[i];
    if (!is_name(d.name, stage, what)) continue;
    next_ = i + 1 == count ? 0 : i + 1;
    if (i >= asked_.size()) asked_.resize(count, false);
    asked_[i] = true;
    index_ = static_cast<std::size_t>(i < choice_.size() ? choice_[i] : d.preferred);
    return &d;
  }
  return nullptr;
}

void Chooser::list_numbers(const std::string& stage, std::string_view what, DecisionKind kind,
                           std::int64_t preferred, std::vector<std::int64_t> values) {
  values.push_back(preferred);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  Decision d{.name = name_of(stage, what), .kind = kind, .values = {}, .labels = {}};
  for (const std::int64_t v : values) {
    if (v == preferred) d.preferred = static_cast<std::int32_t>(d.values.size());
    d.values.push_back({v});
  }
  if (d.values.size() > 1) listed_->push_back(std::move(d));
}

int Chooser::word(const std::string& stage, std::string_view what, DecisionKind kind, int preferred,
                  std::span<const char* const> words) {
  if (const Decision* d = find(stage, what)) return static_cast<int>(d->values[index_][0]);
  if (!listed_ || words.size() < 2) return preferred;
  Decision d{.name = name_of(stage, what), .kind = kind, .values = {}, .labels = {}};
  d.preferred = preferred;
  for (const char* word : words) {
    d.values.push_back({static_cast<std::int64_t>(d.values.size())});
    d.labels.emplace_back(word);
  }
  listed_->push_back(std::move(d));
  return preferred;
}

bool Chooser::flag(const std::string& stage, std::string_view what, DecisionKind kind,
                   bool preferred) {
  static constexpr const char* kWords[] = {"no", "yes"};
  return word(stage, what, kind, preferred ? 1 : 0, kWords) == 1;
}

void Chooser::refuse(std::string reason) {
  if (!refusal_) refusal_ = Error{ErrorCode::kIllegalSchedule, std::move(reason)};
}

}  // namespace tessera::space
