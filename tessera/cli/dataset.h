// The subcommands of `tessera dataset`.
#pragma once

#include <functional>
#include <string>

#include "tessera/dataset/dataset.h"

namespace CLI {
class App;
}

namespace tessera::cli {

void add_dataset_import(CLI::App& app, std::function<int()>* run);
void add_dataset_export(CLI::App& app, std::function<int()>* run);
void add_dataset_stats(CLI::App& app, std::function<int()>* run);
void add_dataset_split(CLI::App& app, std::function<int()>* run);
void add_dataset_replay(CLI::App& app, std::function<int()>* run);
void add_dataset_update(CLI::App& app, std::function<int()>* run);
void add_dataset_verify(CLI::App& app, std::function<int()>* run);

// Flags of a split; `kind` is read after parsing.
struct SplitArgs {
  std::string kind = "by-network";
  dataset::SplitOptions options;
};
void add_split_options(CLI::App& app, SplitArgs* args);
Result<dataset::Split> split_of(const dataset::Dataset& dataset, const SplitArgs& args);

}  // namespace tessera::cli
