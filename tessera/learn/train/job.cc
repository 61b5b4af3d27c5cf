#include "tessera/learn/train/job.h"

#include <cstdio>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/learn/dataset/training.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/support/json.h"

namespace tessera::train {
namespace {

int host_threads(int asked) {
  if (asked > 0) return asked;
  return target::usable_cpus();
}

Result<feature::Rows> rows_of(const TrainOptions& options) {
  std::string network = options.network;
  if (!options.init.empty()) {
    TESSERA_TRY(const nn::TrainedNetwork from, nn::load_network(options.init));
    network = from.spec.network;
  }
  TESSERA_TRY(const nn::NetworkEntry* entry, nn::find_network(network));
  return entry->rows;
}

// For those who evaluate: they must not test on what any of the trainings learned from.
Result<nn::Notes> data_notes(const Flags& flags, const dataset::Dataset& data,
                             const dataset::Split& parts) {
  const bool by_network = flags.examples.kind == dataset::SplitKind::kByNetwork;
  const nn::TrainingSplit split{dataset::to_text(flags.examples.kind),
                                by_network ? flags.holdout : "", dataset::to_note(flags.examples)};
  nn::Notes notes = dataset::data_notes(data, parts);
  nn::note_tasks(dataset::keys_of(data, parts, dataset::kTrain),
                 dataset::keys_of(data, parts, dataset::kValidation), &notes);
  nn::note_kinds(dataset::kinds_of(data, parts), &notes);
  if (flags.train.init.empty()) {
    nn::note_training(split, nullptr, &notes);
    return notes;
  }
  TESSERA_TRY(const nn::TrainedNetwork before, nn::load_network(flags.train.init));
  nn::note_training(split, &before.notes, &notes);
  return notes;
}

void print_epoch(const EpochReport& r) {
  fmt::print(stderr,
             "epoch {:>3}/{} loss {:.4f} peak@1 {:.4f} pairwise {:.4f}{} {:.0f} examples/s, "
             "{:.0f} s left\n",
             r.epoch, r.epochs, r.loss, r.validation.peak1, r.validation.pairwise,
             r.best ? " best," : ",", r.examples_per_second, r.eta_seconds);
}

}  // namespace

Result<void> check_writable(const std::string& path) {
  if (path.empty()) return {};
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return {};
  return make_error(ErrorCode::kIo, "{}: there is no folder {}", path, folder.string());
}

Result<const dataset::Dataset*> Library::dataset(const std::string& folder) {
  std::unique_ptr<dataset::Dataset>& kept = datasets_[folder];
  if (!kept) {
    TESSERA_TRY(dataset::Dataset loaded, dataset::load(folder));
    kept = std::make_unique<dataset::Dataset>(std::move(loaded));
  }
  return kept.get();
}

Result<const dataset::FeatureStore*> Library::features(const std::string& folder,
                                                       feature::Rows kind, const std::string& cache,
                                                       int threads) {
  TESSERA_TRY(const dataset::Dataset* data, dataset(folder));
  std::unique_ptr<dataset::FeatureStore>& kept =
      stores_[fmt::format("{}\n{}\n{}", folder, cache, feature::to_text(kind))];
  if (kept) return kept.get();
  std::size_t unreadable = 0, told = 0;
  const auto progress = [&](std::size_t done, std::size_t total) {
    if (done != total && done < told + total / 20) return;
    told = done;
    fmt::print(stderr, "features per {}: {} of {}\n", feature::to_text(kind), done, total);
  };
  TESSERA_TRY(kept, dataset::open_features(*data, kind, cache, threads, progress, &unreadable));
  if (unreadable > 0) {
    fmt::print(stderr, "{} examples name candidates that the space no longer has: left out\n",
               unreadable);
  }
  return kept.get();
}

Result<JobResult> run_job(const Flags& flags, Library& library, const std::atomic<bool>& stop,
                          const std::function<void()>& begun) {
  TESSERA_DO(check_writable(flags.output));
  TESSERA_DO(check_writable(flags.scores));
  TESSERA_TRY(const feature::Rows kind, rows_of(flags.train));
  TESSERA_TRY(const dataset::Dataset* data, library.dataset(flags.data));
  TESSERA_TRY(dataset::Split split, dataset::split(*data, flags.examples));
  // Other machines stay in the test part.
  dataset::keep_machine(*data, flags.machine, false, &split);
  const int threads = host_threads(flags.train.trainee.threads);
  TESSERA_TRY(const dataset::FeatureStore* store,
              library.features(flags.data, kind, flags.features, threads));
  TESSERA_TRY(nn::Notes notes, data_notes(flags, *data, split));
  const auto start = Clock::now();
  JobResult out;
  TrainOptions options = flags.train;
  options.dataset = dataset::digest(*data);
  if (begun) begun();
  TESSERA_TRY(out.trained, train(*store, split.part, options, print_epoch, &stop));
  out.seconds = seconds_since(start);
  nn::TrainedNetwork& network = out.trained.network;
  network.notes.merge(notes);
  if (!out.trained.interrupted) {
    TESSERA_TRY(const Predictions predictions,
                predict(*store, network, flags.train.trainee, flags.train.fillers));
    std::vector<std::string> held_out;
    if (flags.examples.kind == dataset::SplitKind::kByNetwork) {
      TESSERA_TRY(held_out, data->network_names(flags.examples.holdout));
    }
    out.test = dataset::evaluate(*data, split, dataset::kTest, predictions.score, held_out);
    if (out.test.average.records > 0) {
      network.notes["top1"] = fmt::format("{:.4f}", out.test.top1);
      network.notes["top5"] = fmt::format("{:.4f}", out.test.top5);
      network.notes["pairwise"] = fmt::format("{:.4f}", out.test.average.pairwise);
    }
    if (!flags.scores.empty()) {
      TESSERA_DO(dataset::write_columns(flags.scores, {{"score", &predictions.score},
                                                       {"validity", &predictions.validity},
                                                       {"log_time", &predictions.log_time}}));
    }
  }
  if (!flags.output.empty() && out.trained.improved) {
    TESSERA_DO(nn::save_network(network, flags.output));
  }
  return out;
}

Json to_json(const Flags& flags, const JobResult& result) {
  const nn::TrainedNetwork& network = result.trained.network;
  Json networks = Json::object();
  for (const auto& [name, score] : result.test.networks) {
    networks[name] = {{"top1", score.top1},
                      {"top5", score.top5},
                      {"pairwise", score.pairwise},
                      {"kendall", score.kendall},
                      {"tasks", score.tasks}};
  }
  return {{"model", network.spec.network},
          {"hyper", network.spec.hyper},
          {"loss", flags.loss},
          {"seed", flags.train.seed},
          {"output", result.trained.improved ? flags.output : ""},
          {"improved", result.trained.improved},
          {"notes", network.notes},
          {"seconds", result.seconds},
          {"epochs", result.trained.history.size()},
          {"interrupted", result.trained.interrupted},
          {"validation",
           {{"peak1", result.trained.validation.peak1},
            {"pairwise", result.trained.validation.pairwise}}},
          {"test",
           {{"records", result.test.average.records},
            {"top1", result.test.top1},
            {"top5", result.test.top5},
            {"pairwise", result.test.average.pairwise},
            {"kendall", result.test.average.kendall},
            {"networks", networks}}}};
}

std::string unimproved_note(const Flags& flags, const Trained& trained) {
  if (trained.improved) return "";
  const std::string& init = flags.train.init;
  return fmt::format("{}{}\n",
                     init.empty() ? "stopped before the first epoch was over"
                                  : fmt::format("no epoch was better than {}", init),
                     flags.output.empty() ? "" : fmt::format(": {} is not written", flags.output));
}

std::string to_text(const JobResult& result) {
  const nn::TrainedNetwork& network = result.trained.network;
  std::string out = fmt::format(
      "{} {}: {} records of {} tasks, {} epochs in {:.0f} s, best {}\nvalidation: peak@1 {:.4f} "
      "pairwise {:.4f}\n",
      network.spec.network, network.notes.at("loss"), network.notes.at("records"),
      network.notes.at("tasks"), result.trained.history.size(), result.seconds,
      network.notes.at("epoch"), result.trained.validation.peak1,
      result.trained.validation.pairwise);
  if (result.test.average.records == 0) return out;
  return out + fmt::format("test: top-1 {:.4f} top-5 {:.4f} pairwise {:.4f}\n", result.test.top1,
                           result.test.top5, result.test.average.pairwise);
}

}  // namespace tessera::train
