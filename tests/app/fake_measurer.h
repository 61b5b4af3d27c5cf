// A measurer that answers at once what a test says, in place of worker processes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tessera/app/tune/tune.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

class FakeMeasurer final : public measure::Measurer {
 public:
  // Fills in what came of the trial; its id is set. `side_by_side`: asked by compare().
  using Answer =
      std::function<void(const measure::Trial& trial, bool side_by_side, measure::Measurement* m)>;

  explicit FakeMeasurer(Answer answer) : answer_(std::move(answer)) {}

  void submit(std::vector<measure::Trial> trials) override {
    std::move(trials.begin(), trials.end(), std::back_inserter(queue_));
  }
  std::vector<measure::Measurement> collect(double) override {
    if (queue_.empty()) return {};
    std::vector<measure::Measurement> out = {answer(queue_.front(), false)};
    queue_.erase(queue_.begin());
    return out;
  }
  std::size_t pending() const override { return queue_.size(); }
  void cancel() override { queue_.clear(); }
  std::vector<measure::Measurement> compare(const std::vector<measure::Trial>& trials) override {
    std::vector<measure::Measurement> out;
    for (const measure::Trial& t : trials) out.push_back(answer(t, true));
    return out;
  }
  measure::MachineState machine() const override { return {}; }

 private:
  measure::Measurement answer(const measure::Trial& trial, bool side_by_side) const {
    measure::Measurement m;
    m.id = trial.id;
    answer_(trial, side_by_side, &m);
    return m;
  }

  Answer answer_;
  std::vector<measure::Trial> queue_;
};

inline void use_answers(FakeMeasurer::Answer answer, TuneOptions* options) {
  options->start_measurer = [answer](const auto&...) -> Result<std::unique_ptr<measure::Measurer>> {
    return std::unique_ptr<measure::Measurer>(std::make_unique<FakeMeasurer>(answer));
  };
}

}  // namespace tessera::app
