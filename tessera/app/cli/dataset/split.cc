// tessera dataset split: training, validation and test.
#include <algorithm>
#include <memory>
#include <set>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/support/json.h"
#include "tessera/support/npz.h"

namespace tessera::cli {
namespace {

struct SplitCommandArgs {
  std::string folder, output;
  SplitArgs split;
  bool json = false;
};

constexpr const char* kParts[] = {"train", "validation", "test", "left out"};

struct PartCounts {
  std::size_t records = 0, valid = 0;
  std::set<std::int32_t> tasks;
};

Result<void> write_split(const dataset::Split& split, const std::string& path) {
  HostTensor part(DType::kU8, {static_cast<std::int64_t>(split.part.size())});
  std::copy(split.part.begin(), split.part.end(), part.as<std::uint8_t>());
  return write_npz(path, {{"part", part}}, true);
}

Result<void> show_split(const SplitCommandArgs& args) {
  dataset::SplitOptions options = args.split.options;
  TESSERA_TRY(options.kind, dataset::split_kind_from_text(args.split.kind));
  TESSERA_TRY(const dataset::DatasetReader reader, dataset::DatasetReader::open(args.folder));
  std::vector<dataset::SplitRow> rows;
  TESSERA_DO(reader.visit([&](dataset::Example& e) -> Result<void> {
    rows.push_back(dataset::split_row(reader.header(), e, options.seed));
    return {};
  }));
  TESSERA_TRY(const dataset::Split split, dataset::split(reader.header(), rows, options));
  PartCounts counts[std::size(kParts)];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PartCounts& c = counts[split.part[i]];
    ++c.records;
    c.valid += rows[i].timed ? 1 : 0;
    c.tasks.insert(rows[i].task);
  }
  if (!args.output.empty()) TESSERA_DO(write_split(split, args.output));
  Json json;
  if (!args.json) fmt::print("{:<12} {:>8} {:>8} {:>8}\n", "part", "tasks", "records", "valid");
  for (std::size_t p = 0; p < std::size(kParts); ++p) {
    const PartCounts& c = counts[p];
    json[kParts[p]] = {{"tasks", c.tasks.size()}, {"records", c.records}, {"valid", c.valid}};
    if (!args.json) {
      fmt::print("{:<12} {:>8} {:>8} {:>8}\n", kParts[p], c.tasks.size(), c.records, c.valid);
    }
  }
  if (args.json) print_json(json);
  return {};
}

int run_split(const SplitCommandArgs& args) {
  const Result<void> shown = show_split(args);
  return shown ? static_cast<int>(kOk) : report(shown.error());
}

}  // namespace

void add_split_options(Flags& app, SplitArgs* args) {
  app.add_option("--split", args->kind, "within-task, by-task or by-network");
  app.add_option("--holdout", args->options.holdout,
                 "Test networks of by-network, comma-separated; tenset5: the five of TenSet")
      ->delimiter(',');
  app.add_option("--test", args->options.test, "Share of the test part (not by-network)")
      ->check(range(0.0, 1.0));
  app.add_option("--validation", args->options.validation, "Share of the validation part")
      ->check(range(0.0, 1.0));
  app.add_option("--tasks", args->options.most_tasks, "Train on at most this many tasks");
  app.add_option("--per-task", args->options.most_per_task,
                 "Train on at most this many candidates of a task");
  app.add_flag("--by-reduction", args->options.by_reduction,
               "No part has a reduction (expression and shapes) of another part");
  app.add_flag("--quiet", args->options.quiet,
               "Only records taken while nothing else used the cores");
  app.add_option("--seed", args->options.seed, "Seed of the random split");
}

void add_dataset_split(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("split", "Divide a dataset into training, validation and test");
  const auto args = std::make_shared<SplitCommandArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset")->required();
  add_split_options(*sub, &args->split);
  sub->add_option("-o,--output", args->output, "npz file: the part of every record, 0 to 3");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer(
      "Examples:\n  tessera dataset split my.ds\n"
      "  tessera dataset split my.ds --split by-network --holdout resnet18 -o parts.npz");
  sub->callback([args, run] { *run = [args] { return run_split(*args); }; });
}

}  // namespace tessera::cli
