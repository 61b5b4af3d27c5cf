// Points that are asked for in an order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/scheduling/decide/asker.h"
#include "tessera/scheduling/decide/point.h"
#include "tessera/support/result.h"

namespace tessera::decide {

using Choice = std::span<const std::int32_t>;

// Immutable; safe to use from several threads.
class Sketch {
 public:
  virtual ~Sketch() = default;

  const std::string& name() const { return name_; }
  const std::vector<Point>& points() const { return points_; }

  // Asks for the points one after the other, leaving out those without effect under the answers
  // before them. A value is refused exactly if nothing legal begins with the answers so far and it.
  virtual void walk(Asker& asker) const = 0;

  // The value that candidates had which were written before the point existed; null: it was always
  // there.
  virtual const char* value_before(const Point&) const { return nullptr; }

  // Whether no value that is asked for is refused: kIllegalSchedule with the reason.
  Result<void> check(Choice choice) const;
  // Gives points without effect their preferred value, so that candidates that mean the same are
  // one candidate. Changes neither legality nor meaning.
  void settle(std::span<std::int32_t> choice) const;

 protected:
  std::string name_;  // letters, digits, '_', '.', '+'
  std::vector<Point> points_;
};

// Any value goes with any other.
class FreeSketch final : public Sketch {
 public:
  FreeSketch(std::string name, std::vector<Point> points);
  void walk(Asker& asker) const override;
};

}  // namespace tessera::decide
