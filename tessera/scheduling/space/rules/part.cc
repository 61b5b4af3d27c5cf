#include "tessera/scheduling/space/rules/part.h"

#include <algorithm>

namespace tessera::space {

namespace {

class PartChecker final : public Asker {
 public:
  explicit PartChecker(Choice choice) : choice_(choice) {}
  std::int32_t ask(std::size_t decision, const Refusal& refusal) override {
    legal_ = legal_ && !refusal(choice_[decision]);
    return choice_[decision];
  }
  bool stopped() const override { return !legal_; }

 private:
  Choice choice_;
  bool legal_ = true;
};

}  // namespace

std::vector<std::int32_t> Part::preferred() const {
  std::vector<std::int32_t> out;
  for (const Point& d : points_) out.push_back(d.preferred);
  return out;
}

bool Part::legal(Choice choice) const {
  std::vector<std::int32_t> answers = preferred();
  PartChecker checker(choice);
  walk(answers, {}, checker);
  return !checker.stopped();
}

void Part::keep_open(const std::vector<std::pair<std::string, std::string>>& names) {
  for (std::size_t i = 0; i < points_.size(); ++i) {
    Point& d = points_[i];
    const auto it = std::find_if(names.begin(), names.end(), [&](const auto& name) {
      return d.name.ends_with("." + name.first);
    });
    open_[i] = it != names.end() && d.values.size() > 1;
    if (open_[i]) {
      d.name = it->second;
      continue;
    }
    const auto kept = static_cast<std::size_t>(d.preferred);
    d.values = {d.values[kept]};
    if (!d.labels.empty()) d.labels = {d.labels[kept]};
    d.preferred = 0;
  }
  update();
}

Point number_decision(std::string name, PointKind kind, const std::vector<std::int64_t>& numbers,
                      std::int64_t preferred) {
  Point d{.name = std::move(name), .kind = kind, .values = {}, .labels = {}};
  for (const std::int64_t n : numbers) {
    if (n <= preferred) d.preferred = static_cast<std::int32_t>(d.values.size());
    d.values.push_back({n});
  }
  return d;
}

Point word_decision(std::string name, PointKind kind, std::vector<std::string> words,
                    std::int32_t preferred) {
  Point d{.name = std::move(name), .kind = kind, .values = {}, .labels = {}};
  for (std::size_t i = 0; i < words.size(); ++i) d.values.push_back({static_cast<int>(i)});
  d.labels = std::move(words);
  d.preferred = preferred;
  return d;
}

}  // namespace tessera::space
