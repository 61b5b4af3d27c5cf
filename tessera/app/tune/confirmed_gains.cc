#include "tessera/app/tune/confirmed_gains.h"

#include <algorithm>
#include <cmath>

#include "tessera/machine/runtime/timing.h"

namespace tessera::app {
namespace {

constexpr std::size_t kFewSamples = 6;

}  // namespace

void ConfirmedGains::keep_default(std::size_t task, const std::string& candidate) {
  tasks_[task].candidate = candidate;
  tasks_[task].gain = 1;
}

double ConfirmedGains::confirm(std::size_t task, const std::string& candidate, double default_s,
                               double candidate_s) {
  Task& t = tasks_[task];
  t.candidate = candidate;
  t.gain = default_s / candidate_s;
  Sum& sum = t.compared[candidate];
  sum.logs += std::log(t.gain);
  ++sum.count;
  return std::exp(sum.logs / sum.count);
}

std::vector<double> ConfirmedGains::seconds(const std::vector<double>& defaults) const {
  std::vector<double> out;
  for (std::size_t t = 0; t < tasks_.size(); ++t) out.push_back(defaults[t] / tasks_[t].gain);
  return out;
}

Halves halves_of(const std::vector<double>& samples_s) {
  runtime::Samples even, odd;
  for (std::size_t i = 0; i < samples_s.size(); ++i) {
    if (i % 2 == 0 || samples_s.size() < kFewSamples) even.call_s.push_back(samples_s[i]);
    if (i % 2 == 1 || samples_s.size() < kFewSamples) odd.call_s.push_back(samples_s[i]);
  }
  if (even.call_s.empty()) return {};
  return {even.median_s(), odd.median_s()};
}

}  // namespace tessera::app
