// A schedule with decision points.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/scheduling/schedule/step.h"
#include "tessera/scheduling/space/asker.h"
#include "tessera/scheduling/space/decision.h"
#include "tessera/support/result.h"

namespace tessera::space {

using Choice = std::span<const std::int32_t>;

// Immutable; safe to use from several threads.
class Sketch {
 public:
  virtual ~Sketch() = default;

  const std::string& name() const { return name_; }
  const std::vector<Decision>& decisions() const { return decisions_; }

  // Asks for the decisions one after the other, leaving out those without effect under the answers
  // before them. What a value is refused for is decided without applying anything: registers,
  // unrolled body, vector length, workspace. A value is refused exactly if nothing legal begins
  // with the answers so far and it.
  virtual void walk(Asker& asker) const = 0;
  // The steps. Whatever is legal applies, lowers and builds: a failure is a defect.
  virtual Result<schedule::Schedule> write(Choice choice) const = 0;

  // Whether no value that is asked for is refused: kIllegalSchedule with the reason.
  Result<void> check(Choice choice) const;
  // Gives decisions without effect their preferred value, so that candidates with one schedule are
  // one candidate. Changes neither legality nor the schedule.
  void settle(std::span<std::int32_t> choice) const;

 protected:
  std::string name_;  // letters, digits, '_', '.', '+'
  std::vector<Decision> decisions_;
};

}  // namespace tessera::space
