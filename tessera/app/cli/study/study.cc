// tessera study: tables and figures of papers, on records.
#include <filesystem>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/command_line.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/common/version.h"
#include "tessera/app/study/eval.h"
#include "tessera/app/study/paper_study.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct StudyArgs {
  std::vector<std::string> names;
  std::string output;
  bool list = false, json = false;
  app::StudyOptions options;
};

int list_studies(const StudyArgs& args) {
  Json rows = Json::array();
  for (const app::PaperStudy& s : app::paper_studies()) {
    const std::string status =
        s.run != nullptr ? fmt::format("tessera study {}", s.name) : "not run";
    if (args.json) {
      rows.push_back({{"name", s.name},
                      {"paper", s.paper},
                      {"item", s.item},
                      {"shows", s.shows},
                      {"theirs", s.theirs},
                      {"status", status},
                      {s.run != nullptr ? "differs" : "reason", s.note}});
      continue;
    }
    fmt::print("{}: {}, {}: {}\n  paper: {}\n  {}: {}\n", s.name, s.paper, s.item, s.shows,
               s.theirs, s.run != nullptr ? "here" : "not run", s.note);
  }
  if (args.json) print_json({{"studies", std::move(rows)}});
  return kOk;
}

Result<app::StudyResult> run_one(const std::string& name, const StudyArgs& args) {
  TESSERA_TRY(const app::PaperStudy* study, app::find_study(name));
  app::StudyOptions options = args.options;
  if (options.data.empty()) options.data = app::data_folder();
  if (options.data.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no dataset comes with this Tessera: name a folder with --data");
  }
  ProgressLine line;
  options.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    line.show(fmt::format("{}: {} of {} {}", name, done, total, what));
    return !interrupted();
  };
  Result<app::StudyResult> result = app::run_study(*study, options);
  line.finish();
  if (!result.ok()) return result;
  result->version = version_text();
  result->date = utc_now();
  std::vector<std::string> others = args.names;
  std::erase(others, name);
  result->command = command_line("-o", others);
  if (args.output.empty()) return result;
  TESSERA_DO(write_file((fs::path(args.output) / (name + ".json")).string(),
                        {to_json(*result).dump(1), "\n"}));
  return result;
}

// Before the first study: hours must not end at a folder that cannot be made.
Result<void> check_study_args(const StudyArgs& args) {
  if (args.names.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "which study? `tessera study --list` lists them");
  }
  for (const std::string& name : args.names) TESSERA_DO(app::find_study(name));
  if (args.output.empty()) return {};
  std::error_code error;
  fs::create_directories(args.output, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", args.output, error.message());
  return {};
}

int study(const StudyArgs& args) {
  if (args.list) return list_studies(args);
  if (const Result<void> ok = check_study_args(args); !ok) return report(ok.error());
  catch_interrupt();
  Json all = Json::array();
  for (const std::string& name : args.names) {
    const Result<app::StudyResult> result = run_one(name, args);
    if (interrupted()) return interrupt_code();
    if (!result) return report(result.error());
    if (args.json) {
      all.push_back(to_json(*result));
      continue;
    }
    const app::PaperStudy& known = **app::find_study(name);
    fmt::print("{}, {}: {}\npaper: {}\n\n{}{}\n", known.paper, known.item, known.shows,
               known.theirs, app::study_table(*result), known.note);
  }
  if (args.json) print_json({{"results", std::move(all)}});
  return kOk;
}

}  // namespace

void add_study(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("study", "Repeat tables and figures of the papers on records");
  sub->footer(
      "Examples:\n  tessera study --list\n  tessera study autotvm-figure-5\n"
      "  tessera study tenset-table-1 tenset-table-4 -o bench/papers\n"
      "  tessera results bench/results --papers bench/papers --pages docs/results");
  const auto args = std::make_shared<StudyArgs>();
  sub->add_option("NAME", args->names, "Studies to run");
  sub->add_flag("--list", args->list,
                "List all tables and figures: what they show, what the paper found, and whether "
                "they can be run here or why not");
  sub->add_option("--data", args->options.data,
                  "Folder of datasets (default: what comes with Tessera)");
  sub->add_option("--seeds", args->options.seeds, "Runs with different seeds")
      ->check(range(1, 1000));
  sub->add_option("--seed", args->options.seed, "The first seed");
  sub->add_option("--tasks", args->options.most_tasks,
                  "Replayed searches: tasks of each machine (default: by the study)")
      ->hide_default();
  sub->add_option("--threads", args->options.threads, "Threads of this program")
      ->check(range(1, 1024));
  sub->add_option("-o", args->output, "Folder to write NAME.json to");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] { *run = [args] { return study(*args); }; });
}

}  // namespace tessera::cli
