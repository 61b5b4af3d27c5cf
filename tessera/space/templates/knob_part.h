// A part of which only some decisions stay open, under the names of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/space/rules/part.h"

namespace tessera::space {

class KnobPart final : public Part {
 public:
  // `knobs`: the last word of a decision's name and its name here. All others take their preferred
  // value.
  KnobPart(std::unique_ptr<Part> inner,
           const std::vector<std::pair<std::string, std::string>>& knobs);

  std::size_t depth_of(std::size_t stage) const override { return inner_->depth_of(stage); }
  Result<void> check(Choice choice) const override { return inner_->check(whole(choice)); }
  std::int64_t copies(Choice choice) const override { return inner_->copies(whole(choice)); }
  std::int64_t code(Choice choice) const override { return inner_->code(whole(choice)); }
  bool pads() const override { return inner_->pads(); }
  void settle(std::span<std::int32_t> choice, bool inside) const override;
  std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const override {
    return inner_->write(whole(choice), at, writer);
  }

 private:
  std::vector<std::int32_t> whole(Choice choice) const;

  std::unique_ptr<Part> inner_;
  std::vector<std::size_t> open_;        // per knob: decision of inner_
  std::vector<std::int32_t> preferred_;  // per decision of inner_
};

}  // namespace tessera::space
