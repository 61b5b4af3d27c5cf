#include "tessera/trials/measure/measurement.h"

#include <algorithm>
#include <limits>

namespace tessera::measure {
namespace {

struct Row {
  Outcome outcome;
  const char* text;
};

constexpr Row kRows[] = {
    {Outcome::kOk, "ok"},
    {Outcome::kCensored, "censored"},
    {Outcome::kInvalidStatic, "invalid_static"},
    {Outcome::kBuildError, "build_error"},
    {Outcome::kBuildTimeout, "build_timeout"},
    {Outcome::kRunError, "run_error"},
    {Outcome::kRunTimeout, "run_timeout"},
    {Outcome::kWrongResult, "wrong_result"},
    {Outcome::kOutOfBounds, "out_of_bounds"},
    {Outcome::kWorkerLost, "worker_lost"},
    {Outcome::kCompilerBug, "compiler_bug"},
};

}  // namespace

const char* to_text(Outcome outcome) {
  for (const Row& row : kRows) {
    if (row.outcome == outcome) return row.text;
  }
  return "unknown";
}

bool outcome_from_text(const std::string& text, Outcome* outcome) {
  for (const Row& row : kRows) {
    if (text != row.text) continue;
    *outcome = row.outcome;
    return true;
  }
  return false;
}

double Measurement::seconds() const {
  if (samples_s.empty()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = samples_s;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double without_drift(double seconds, double calibration_s, double reference_s) {
  if (calibration_s <= 0 || reference_s <= 0) return seconds;
  return seconds * (reference_s / calibration_s);
}

}  // namespace tessera::measure
