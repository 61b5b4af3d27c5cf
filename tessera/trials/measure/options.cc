#include "tessera/trials/measure/options.h"

namespace tessera::measure {

MeasureOptions survey_options() {
  MeasureOptions options;
  options.min_samples = 3;
  options.max_samples = 8;
  options.sample_s = 5e-4;
  options.trial_limit_s = 0.1;
  options.loser_factor = 1.5;
  return options;
}

}  // namespace tessera::measure
