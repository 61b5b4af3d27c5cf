// Measured candidates of many tasks as files that can be moved: what models learn from.
//
// A folder:
//   dataset.json      version, machines, networks with their tasks and weights, files with
//                     checksums
//   tasks.jsonl.gz    one task a line: key, name, definition (te text), flops, bytes
//   records-NNN.jsonl.gz  one record a line, those of a task together: task, machine, seconds,
//                     outcome, quiet
//   schedules-NNN.bin.gz  their candidates and steps, in the same order (text_column.h)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::dataset {

struct TaskInfo {
  std::string key, name, format;  // format: "tessera", or "ansor": no definition is known
  std::string definition;         // te::to_text; of ansor: the workload key
  double flops = 0, bytes = 0;
  friend bool operator==(const TaskInfo&, const TaskInfo&) = default;
};

struct NetworkInfo {
  std::string name;  // "resnet50", "mobilenet_v3_small@size=192"
  // Key of a task -> how often the network runs it; 0: it could, with other algorithms.
  std::map<std::string, int> weights;
  friend bool operator==(const NetworkInfo&, const NetworkInfo&) = default;
};

// A machine with the number of threads of the measured code.
struct MachineInfo {
  // target::to_text, or the foreign target string, followed by " folder=" with that of the log and
  // " hw=" with Ansor's numbers of the hardware (cores, vector bytes, line bytes, ...).
  std::string target;
  int threads = 1;
  friend bool operator==(const MachineInfo&, const MachineInfo&) = default;
};

struct Example {
  std::int32_t task = 0, machine = 0;  // indices into Dataset::tasks, machines
  std::string candidate;               // text of space::Space::to_text, or the foreign steps
  float seconds = 0;                   // 0: failed
  std::string outcome;                 // measure::to_text
  std::string schedule;                // the steps that ran; empty: not known, or foreign
  bool quiet = false;                  // as record::Record::quiet
  friend bool operator==(const Example&, const Example&) = default;
};

struct Dataset {
  std::vector<MachineInfo> machines;
  std::vector<NetworkInfo> networks;
  std::vector<TaskInfo> tasks;    // also those of networks that have no examples
  std::vector<Example> examples;  // grouped by task

  // Keys of the tasks of the named networks; kInvalidArgument lists the names. "tenset5" stands for
  // those of the five hold-out networks that the dataset has.
  Result<std::vector<std::string>> tasks_of(const std::vector<std::string>& wanted) const;
  // The names with "tenset5" spelled out. Errors as tasks_of.
  Result<std::vector<std::string>> network_names(const std::vector<std::string>& wanted) const;
};

inline constexpr const char* kTenset5 = "tenset5";
// ResNet-50, MobileNet-V2, ResNeXt-50, BERT-tiny and BERT-base, by their names in a dataset.
const std::vector<std::string>& holdout_networks();

// 16 hex digits of tasks, machines and examples: caches compare it.
std::string digest(const Dataset& dataset);

// `folder` is written whole or not at all.
Result<void> save(const Dataset& dataset, const std::string& folder);
// kIo: a file is damaged or missing (checksums are compared), kUnsupported: a newer version.
Result<Dataset> load(const std::string& folder);

// A file of a dataset with what its manifest says.
struct FileCheck {
  std::string name;
  std::uint64_t bytes = 0;
  std::string crc32;    // 8 hex digits
  std::string problem;  // empty: it is as the manifest says
};
// Compares every file with the manifest. Errors only where there is no manifest to compare with.
Result<std::vector<FileCheck>> verify(const std::string& folder);

enum class SplitKind : std::uint8_t { kWithinTask, kByTask, kByNetwork };
const char* to_text(SplitKind kind);  // "within-task", "by-task", "by-network"
Result<SplitKind> split_kind_from_text(const std::string& text);  // also with hyphens
inline constexpr std::uint8_t kTrain = 0, kValidation = 1, kTest = 2, kLeftOut = 3;
struct Split {
  // Per example: kTrain, kValidation, kTest or kLeftOut.
  std::vector<std::uint8_t> part;
};
struct SplitOptions {
  SplitKind kind = SplitKind::kByNetwork;
  std::vector<std::string> holdout = {"tenset5"};  // kByNetwork: test networks, excluded by task
  double test = 0.1, validation = 0.1;             // shares; kByNetwork: validation of the rest
  std::size_t most_tasks = 0, most_per_task = 0;   // of the training part; 0: all
  std::uint64_t seed = 1;
  // Tasks of one reduction (te::reduction_of) are never in two parts: those outside the test part
  // that have a reduction of it are left out. Else tasks are told apart by their keys alone, and
  // the same product with another epilogue may be learned from.
  bool by_reduction = false;
  bool quiet = false;  // leaves out what was not quiet
};
// Validation and test tasks are disjoint from training tasks except for kWithinTask. The part of a
// task (kWithinTask: of a candidate) follows from its key, the seed and the shares alone, so that
// it stays where it is when the dataset grows; shares hold on average. Two exceptions: tasks with
// fewer than 16 timed examples are left out of test, and where no task would validate, one of
// several does.
Result<Split> split(const Dataset& dataset, const SplitOptions& options);

// What a split looks at of an example.
struct SplitRow {
  std::int32_t task = 0;
  bool timed = false, quiet = false;
  double part = 0, order = 0;  // places in [0, 1) that follow from task, candidate and seed
};
SplitRow split_row(const Dataset& header, const Example& example, std::uint64_t seed);
// Of rows of the examples, in their order and with the seed of the options: `header` has all but
// the examples.
Result<Split> split(const Dataset& header, const std::vector<SplitRow>& rows,
                    const SplitOptions& options);

// Leaves out of the test part the tasks with a reduction of a training or validation task.
void keep_unseen_reductions(const Dataset& dataset, Split* split);

}  // namespace tessera::dataset
