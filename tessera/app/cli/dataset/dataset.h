// The subcommands of `tessera dataset`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/app/cli/common/flags.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/graphset/config_graph.h"

namespace tessera::cli {

void add_dataset_collect(Flags& app, std::function<int()>* run);
void add_dataset_sample(Flags& dataset, std::function<int()>* run);
void add_dataset_build(Flags& dataset, std::function<int()>* run);
void add_dataset_measure(Flags& dataset, std::function<int()>* run);
void add_dataset_generate(Flags& dataset, std::function<int()>* run);
void add_dataset_graphs(Flags& app, std::function<int()>* run);
void add_dataset_import(Flags& app, std::function<int()>* run);
void add_dataset_export(Flags& app, std::function<int()>* run);
void add_dataset_show(Flags& app, std::function<int()>* run);
void add_dataset_stats(Flags& app, std::function<int()>* run);
void add_dataset_split(Flags& app, std::function<int()>* run);
void add_dataset_replay(Flags& app, std::function<int()>* run);
void add_dataset_update(Flags& app, std::function<int()>* run);
void add_dataset_verify(Flags& app, std::function<int()>* run);

// One file where `output` is one, else a folder with a file for each graph.
Result<void> write_graphs(const std::vector<graphset::ConfigGraph>& graphs,
                          const std::string& output);

// Converts raw protobufs of TpuGraphs; returns an exit code.
int import_graphs(const std::vector<std::string>& files, const std::string& output);

// Flags of a split; `kind` is read after parsing.
struct SplitArgs {
  std::string kind = "by-network";
  dataset::SplitOptions options;
};
void add_split_options(Flags& app, SplitArgs* args);

}  // namespace tessera::cli
