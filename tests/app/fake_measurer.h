// Tunings whose trials a test answers.
#pragma once

#include <memory>

#include "tessera/app/tune/tune.h"
#include "tests/measure/fake_measurer.h"

namespace tessera::app {

using measure::FakeMeasurer;

inline void use_answers(FakeMeasurer::Answer answer, TuneOptions* options) {
  options->start_measurer = [answer](const auto&...) -> Result<std::unique_ptr<measure::Measurer>> {
    return std::unique_ptr<measure::Measurer>(std::make_unique<FakeMeasurer>(answer));
  };
}

}  // namespace tessera::app
