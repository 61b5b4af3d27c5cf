#include "tessera/learn/train/args.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <CLI/CLI.hpp>

#include "tessera/support/split_commas.h"

namespace tessera::train {
namespace {

constexpr double kFreshRate = 1e-3, kTuningRate = 2e-4;

void add_data_flags(CLI::App& app, Flags& f) {
  app.add_option("--data", f.data, "Folder of the dataset");
  app.add_option("--features", f.features,
                 "Folder that keeps the features (made when absent; default: DATA-features)");
  app.add_option("--split", f.split, "within-task, by-task or by-network")->capture_default_str();
  app.add_option("--holdout", f.holdout, "Test networks of by-network, comma-separated")
      ->capture_default_str();
  app.add_flag("--by-reduction", f.examples.by_reduction,
               "Also leave out tasks with a reduction (expression and shapes) of a test task");
  app.add_flag("--quiet", f.examples.quiet, "Only records taken while nothing else used the cores");
  app.add_option("--tasks", f.examples.most_tasks, "Train on at most this many tasks");
  app.add_option("--per-task", f.examples.most_per_task,
                 "Train on at most this many candidates of a task");
  app.add_option("--machine", f.machine, "Train and validate on targets that contain this");
}

void add_training_flags(CLI::App& app, Flags& f) {
  TrainOptions& t = f.train;
  app.add_option(
      "--model", f.model,
      "Network (default: mlp, or that of --init); gbt: boosted trees, see --model gbt --help");
  app.add_option("--hyper", f.hyper, "Sizes of the network: hidden=256,layers=2");
  app.add_option("--loss", f.loss, "rank, lambdarank, mse, listmle or hinge")
      ->capture_default_str();
  app.add_option("--epochs", t.epochs, "Passes over the examples")->capture_default_str();
  app.add_option("--batch", t.batch, "Candidates per step")->capture_default_str();
  app.add_option("--list", t.list, "Candidates of one task in a step, at most")
      ->capture_default_str();
  app.add_option("--lr", f.lr, "Largest learning rate (default: 1e-3, with --init 2e-4)");
  add_optimizer_flags(app, t, f.decay);
  app.add_option("--validity-weight", t.trainee.validity_weight, "Weight of the validity loss")
      ->capture_default_str();
  app.add_option("--time-weight", t.trainee.time_weight, "Weight of the loss of log_time")
      ->capture_default_str();
  app.add_option("--patience", t.patience,
                 "Stop after this many epochs without a better validation metric; 0: never")
      ->capture_default_str();
  app.add_flag_callback(
      "--no-context", [&t] { t.context = false; }, "Hide the operator embedding from the network");
  app.add_option("--seed", t.seed, "Seed of all random choices")->capture_default_str();
  app.add_option("--init", t.init, "Start from this network file");
}

}  // namespace

void add_optimizer_flags(CLI::App& app, TrainOptions& t, std::string& decay) {
  app.add_option("--last-lr", t.last_lr, "Learning rate at the end")->capture_default_str();
  app.add_option("--decay", decay, "cosine or exponential")->capture_default_str();
  app.add_option("--warmup", t.warmup, "Share of the steps that warm up")->capture_default_str();
  app.add_option("--weight-decay", t.trainee.weight_decay, "Weight decay of AdamW")
      ->capture_default_str();
  app.add_option("--clip", t.trainee.clip, "Largest norm of a gradient; 0: any")
      ->capture_default_str();
}

void add_machine_flags(CLI::App& app, TrainOptions& t) {
  app.add_option("--device", t.trainee.device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", t.trainee.threads, "Threads on the host; 0: all cores")
      ->capture_default_str();
  app.add_option("--checkpoint", t.checkpoint, "Folder for checkpoints");
}

void add_flags(CLI::App& app, Flags& f) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  TrainOptions& t = f.train;
  t.patience = 10;
  t.trainee.device = "auto";
  add_data_flags(app, f);
  add_training_flags(app, f);
  add_machine_flags(app, t);
  app.add_option("--checkpoint-every", t.checkpoint_every, "Epochs between checkpoints")
      ->capture_default_str();
  app.add_flag("--resume", t.resume, "Resume from the checkpoint, if there is one");
  app.add_option("-o,--output", f.output, "Network file to write");
  app.add_option("--scores", f.scores,
                 "Write an npz of score, validity and log_time of every example of the dataset");
  app.add_flag("--json", f.json, "Print the final metrics as JSON");
  app.add_option("--jobs", f.jobs,
                 "File with one line of flags per job, added to those given here; features are "
                 "made once");
}

Result<void> resolve(Flags& f) {
  if (f.data.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--data names no dataset");
  }
  if (f.features.empty()) {
    f.features = f.data;
    while (f.features.size() > 1 && f.features.back() == '/') f.features.pop_back();
    f.features += "-features";
  }
  TrainOptions& t = f.train;
  t.network = f.model.empty() && t.init.empty() ? "mlp" : f.model;
  t.lr = f.lr != 0 ? f.lr : (t.init.empty() ? kFreshRate : kTuningRate);
  TESSERA_TRY(t.hyper, parse_hyper(f.hyper));
  TESSERA_TRY(t.trainee.loss, loss_from_text(f.loss));
  TESSERA_TRY(t.decay, decay_from_text(f.decay));
  std::string split = f.split;
  std::replace(split.begin(), split.end(), '-', '_');
  TESSERA_TRY(f.examples.kind, dataset::split_kind_from_text(split));
  f.examples.holdout = split_commas(f.holdout);
  return {};
}

Result<nn::Hyper> parse_hyper(const std::string& text) {
  nn::Hyper out;
  for (const std::string& part : split_commas(text)) {
    const std::size_t equals = part.find('=');
    const char* end = part.data() + part.size();
    std::int64_t value = 0;
    const char* first = equals == std::string::npos ? end : part.data() + equals + 1;
    const auto [stop, error] = std::from_chars(first, end, value);
    if (error != std::errc() || stop != end || equals == 0) {
      return make_error(ErrorCode::kInvalidArgument, "'{}' is not NAME=NUMBER", part);
    }
    out[part.substr(0, equals)] = value;
  }
  return out;
}

std::vector<std::vector<std::string>> parse_jobs(const std::string& text) {
  std::vector<std::vector<std::string>> jobs;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> words = CLI::detail::split_up(line);
    std::erase(words, "");
    if (words.empty() || words[0][0] == '#') continue;
    jobs.push_back(std::move(words));
  }
  return jobs;
}

}  // namespace tessera::train
