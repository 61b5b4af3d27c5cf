// A schedule with decision points.
#pragma once

#include "tessera/scheduling/decide/sketch.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::space {

using decide::Asker;
using decide::Candidate;
using decide::Choice;
using decide::Point;
using decide::PointKind;
using decide::Refusal;

// What a value is refused for is decided without applying anything: registers, unrolled body,
// vector length, workspace.
class Sketch : public decide::Sketch {
 public:
  // The steps. Whatever is legal applies, lowers and builds: a failure is a defect.
  virtual Result<schedule::Schedule> write(Choice choice) const = 0;

  const char* value_before(const Point& point) const override;
};

}  // namespace tessera::space
