// What `tessera bench` prints, for operations and models alike.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/bench/bench_op.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/plan_args.h"
#include "tessera/support/json.h"

namespace tessera::cli {

Json to_json(const app::BenchResult& r);
// Of quantised models with another way to compute them.
Json to_json(const app::OutputAgreement& a);
std::string to_text(const app::OutputAgreement& a);
void print_header();
void print_row(const app::BenchResult& r, bool times);
void print_summary(const std::vector<app::BenchResult>& results);

struct ModelBenchArgs {
  std::string inputs;
  PlanArgs plan;
  std::vector<std::string> beside;  // other plans, or "defaults"
  bool profile = false, no_plan = false, no_cache = false;
};

struct BenchRun {
  target::Target target;
  int threads = 1;
  std::vector<std::string> peers;
  runtime::TimingOptions timing;
  double warmup_s = 0;
  std::string record;  // folder; empty: the run is not kept
};

// Times models one after another and prints them; returns the exit code.
int bench_models(const std::vector<std::string>& models, const ModelArgs& flags,
                 const ModelBenchArgs& args, const BenchRun& run, bool json, bool markdown);

}  // namespace tessera::cli
