// tessera dataset export.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/tile_graphs.h"
#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/dataset/features.h"
#include "tessera/support/file_writer.h"
#include "tessera/support/hash.h"
#include "tessera/trials/record/json_lines.h"

namespace tessera::cli {
namespace {

struct ExportArgs {
  std::string folder, output, format = "jsonl", rows = "statement";
  app::TileGraphsOptions tiles;
  int threads = 0;
};

record::Record record_of(const dataset::Dataset& d, const dataset::Example& e) {
  const dataset::TaskInfo& task = d.tasks[static_cast<std::size_t>(e.task)];
  const dataset::MachineInfo& machine = d.machines[static_cast<std::size_t>(e.machine)];
  record::Record r;
  r.format = task.format;
  r.task = task.format == "tessera" ? task.key : task.definition;
  r.target = machine.target;
  r.threads = machine.threads;
  r.candidate = e.candidate;
  r.schedule = e.schedule;
  if (!e.schedule.empty()) r.schedule_digest = to_hex(hash_bytes(e.schedule));
  r.quiet = e.quiet;
  r.outcome = e.outcome;
  r.seconds = static_cast<double>(e.seconds);
  return r;
}

// As `tessera db export` writes them: `tessera dataset import` and `tessera db import` read it.
Result<void> export_lines(const std::string& folder, const std::string& path) {
  TESSERA_TRY(const dataset::DatasetReader reader, dataset::DatasetReader::open(folder));
  TESSERA_TRY(FileWriter file, FileWriter::create(path));
  const auto write = [&](const record::Row& row) {
    return file.write(record::to_json_line(row) + "\n");
  };
  for (const dataset::TaskInfo& t : reader.header().tasks) {
    if (t.format != "tessera") continue;
    TESSERA_DO(write(record::TaskRow{t.key, t.name, t.definition, t.flops, t.bytes}));
  }
  TESSERA_DO(
      reader.visit([&](dataset::Example& e) { return write(record_of(reader.header(), e)); }));
  return file.finish();
}

Result<void> export_features(const dataset::Dataset& d, const ExportArgs& args) {
  TESSERA_TRY(const feature::Rows kind, feature::rows_from_text(args.rows));
  ProgressLine line;
  std::size_t unreadable = 0;
  const auto progress = [&](std::size_t done, std::size_t total) {
    line.show(fmt::format("{} of {} records", done, total));
  };
  TESSERA_TRY(const std::unique_ptr<dataset::FeatureStore> store,
              dataset::open_features(d, kind, args.output, args.threads, progress, &unreadable));
  line.finish();
  fmt::print("{}: {} records, {} columns a {}, {} columns of context, {} unreadable\n", args.output,
             store->size(), store->columns(), args.rows, store->context_columns(), unreadable);
  return {};
}

Result<void> export_tiles(const dataset::Dataset& d, const ExportArgs& args) {
  TESSERA_TRY(const app::TileGraphs made, app::tile_graphs(d, args.tiles));
  TESSERA_DO(write_graphs(made.graphs, args.output));
  fmt::print("{}: {} kernels with {} records; {} with fewer than {} tiles left out\n", args.output,
             made.graphs.size(), made.records, made.few, args.tiles.least);
  return {};
}

Result<void> export_dataset(const ExportArgs& args) {
  if (args.format == "jsonl") return export_lines(args.folder, args.output);
  TESSERA_TRY(const dataset::Dataset d, dataset::load(args.folder));
  if (args.format == "npz") return export_features(d, args);
  if (args.format == "tiles") return export_tiles(d, args);
  return make_error(ErrorCode::kInvalidArgument, "no format '{}': jsonl, npz, tiles", args.format);
}

}  // namespace

void add_dataset_export(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand(
      "export", "Write a dataset as JSON lines, as numbers or as tile sets of TpuGraphs");
  const auto args = std::make_shared<ExportArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset")->required();
  sub->add_option("-o,--output", args->output, "File (jsonl) or folder (npz, tiles) to write")
      ->required();
  sub->add_option("--format", args->format,
                  "jsonl: records as `db export` writes them; npz: features in shards with a "
                  "manifest of checksums; tiles: a file for each kernel in TpuGraphs' schema");
  sub->add_option("--rows", args->rows, "With npz: a row for each statement, loop or step");
  sub->add_option("--machine", args->tiles.machine,
                  "With tiles: only records of targets that contain this text");
  sub->add_option("--least", args->tiles.least,
                  "With tiles: different tiles that a kernel must have")
      ->check(positive());
  add_threads_option(*sub, args->threads, "Threads of this program, for npz");
  sub->footer(
      "Examples:\n  tessera dataset export my.ds -o my.jsonl\n"
      "  tessera dataset export my.ds -o features --format npz --rows loop\n"
      "  tessera dataset export my.ds -o tiles --format tiles --machine cores=1");
  sub->callback([args, run] {
    *run = [args] {
      const Result<void> done = export_dataset(*args);
      return done ? static_cast<int>(kOk) : report(done.error());
    };
  });
}

}  // namespace tessera::cli
