// The parts of `tessera lm`.
#pragma once

#include <functional>
#include <string>

#include "tessera/app/cli/common/flags.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/written_task.h"
#include "tessera/learn/lm/generate.h"

namespace tessera::cli {

void add_lm(Flags& app, std::function<int()>* run);

void add_lm_corpus(Flags& lm, std::function<int()>* run);
void add_lm_eval(Flags& lm, std::function<int()>* run);
void add_lm_generate(Flags& lm, std::function<int()>* run);
void add_lm_show(Flags& lm, std::function<int()>* run);

// Flags that `generate` and `show` share, and more of `generate`.
struct LmArgs {
  std::string op, task, target = "host", data, weights = app::kShipped, device = "cpu";
  int threads = 0;
  std::size_t count = 10, beams = 0;
  lm::GenerateOptions generate;
  double quality = 1;
  std::uint64_t seed = 1;
  bool json = false, profile = false, unconstrained = false;
};

void add_task_options(Flags* sub, LmArgs* args);
Result<app::WrittenTask> make_task(const LmArgs& args, bool with_best);

}  // namespace tessera::cli
