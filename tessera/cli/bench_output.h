// What `tessera bench` prints, for operations and models alike.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tessera/cli/model_args.h"
#include "tessera/driver/bench_op.h"

namespace tessera::cli {

nlohmann::ordered_json to_json(const driver::BenchResult& r);
void print_row(const driver::BenchResult& r, bool times);
void print_summary(const std::vector<driver::BenchResult>& results);

struct ModelBenchArgs {
  std::string inputs;
  bool profile = false, no_plan = false;
};

// Times one model and prints it; returns the exit code.
int bench_one_model(const ModelArgs& model, const ModelBenchArgs& args, int threads,
                    const std::vector<std::string>& peers, const runtime::TimingOptions& timing,
                    bool json);

}  // namespace tessera::cli
