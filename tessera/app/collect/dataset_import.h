// Databases of records, other datasets and logs of other programs as a dataset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/learn/dataset/dataset.h"

namespace tessera::app {

// What the machines of a dataset end with whose times are those of kernels inside running models:
// they do not mix with times of kernels alone.
inline constexpr const char* kInPlaceMark = " subject=in_place";

struct ImportOptions {
  // Databases, their exports as JSON lines, logs of Ansor, TenSet and AutoTVM, plain or gzip;
  // folders of datasets, whose networks are kept. What each is follows from its content.
  std::vector<std::string> files;
  // Models whose uses of tasks are counted: zoo:NAME[@parameter=value,...] or ONNX files. Empty:
  // the zoo models that the sessions of the databases name. Of a choice between algorithms the
  // option taken without tuning counts.
  std::vector<std::string> networks;
  // Records of trials inside running models, and datasets of them, instead of kernels alone.
  bool in_place = false;
  bool quiet = false;  // only records measured while nothing else used the cores
  // Machines of different files are different ones, whatever their targets say: times of two days
  // or hosts do not compare.
  bool apart = false;
  std::function<void(const std::string& what)> progress;
};

struct ImportResult {
  dataset::Dataset header;  // all but the examples, which are in the folder
  std::size_t examples = 0;
  std::size_t read = 0;        // records of all files
  std::size_t duplicates = 0;  // further measurements of a schedule
  // Lost workers, crashes of the compiler, records of unknown tasks, times in place without that of
  // the default beside them.
  std::size_t dropped = 0;
  std::size_t without_steps = 0;  // of older programs, whose candidates today's spaces do not have
  std::size_t loud = 0;           // not quiet, where only quiet ones are wanted
};

// Times are corrected by the calibration beside them to the median calibration of their machine in
// that file. Of several measurements of a schedule the median of the clean ones counts, of those
// that were quiet if any was. Logs give
// one network each, named after the file, that runs every task once; those of different folders are
// of different machines, for a target string does not tell two cards apart.
// In place, times are told by the default instead: its median in the file, of that task on that
// machine, times the ratio to the default of the same batch. Logs, and datasets of what is not
// wanted, are refused (kInvalidArgument).
// The dataset is written to `folder`, whole or not at all, and beside it on the way; memory does
// not depend on the number of records.
Result<ImportResult> import_dataset(const ImportOptions& options, const std::string& folder);

// How often each model runs each task, by key, under the name without "zoo:". Adds those of its
// tasks that `tasks` does not have. Models are loaded in each of these ways; on GPUs a network has
// the tasks of all types that it may be run in.
Result<dataset::NetworkInfo> network_info(const std::string& model,
                                          const std::vector<CompileOptions>& loads,
                                          std::vector<dataset::TaskInfo>* tasks);

// How models are loaded for these machines: once for all processors, in f32 and f16 for a kind of
// GPU.
std::vector<CompileOptions> loads_for(const std::vector<dataset::MachineInfo>& machines);

// The networks of a dataset as the zoo has them today, with the definitions of all their tasks;
// those that it does not have stay.
void read_networks_again(dataset::Dataset* dataset,
                         const std::function<void(const std::string& what)>& progress);

// One name a line; empty lines and comments (#) are passed over.
Result<std::vector<std::string>> read_names(const std::string& path);

}  // namespace tessera::app
