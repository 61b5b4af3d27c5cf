// tessera dataset import: a dataset of databases and logs.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/dataset_import.h"
#include "tessera/support/counted.h"
#include "tessera/support/model_name.h"

namespace tessera::cli {
namespace {

struct ImportArgs {
  std::vector<std::string> files, networks;
  std::string output, from, subject = "alone";
  bool quiet = false, apart = false;
};

// A file of names where one has the name, else the name itself.
Result<std::vector<std::string>> names_of(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (names_model(word)) {
      out.push_back(word);
      continue;
    }
    TESSERA_TRY(const std::vector<std::string> names, app::read_names(word));
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

Result<app::ImportResult> import_and_save(const ImportArgs& args) {
  app::ImportOptions options;
  options.files = args.files;
  options.in_place = args.subject == "in-place";
  options.quiet = args.quiet;
  options.apart = args.apart;
  TESSERA_TRY(options.networks, names_of(args.networks));
  ProgressLine line;
  options.progress = [&](const std::string& what) { line.show(what); };
  return app::import_dataset(options, args.output);
}

int run_import(const ImportArgs& args) {
  if (args.from == "tpugraphs") return import_graphs(args.files, args.output);
  const Result<app::ImportResult> done = import_and_save(args);
  if (!done) return report_model(done.error());
  const dataset::Dataset& d = done->header;
  fmt::print(
      "{}: {} of {}, {}, {}; {} read, {} of a "
      "schedule, {} left out\n",
      args.output, counted(done->examples, "record"), counted(d.tasks.size(), "task"),
      counted(d.networks.size(), "network"), counted(d.machines.size(), "machine"), done->read,
      counted(done->duplicates, "further measurement"),
      done->dropped + done->without_steps + done->loud);
  if (done->without_steps > 0) {
    fmt::print(
        "{} records of an older version have no steps, and today's spaces do not have their "
        "candidates\n",
        done->without_steps);
  }
  if (done->loud > 0) fmt::print("{} records were not quiet\n", done->loud);
  return kOk;
}

}  // namespace

void add_dataset_import(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("import", "Make a dataset of databases and logs");
  const auto args = std::make_shared<ImportArgs>();
  sub->add_option("FILE", args->files,
                  "Databases of records, their exports, datasets, logs of Ansor, TenSet and "
                  "AutoTVM (.gz too)")
      ->required();
  sub->add_option("--from", args->from,
                  "records, or tpugraphs: raw protobufs of its tuning, written as npz")
      ->check(one_of({"records", "tpugraphs"}));
  sub->add_option("--subject", args->subject,
                  "Times of kernels alone, or in-place: inside running models, by the ratio to "
                  "the default there")
      ->check(one_of({"alone", "in-place"}));
  sub->add_option("--networks", args->networks,
                  "Models whose tasks are weighed (zoo:NAME, .onnx), or a file of such names; "
                  "without: the zoo models that the databases name")
      ->allow_extra_args(true);
  sub->add_option("-o,--output", args->output, "Folder of the dataset, or an npz file of one graph")
      ->required();
  sub->add_flag("--quiet", args->quiet, "Only records taken while nothing else used the cores");
  sub->add_flag("--apart", args->apart,
                "Machines of different files are different ones, whatever their targets say: times "
                "of two days or hosts are not compared");
  sub->footer(
      "Examples:\n  tessera dataset import a.db b.db -o my.ds\n"
      "  tessera dataset import a.db --networks zoo:resnet18 -o my.ds --quiet");
  sub->callback([args, run] { *run = [args] { return run_import(*args); }; });
}

}  // namespace tessera::cli
