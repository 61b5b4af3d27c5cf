// The tables and figures of the papers that Tessera implements: which of them can be run here, what
// a run gave, and the page that shows both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/support/json.h"
#include "tessera/support/result.h"

namespace tessera::app {

// Features and fitted trees, which studies of one run share.
struct TreeFits;
std::shared_ptr<TreeFits> make_tree_fits();

struct StudyOptions {
  std::string data;  // folder of the datasets; empty: the one that comes with Tessera
  std::uint64_t seed = 1;
  int seeds = 3;
  int threads = 1;
  std::size_t most_tasks = 0;  // of replayed searches; 0: as the study says
  std::vector<std::uint64_t> all_seeds() const;
  std::shared_ptr<TreeFits> trees = make_tree_fits();  // kept from one study to the next
  // False: stop.
  std::function<bool(const std::string& what, std::size_t done, std::size_t total)> progress;
};

// One line of a table: a value for each column and seed.
struct StudyRow {
  std::string name;
  std::vector<std::vector<double>> values;
};

// Of a study that draws nothing.
StudyRow single_row(std::string name, const std::vector<double>& values);

// StudyResult::measure of things that were counted.
inline constexpr const char* kCounts = "counts";

// What a run of a study gave.
struct StudyResult {
  std::string study;    // PaperStudy::name
  std::string data;     // what it was computed from
  std::string machine;  // whose times these are
  std::string version, date, command;
  std::string measure;               // what the numbers are
  std::vector<std::uint64_t> seeds;  // empty: nothing was drawn
  std::vector<std::string> columns;
  std::vector<StudyRow> rows;
};

// A table or a figure of a paper. It has either a function that runs it or a reason why not.
struct PaperStudy {
  const char* name;    // "autotvm-figure-5"
  const char* paper;   // "AutoTVM"
  const char* item;    // "figure 5"
  const char* shows;   // what it compares
  const char* theirs;  // what the paper found
  // How the setting differs; of one that is not run, the reason.
  const char* note;
  Result<StudyResult> (*run)(const StudyOptions& options);
  const char* columns = "";  // that the page shows, comma-separated; empty: all
};

// In the order of the papers.
const std::vector<PaperStudy>& paper_studies();
// kInvalidArgument with the nearest name.
Result<const PaperStudy*> find_study(const std::string& name);
// kInvalidArgument with the reason where it cannot be run; else what running says.
Result<StudyResult> run_study(const PaperStudy& study, const StudyOptions& options);

Json to_json(const StudyResult& result);
// kInvalidArgument: not what to_json() writes, a study that does not exist, or rows that do not fit
// the columns and seeds.
Result<StudyResult> study_from_json(const std::string& text);
// Every .json of `folder`, in the order of paper_studies(). The error names the file; two files of
// one study are an error.
Result<std::vector<StudyResult>> read_study_results(const std::string& folder);

// The values of a row in a column: "0.812 (0.803-0.820)", over the seeds.
std::string range_text(const std::vector<double>& values);
// How `row` compares with the first row: "above at 8, 16; below at 32" names the columns where the
// ranges over the seeds do not overlap; where they do in all of them, "no difference shown".
std::string beside_first(const StudyResult& result, const StudyRow& row);
// One table in Markdown.
std::string study_table(const StudyResult& result);
// docs/results/papers.md: the tables of all results, and the reasons for what was not run.
std::string papers_page(const std::vector<StudyResult>& results);

// Searches replayed on the records of a dataset, which nothing but the policy is given.
struct ReplaySpec {
  struct Search {
    const char* name;
    const char* policy;  // as policy_variant() reads it
  };
  const char* folder = "";  // of the dataset, below StudyOptions::data
  const char* machine = "";
  std::vector<std::string> networks = {"tenset5"};
  std::vector<Search> searches;
  std::vector<std::int64_t> trials = {8, 16, 32};
  std::size_t most_tasks = 24;     // of each machine
  std::size_t least_records = 32;  // tasks with fewer timed candidates are left out
};
// kInvalidArgument also when a cost model of a search was trained on a task of `networks`, or its
// file does not say on what it was. Files of language models never do: nothing checks those.
Result<StudyResult> replay_study(const ReplaySpec& spec, const StudyOptions& options);

// Boosted trees trained by each of the rows, with each seed, and scored on the networks held out.
// Tasks with a reduction of a test task are not trained on. What was fitted with these options, for
// this study or another, is not fitted again: progress counts what is.
struct TreesSpec {
  struct Row {
    const char* name;
    const char* objective = "rank";       // or "regression"; null: scores drawn at random
    std::size_t tasks = 0, per_task = 0;  // of the training part; 0: all
  };
  const char* folder = "";
  const char* machine = "";
  std::vector<Row> rows;
  // "rmse", "r2", "pairwise", "top-1" and "top-5" over all test records; "NETWORK top-1" and so on.
  std::vector<std::string> columns;
  int rounds = 100, depth = 6;
};
Result<StudyResult> trees_study(const TreesSpec& spec, const StudyOptions& options);

}  // namespace tessera::app
