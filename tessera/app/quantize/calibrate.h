// What values look like when a model runs on samples.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/app/quantize/samples.h"

namespace tessera::app {

// How long work reports, and is ended.
struct QuantizeCallbacks {
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> progress;
  std::function<void(const std::string&)> note;  // one line for people
  std::function<bool()> interrupted;             // asked between runs
};
// Reports a step; kRunFailed when the user interrupted.
Result<void> step_done(const QuantizeCallbacks& callbacks, const std::string& stage,
                       std::size_t done, std::size_t total);

// A value over all samples.
struct Observed {
  double low = 0, high = 0;  // 0 is always between them
  // Per channel: the mean, and the largest magnitude.
  std::vector<double> mean, peak;
  // How many numbers lie in each part of low...high, all of the same width.
  std::vector<double> counts;
};
inline constexpr std::size_t kHistogramParts = 2048;

struct Watched {
  std::string value;
  bool is_image = false;  // channels along axis 1, else along the last
};

// By value. Histograms take a second run of every sample. kInvalidArgument: a value is not finite.
Result<std::map<std::string, Observed>> observe(onnx::Model model,
                                                const std::vector<Watched>& watched,
                                                const std::vector<Sample>& samples, bool histograms,
                                                const CompileOptions& options,
                                                const QuantizeCallbacks& callbacks);

}  // namespace tessera::app
