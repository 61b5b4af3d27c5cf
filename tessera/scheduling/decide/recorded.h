// Sketches of which only some choices exist: those that were measured.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tessera/scheduling/decide/sketch.h"

namespace tessera::decide {

class RecordedChoices {
 public:
  explicit RecordedChoices(std::vector<std::vector<std::int32_t>> choices)
      : choices_(std::move(choices)) {}
  // Asks as `sketch` does, which has them all. Values that none of them has after what was decided
  // before are refused.
  void walk(const Sketch& sketch, Asker& asker) const;

 private:
  std::vector<std::vector<std::int32_t>> choices_;
};

class RecordedSketch final : public Sketch {
 public:
  RecordedSketch(std::unique_ptr<const Sketch> whole, RecordedChoices choices);
  void walk(Asker& asker) const override { choices_.walk(*whole_, asker); }

 private:
  std::unique_ptr<const Sketch> whole_;
  RecordedChoices choices_;
};

}  // namespace tessera::decide
