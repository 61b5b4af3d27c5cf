#include "tessera/space/templates/knob_part.h"

#include <algorithm>

namespace tessera::space {

KnobPart::KnobPart(std::unique_ptr<Part> inner,
                   const std::vector<std::pair<std::string, std::string>>& knobs)
    : inner_(std::move(inner)) {
  anchor_names_ = inner_->anchor_names();
  const std::vector<Decision>& all = inner_->decisions();
  for (const Decision& d : all) preferred_.push_back(d.preferred);
  for (const auto& [word, name] : knobs) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool same = all[i].name.ends_with("." + word);
      if (!same || all[i].values.size() < 2) continue;
      open_.push_back(i);
      decisions_.push_back(all[i]);
      decisions_.back().name = name;
    }
  }
}

void KnobPart::settle(std::span<std::int32_t> choice, bool inside) const {
  std::vector<std::int32_t> all = whole(choice);
  inner_->settle(all, inside);
  for (std::size_t i = 0; i < open_.size(); ++i) choice[i] = all[open_[i]];
}

std::vector<std::int32_t> KnobPart::whole(Choice choice) const {
  std::vector<std::int32_t> out = preferred_;
  for (std::size_t i = 0; i < open_.size(); ++i) out[open_[i]] = choice[i];
  return out;
}

}  // namespace tessera::space
