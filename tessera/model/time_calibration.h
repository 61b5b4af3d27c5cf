// How far predicted times of whole networks are off: estimated on networks that a model has not
// seen, kept in the notes of its file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::model {

// Errors are log2(measured / predicted). That of a task is `bias`, plus a part that all tasks of a
// network share, plus a part of its own; `rho` is the share of the first in the variance sigma^2.
struct TimeCalibration {
  double bias = 0, sigma = 0, rho = 1;
  // 10 % and 90 % quantiles of the errors of whole networks, in the deviations that the above
  // gives them.
  double low = -1.2816, high = 1.2816;
  int networks = 0;  // that it was estimated on

  // What the records of tasks of one kind (the name of their first operator) gained over schedules
  // like the default: log2 of time over best time; `promised` is what the model said of it.
  struct Gain {
    double gained = 0, promised = 0;
    friend bool operator==(const Gain&, const Gain&) = default;
  };
  std::map<std::string, Gain> gains;  // by kind; "": of all
  double gain_slope = 0, most_gain = 0;

  // Of a task for which the model promises log2 `promised`.
  double expected_gain(const std::string& kind, double promised) const;
  friend bool operator==(const TimeCalibration&, const TimeCalibration&) = default;
};

struct TimeInterval {
  double low_s = 0, seconds = 0, high_s = 0;  // 10 %, 50 %, 90 %
};
// Of a network whose tasks are predicted to take so many seconds, all their uses together.
TimeInterval predict_total(const std::vector<double>& task_seconds, const TimeCalibration& c);

struct TaskError {
  std::string task;
  double seconds = 0;  // predicted, all uses
  double error = 0;
};
using NetworkErrors = std::vector<TaskError>;

// `gains` are left empty. Needs two networks.
TimeCalibration fit_calibration(const std::vector<NetworkErrors>& networks);

struct Coverage {
  int networks = 0, covered = 0;
  double share() const { return networks > 0 ? static_cast<double>(covered) / networks : 0; }
};
// How often the interval holds what was measured of a network, when it is estimated on the others
// without the tasks that they share with it (so that several looks at one network may be given).
Coverage leave_one_out(const std::vector<NetworkErrors>& networks);

// "conv" of "conv+add+max".
std::string kind_of_task(const std::string& name);

// In one note of a network file; nothing where there is none or it cannot be read.
void note_calibration(const TimeCalibration& c, std::map<std::string, std::string>* notes);
std::optional<TimeCalibration> calibration_of(const std::map<std::string, std::string>& notes);

}  // namespace tessera::model
