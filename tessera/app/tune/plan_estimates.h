// What plans are believed to take before anything is measured: the sum of their kernels by a cost
// model of kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/task/task.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

class PlanEstimates {
 public:
  // Files that judge together; none: nothing is known of any kernel.
  static Result<PlanEstimates> make(const std::vector<std::string>& models,
                                    const target::Target& target, int threads);

  // One run of a kernel with its default schedule, kept for the next time; 0: the model cannot
  // tell.
  double seconds(const task::Task& task);
  // Of all kernels, each as often as it runs; those that nothing is known of count as 0.
  double seconds(const std::vector<task::Task>& tasks);

 private:
  std::shared_ptr<const model::CostModel> model_;
  target::Target target_;
  int threads_ = 1;
  std::map<std::string, double> known_;  // by key
};

}  // namespace tessera::app
