// tessera results: pages of recorded runs of `tessera bench --record`.
#include <map>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/report/bench_tables.h"
#include "tessera/app/study/paper_study.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

struct ResultsArgs {
  std::string folder, papers, pages, summary;
  std::vector<std::string> machines;
  bool check = false;
};

// What a page is for, and its text.
using Pages = std::map<std::string, std::string>;

Result<Pages> pages_of(const std::vector<report::BenchRunFile>& runs, const ResultsArgs& args) {
  Pages pages = report::result_pages(runs);
  if (args.papers.empty()) return pages;
  TESSERA_TRY(const std::vector<app::StudyResult> studies, app::read_study_results(args.papers));
  pages.emplace("papers", app::papers_page(studies));
  return pages;
}

// A file that the command writes, and what it should hold.
struct Wanted {
  std::string path, text;
};

Result<std::vector<Wanted>> wanted_files(const ResultsArgs& args) {
  TESSERA_TRY(const std::vector<report::BenchRunFile> runs, report::read_bench_runs(args.folder));
  if (runs.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no recorded runs; `tessera bench MODEL --record {}` writes one",
                      args.folder, args.folder);
  }
  std::vector<Wanted> out;
  TESSERA_TRY(const Pages pages, pages_of(runs, args));
  for (const auto& [name, text] : pages) {
    if (args.pages.empty()) {
      fmt::print("{}\n", text);
    } else {
      out.push_back({args.pages + "/" + name + ".md", text});
    }
  }
  if (args.summary.empty()) return out;
  TESSERA_TRY(const std::string document, read_file(args.summary));
  const std::string block = report::result_summary(runs, args.machines, args.pages);
  Result<std::string> text = report::with_generated(document, block);
  if (!text.ok()) return text.error().with_context(args.summary);
  out.push_back({args.summary, std::move(text).value()});
  return out;
}

int results(const ResultsArgs& args) {
  const Result<std::vector<Wanted>> files = wanted_files(args);
  if (!files.ok()) return report(files.error());
  int differ = 0;
  for (const Wanted& file : *files) {
    const Result<std::string> is = read_file(file.path);
    if (is.ok() && *is == file.text) continue;
    ++differ;
    if (args.check) {
      fmt::print("{}: not what the recorded runs say\n", file.path);
      continue;
    }
    if (const Result<void> written = write_file(file.path, {file.text}); !written.ok())
      return report(written.error());
    fmt::print("{}\n", file.path);
  }
  if (args.check && differ > 0) {
    fmt::print(stderr, "tessera: {}; without --check the command writes them\n",
               counted(differ, "file") + (differ == 1 ? " differs" : " differ"));
    return kInternal;
  }
  return kOk;
}

}  // namespace

void add_results(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("results", "Write the pages of recorded benchmark runs");
  sub->footer(
      "Examples:\n  tessera bench zoo:resnet50 --peers ort --record runs\n"
      "  tessera results runs                              # the tables on standard output\n"
      "  tessera results bench/results --pages docs/results --check");
  const auto args = std::make_shared<ResultsArgs>();
  sub->add_option("FOLDER", args->folder, "Folder of recorded runs")->required();
  sub->add_option("--papers", args->papers,
                  "Folder of results of `tessera study`; their page is papers.md");
  const Option* pages =
      sub->add_option("--pages", args->pages, "Folder to write a page per machine to");
  const Option* summary =
      sub->add_option(
             "--summary", args->summary,
             "Document whose lines between '<!-- generated: begin -->' and '<!-- generated: "
             "end -->' become a table per machine")
          ->needs(pages);
  sub->add_option("--machines", args->machines, "Machines of the summary, comma-separated")
      ->delimiter(',')
      ->needs(summary);
  sub->add_flag("--check", args->check,
                "Write nothing; exit with 1 if a file differs from what the runs say")
      ->needs(pages);
  sub->callback([args, run] { *run = [args] { return results(*args); }; });
}

}  // namespace tessera::cli
