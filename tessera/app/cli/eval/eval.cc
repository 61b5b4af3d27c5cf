// tessera eval: how well cost models order candidates that were measured.
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/eval/graphs.h"
#include "tessera/app/cli/eval/output.h"
#include "tessera/app/study/note_data.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"
#include "tessera/support/split_commas.h"

namespace tessera::cli {
namespace {

struct EvalArgs {
  std::string split = "by-network", plot;
  std::vector<std::string> weights, scores, graphs;
  app::EvalOptions options;
  bool shipped = false, json = false, markdown = false;
  bool note = false, unseen = false, searches = false;
};

// "FILE" or "NAME[/LOSS]=FILE".
app::EvalSource source_from_text(const std::string& text, app::EvalSource::Kind kind) {
  app::EvalSource source;
  source.kind = kind;
  source.path = text;
  std::error_code error;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || std::filesystem::exists(text, error)) return source;
  source.path = text.substr(equals + 1);
  source.name = text.substr(0, equals);
  if (const std::size_t slash = source.name.find('/'); slash != std::string::npos) {
    source.loss = source.name.substr(slash + 1);
    source.name.resize(slash);
  }
  return source;
}

Result<app::EvalOptions> eval_options(const EvalArgs& args) {
  app::EvalOptions o = args.options;
  TESSERA_TRY(o.split.kind, dataset::split_kind_from_text(args.split));
  if (args.shipped) {
    TESSERA_TRY(o.models, app::shipped_sources());
  }
  for (const std::string& text : args.weights) {
    o.models.push_back(source_from_text(text, app::EvalSource::Kind::kWeights));
  }
  for (const std::string& text : args.scores) {
    o.models.push_back(source_from_text(text, app::EvalSource::Kind::kScores));
  }
  if (o.models.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing to evaluate: --cost-model, --scores or --shipped");
  }
  if (o.data.empty()) o.data = app::data_folder();
  if (o.data.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no dataset comes with this Tessera: name one with --data");
  }
  if (o.threads <= 0) o.threads = target::usable_cpus();
  return o;
}

// `work` with options that show how far it is.
template <class Work>
auto with_progress(const EvalArgs& args, Work work)
    -> decltype(work(std::declval<const app::EvalOptions&>())) {
  TESSERA_TRY(app::EvalOptions o, eval_options(args));
  ProgressLine line;
  std::mutex mutex;
  o.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    const std::lock_guard lock(mutex);
    line.show(fmt::format("{}: {} of {}", what, done, total));
  };
  auto result = work(o);
  line.finish();
  return result;
}

int run_note(const EvalArgs& args) {
  const auto result = with_progress(args, app::note_training_data);
  if (!result) return report(result.error());
  for (const app::NotedData& n : *result) {
    fmt::print("{}: {} timed records of {}; {}\n", n.path, n.examples, counted(n.kinds, "kind"),
               n.exact ? "its tasks are noted"
                       : "which tasks it was trained on is not known exactly: they are not noted");
  }
  return kOk;
}

Result<app::EvalResult> evaluate(const EvalArgs& args) {
  Result<app::EvalResult> result = with_progress(args, app::evaluate_models);
  if (result && !args.plot.empty()) TESSERA_DO(write_file(args.plot, {plot_svg(*result)}));
  return result;
}

int run_graphs(const EvalArgs& args) {
  if (args.weights.size() != 1 || args.weights.front().empty()) {
    return report(make_error(ErrorCode::kInvalidArgument,
                             "--graphs needs the weights of one network, or A,B,C, not {}",
                             args.weights.size()));
  }
  const int threads = args.options.threads > 0 ? args.options.threads : target::usable_cpus();
  return eval_graphs({.files = args.graphs,
                      .weights = split_commas(args.weights.front()),
                      .unseen = args.unseen,
                      .json = args.json,
                      .searches = args.searches,
                      .threads = threads});
}

int run_eval(const EvalArgs& args) {
  if (!args.graphs.empty()) return run_graphs(args);
  if (args.note) return run_note(args);
  const Result<app::EvalResult> result = evaluate(args);
  if (!result) return report(result.error());
  if (args.json) {
    print_json(to_json(*result));
  } else {
    fmt::print("{}", args.markdown ? eval_markdown(*result) : eval_text(*result));
  }
  return kOk;
}

}  // namespace

void add_eval(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("eval", "Compare cost models on measured candidates");
  sub->footer(
      "A file may be given a name and a loss: NAME[/LOSS]=FILE. A,B,C judge together.\n"
      "With --graphs, estimate is one of them: what the files say themselves.\n"
      "Examples:\n  tessera eval --shipped --holdout tenset5 --json\n"
      "  tessera eval --data DIR --cost-model mlp.safetensors atformer.safetensors --plot "
      "models.svg\n"
      "  tessera eval --data DIR --scores mlp/rank=mlp.npz --split by-task --markdown\n"
      "  tessera eval --graphs net.npz --cost-model graphsage.safetensors --json");
  const auto args = std::make_shared<EvalArgs>();
  app::EvalOptions& o = args->options;
  sub->add_option("--data", o.data, "Folder of the dataset (default: the one that ships)");
  sub->add_option("--cost-model", args->weights, "Trained networks or trees")
      ->allow_extra_args(true);
  sub->renamed("--weights", "--cost-model");
  sub->add_option("--graphs", args->graphs,
                  "Order the configurations of these npz files in TpuGraphs' schema by a network "
                  "of graphs")
      ->allow_extra_args(true);
  sub->add_flag("--unseen", args->unseen,
                "With --graphs: only configurations outside of the share used for training");
  sub->add_flag("--searches", args->searches,
                "With --graphs: how many configurations policies random and local and the order of "
                "the network measure until one is within 1 % of the fastest");
  sub->add_option("--scores", args->scores, "npz files of tessera train --scores")
      ->allow_extra_args(true);
  sub->add_flag("--shipped", args->shipped, "The models that come with Tessera");
  sub->add_option("--holdout", o.split.holdout,
                  "Test networks of by-network, comma-separated; tenset5: the five of TenSet "
                  "(default)")
      ->delimiter(',');
  sub->add_option("--split", args->split, "within-task, by-task or by-network (default)");
  sub->add_flag("--quiet", o.split.quiet, "Only records taken while nothing else used the cores");
  sub->add_option("--machine", o.machine, "Only machines whose target contains this");
  sub->add_option("--features", o.features,
                  "Folder of the dataset's features, as in tessera train (default: those that are "
                  "needed are made and not kept)");
  sub->add_option("--threads", o.threads, "Threads of this program (default: all cores)")
      ->check(range(1, 1024))
      ->hide_default();
  sub->add_option("--seed", o.seed, "Seed of the random baseline");
  sub->add_option("--plot", args->plot, "SVG of top-1 and top-5 scores to write");
  sub->add_flag(
      "--note", args->note,
      "Instead, write into the notes of the files what they were trained on in this dataset: "
      "the kinds of records, and the tasks where the split can be drawn again exactly. "
      "Newly trained models have these notes");
  Option* json = sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--markdown", args->markdown, "Print tables as Markdown")->excludes(json);
  o.threads = 0;
  sub->callback([args, run] { *run = [args] { return run_eval(*args); }; });
}

}  // namespace tessera::cli
