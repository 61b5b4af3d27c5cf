// tessera lm corpus: sentences to learn from.
#include <memory>
#include <mutex>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/app/collect/sentence_corpus.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/eval.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

struct CorpusArgs {
  std::vector<std::string> models, ops, without, machines;
  int code_threads = 0;
  bool study = false, json = false;
  double share = 1;
  lm::Telling telling;
  std::string judge = app::kNoModel;
  std::string records, part = "train", split = "by-network";
  app::CorpusOptions options;
  dataset::SplitOptions splitting;
};

Result<app::CorpusOptions> corpus_options(const CorpusArgs& args) {
  app::CorpusOptions o = args.options;
  std::vector<std::string> models = args.models, without = args.without, machines = args.machines;
  if (args.study) {
    const std::vector<std::string> all = app::study_networks(), held = app::study_holdout();
    models.insert(models.end(), all.begin(), all.end());
    without.insert(without.end(), held.begin(), held.end());
    if (machines.empty()) machines = app::study_machines();
  }
  if (machines.empty()) machines.emplace_back("host");
  for (const std::string& name : models) o.subjects.push_back({name, false, {}});
  for (const std::string& spec : args.ops) o.subjects.push_back({spec, true, {}});
  for (const std::string& name : without) o.without.push_back({name, false, {}});
  if (o.subjects.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing to write about: name models or operations, --study or --records");
  }
  for (const std::string& name : machines) {
    TESSERA_TRY(target::Target machine, target::find_target(name));
    const bool counted = args.code_threads > 0;
    o.machines.push_back(counted ? target::code_target(machine, args.code_threads) : machine);
  }
  if (args.judge == app::kShipped && o.machines.size() > 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--judge shipped judges one kind of machine: name one with --machine");
  }
  o.judges = app::model_paths(args.judge, o.machines.front());
  return o;
}

Result<app::RecordedOptions> record_options(const CorpusArgs& args) {
  app::RecordedOptions o;
  o.data = args.records == "shipped" ? app::data_folder() : args.records;
  if (o.data.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no dataset comes with this Tessera: name one with --records");
  }
  o.split = args.splitting;
  TESSERA_TRY(o.split.kind, dataset::split_kind_from_text(args.split));
  o.whole = args.part == "all";
  o.part = args.part == "test"         ? dataset::kTest
           : args.part == "validation" ? dataset::kValidation
                                       : dataset::kTrain;
  if (args.machines.size() > 1) {
    return make_error(ErrorCode::kInvalidArgument, "records are of one --machine, or of all");
  }
  if (!args.machines.empty()) o.machine = args.machines.front();
  o.share = args.share;
  o.telling = args.telling;
  o.folder = args.options.folder;
  return o;
}

class Shown {
 public:
  app::CorpusCallback callback() {
    return [this](const app::CorpusProgress& p) {
      const std::lock_guard lock(mutex_);
      line_.show(fmt::format(
          "{}: {} of {}, {} sentences ({:.0f}/s), {}", p.what, p.done, p.total, p.sentences,
          static_cast<double>(p.sentences) / std::max(1e-9, p.elapsed_s), clock_text(p.elapsed_s)));
      return !interrupted();
    };
  }
  void finish() { line_.finish(); }

 private:
  std::mutex mutex_;
  ProgressLine line_;
};

int run_records(const CorpusArgs& args) {
  const Result<app::RecordedOptions> options = record_options(args);
  if (!options) return report(options.error());
  Shown shown;
  const Result<app::RecordedResult> done = app::tell_records(*options, shown.callback());
  shown.finish();
  if (!done) return report(done.error());
  if (args.json) {
    print_json({{"sentences", done->sentences},
                {"tasks", done->tasks},
                {"unreadable", done->unreadable},
                {"folder", options->folder}});
  } else {
    fmt::print("{} sentences of {} tasks, {} records are not of today's spaces: {}\n",
               done->sentences, done->tasks, done->unreadable, options->folder);
  }
  return interrupted() ? interrupt_code() : kOk;
}

int run_drawn(const CorpusArgs& args) {
  const Result<app::CorpusOptions> options = corpus_options(args);
  if (!options) return report(options.error());
  Shown shown;
  const Result<app::CorpusResult> done = app::draw_sentences(*options, shown.callback());
  shown.finish();
  if (!done) return report_model(done.error());
  for (const std::string& skipped : done->skipped)
    fmt::print(stderr, "tessera: left out: {}\n", skipped);
  const double rate = static_cast<double>(done->sentences) / std::max(1e-9, done->draw_s);
  if (args.json) {
    print_json({{"sentences", done->sentences},
                {"networks", done->networks},
                {"tasks", done->tasks},
                {"machines", done->machines},
                {"skipped", done->skipped},
                {"draw_seconds", done->draw_s},
                {"per_second", rate},
                {"finished", done->finished},
                {"folder", options->folder}});
  } else {
    fmt::print("{} of {} on {}, {:.0f} a second{}: {}\n", counted(done->sentences, "sentence"),
               counted(done->tasks, "task"), counted(done->machines, "machine"), rate,
               done->finished ? "" : "; interrupted", options->folder);
  }
  return interrupted() ? interrupt_code() : kOk;
}

}  // namespace

void add_lm_corpus(Flags& lm, std::function<int()>* run) {
  Flags* sub = lm.add_subcommand("corpus", "Write sentences to learn from");
  const auto args = std::make_shared<CorpusArgs>();
  app::CorpusOptions& o = args->options;
  sub->add_option("MODEL", args->models, "ONNX files or zoo:NAME[@parameter=value,...]");
  sub->add_option("--op", args->ops, "Operation, as in bench --op (repeatable)");
  sub->add_option("--without", args->without, "Models whose tasks are left out (repeatable)");
  sub->add_flag("--study", args->study,
                "A fixed list of 138 networks and shapes, without its hold-out");
  sub->add_option("--machine", args->machines,
                  "host or a machine (see targets; repeatable); of records: part of its target");
  sub->add_option("--code-threads", args->code_threads,
                  "Threads of the code on CPUs (default: all cores of the machine)")
      ->check(range(1, 1024))
      ->hide_default();
  sub->add_option("--sentences", o.sentences, "Sentences to draw in all")->check(positive());
  sub->add_option("--shards", o.shards, "Files to write")->check(range(1, 10000));
  sub->add_option("--threads", o.threads, "Threads that draw")->check(range(1, 1024));
  sub->add_option("--judge", args->judge,
                  "Cost model that gives the sentences a quality: none, shipped or files");
  sub->add_option("--records", args->records,
                  "Write the records of this dataset (or shipped) with their measured quality "
                  "instead of drawing");
  sub->add_option("--part", args->part, "Part of the dataset to write")
      ->check(one_of({"train", "validation", "test", "all"}));
  sub->add_option("--split", args->split, "As in `dataset split`");
  sub->add_flag("--by-reduction", args->splitting.by_reduction,
                "No part has a reduction of another");
  sub->add_option("--holdout", args->splitting.holdout, "Networks of the test part")
      ->delimiter(',');
  sub->add_option("--share", args->share, "Share of the tasks with records to write")
      ->check(range(0.0, 1.0));
  sub->add_flag("--opaque", args->telling.opaque,
                "Write the numbers of records as names, to study what their meaning is worth");
  sub->add_flag("--reversed", args->telling.reversed,
                "Write the last decision of records first, to study what the order is worth");
  sub->add_option("--seed", o.seed, "Seed of all random choices");
  sub->add_option("-o,--output", o.folder, "Folder to write")->required();
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer(
      "Examples:\n"
      "  tessera lm corpus zoo:resnet18 --machine neoverse-v1 --sentences 100000 -o drawn\n"
      "  tessera lm corpus --study --sentences 2000000 --threads 2 -o drawn\n"
      "  tessera lm corpus --records shipped --by-reduction -o measured\n"
      "Ctrl-C keeps what is written.");
  sub->callback([args, run] {
    *run = [args] {
      catch_interrupt();
      return args->records.empty() ? run_drawn(*args) : run_records(*args);
    };
  });
}

}  // namespace tessera::cli
