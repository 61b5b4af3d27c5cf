#include "tessera/app/quantize/calibrate.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera::app {
namespace {

// Channels of a tensor: element i belongs to i / stride % count.
struct Channels {
  std::int64_t count = 1, stride = 1;
};

Channels channels_of(const Shape& shape, bool is_image) {
  if (shape.empty()) return {};
  if (!is_image || shape.size() < 2) return {shape.back(), 1};
  Channels c{shape[1], 1};
  for (std::size_t d = 2; d < shape.size(); ++d) c.stride *= shape[d];
  return c;
}

// Adds one sample of `tensor`; false: a number is not finite.
bool add_sample(const HostTensor& tensor, const Channels& channels, Observed* seen) {
  if (seen->mean.empty()) {
    seen->mean.resize(static_cast<std::size_t>(channels.count));
    seen->peak.resize(static_cast<std::size_t>(channels.count));
  }
  const float* values = tensor.as<float>();
  double low = seen->low, high = seen->high;
  for (std::int64_t i = 0; i < tensor.size(); i += channels.stride) {
    const auto c = static_cast<std::size_t>(i / channels.stride % channels.count);
    double sum = 0;
    float least = values[i], most = values[i];
    for (std::int64_t k = i; k < i + channels.stride; ++k) {
      sum += values[k];
      least = std::min(least, values[k]);
      most = std::max(most, values[k]);
    }
    if (!std::isfinite(sum)) return false;
    seen->mean[c] += sum;
    seen->peak[c] = std::max({seen->peak[c], std::abs(double{least}), std::abs(double{most})});
    low = std::min(low, double{least});
    high = std::max(high, double{most});
  }
  seen->low = low;
  seen->high = high;
  return true;
}

void add_counts(const HostTensor& tensor, Observed* seen) {
  const double width = seen->high - seen->low;
  if (width == 0) return;
  const double parts = kHistogramParts;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const double at = (tensor.as<float>()[i] - seen->low) / width * parts;
    const auto part = std::min(static_cast<std::size_t>(std::max(at, 0.0)), kHistogramParts - 1);
    seen->counts[part] += 1;
  }
}

}  // namespace

Result<void> step_done(const QuantizeCallbacks& callbacks, const std::string& stage,
                       std::size_t done, std::size_t total) {
  if (callbacks.progress) callbacks.progress(stage, done, total);
  if (callbacks.interrupted && callbacks.interrupted())
    return make_error(ErrorCode::kRunFailed, "interrupted; nothing was written");
  return {};
}

Result<std::map<std::string, Observed>> observe(onnx::Model model,
                                                const std::vector<Watched>& watched,
                                                const std::vector<Sample>& samples, bool histograms,
                                                const CompileOptions& options,
                                                const QuantizeCallbacks& callbacks) {
  model.graph.outputs.clear();
  std::set<std::string> seen_names;
  std::vector<Watched> unique;
  for (const Watched& w : watched) {
    if (!seen_names.insert(w.value).second) continue;
    unique.push_back(w);
    model.graph.outputs.push_back({.name = w.value, .type = "f32"});
  }
  TESSERA_TRY(SampleRunner runner, SampleRunner::open(std::move(model), options));
  std::vector<Observed> all(unique.size());
  std::vector<double> numbers(unique.size(), 0);  // per channel
  const std::size_t total = samples.size() * (histograms ? 2 : 1);
  for (std::size_t s = 0; s < total; ++s) {
    const bool counting = s >= samples.size();
    TESSERA_DO(runner.run(samples[s % samples.size()]));
    for (std::size_t i = 0; i < unique.size(); ++i) {
      const HostTensor t = runner.output(i);
      if (t.dtype() != DType::kF32) {
        return make_error(ErrorCode::kUnsupported, "'{}' is {} instead of f32", unique[i].value,
                          to_text(t.dtype()));
      }
      if (counting) {
        all[i].counts.resize(kHistogramParts);
        add_counts(t, &all[i]);
        continue;
      }
      const Channels channels = channels_of(t.shape(), unique[i].is_image);
      if (!add_sample(t, channels, &all[i])) {
        return make_error(ErrorCode::kInvalidArgument,
                          "sample {}: '{}' has values that are not finite", s + 1, unique[i].value);
      }
      numbers[i] += static_cast<double>(t.size() / std::max<std::int64_t>(channels.count, 1));
    }
    TESSERA_DO(step_done(callbacks, "calibrating", s + 1, total));
  }
  std::map<std::string, Observed> out;
  for (std::size_t i = 0; i < unique.size(); ++i) {
    for (double& m : all[i].mean) m /= std::max(numbers[i], 1.0);
    out[unique[i].value] = std::move(all[i]);
  }
  return out;
}

}  // namespace tessera::app
