// A measurer that answers at once what a test says, in place of worker processes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tessera/trials/measure/measurer.h"

namespace tessera::measure {

class FakeMeasurer final : public Measurer {
 public:
  // Fills in what came of the trial; its id is set. `side_by_side`: asked by compare().
  using Answer = std::function<void(const Trial& trial, bool side_by_side, Measurement* m)>;

  explicit FakeMeasurer(Answer answer) : answer_(std::move(answer)) {}

  void submit(std::vector<Trial> trials) override {
    std::move(trials.begin(), trials.end(), std::back_inserter(queue_));
  }
  std::vector<Measurement> collect(double) override {
    if (queue_.empty()) return {};
    std::vector<Measurement> out = {answer(queue_.front(), false)};
    queue_.erase(queue_.begin());
    return out;
  }
  std::size_t pending() const override { return queue_.size(); }
  void cancel() override { queue_.clear(); }
  std::vector<Measurement> compare(const std::vector<Trial>& trials) override {
    std::vector<Measurement> out;
    for (const Trial& t : trials) out.push_back(answer(t, true));
    return out;
  }
  MachineState machine() const override { return {}; }

 private:
  Measurement answer(const Trial& trial, bool side_by_side) const {
    Measurement m;
    m.id = trial.id;
    answer_(trial, side_by_side, &m);
    return m;
  }

  Answer answer_;
  std::vector<Trial> queue_;
};

}  // namespace tessera::measure
