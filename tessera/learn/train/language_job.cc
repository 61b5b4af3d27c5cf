#include "tessera/learn/train/language_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>

#include "tessera/learn/train/args.h"
#include "tessera/learn/train/exit_code.h"
#include "tessera/learn/train/job.h"
#include "tessera/learn/train/language_trainer.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/support/json.h"

namespace tessera::train {
namespace {

struct LanguageFlags {
  std::vector<std::string> data;
  std::string hyper, recipe, decay = "cosine", output, storage = "f16";
  bool json = false;
  LanguageOptions options;
};

void add_shared_flags(CLI::App& app, LanguageFlags& f) {
  LanguageOptions& o = f.options;
  TrainOptions& t = o.train;
  app.add_option("--data", f.data, "Folders of sentences (see `tessera lm corpus`)")->required();
  app.add_option("--holdout", o.holdout, "Share of the reductions that is only for judging")
      ->capture_default_str();
  app.add_flag_callback(
      "--no-quality", [&o] { o.quality = false; },
      "Leave the quality of sentences out of their words");
  app.add_option("--hidden", o.hidden, "Share of the sentences that do not say their quality")
      ->capture_default_str();
  app.add_option("--epochs", t.epochs, "Passes over the sentences")->capture_default_str();
  app.add_option("--batch", t.batch, "Sentences per step")->capture_default_str();
  app.add_option("--group", o.group, "Sentences about one subject in a step, at most")
      ->capture_default_str();
  app.add_option("--lr", t.lr, "Largest learning rate")->capture_default_str();
  add_optimizer_flags(app, t, f.decay);
  app.add_option("--validate-every", o.round, "Steps between validations; 0: an epoch")
      ->capture_default_str();
  app.add_option("--validate-most", o.validate_most, "Sentences of a validation")
      ->capture_default_str();
  app.add_option("--seed", t.seed, "Seed of all random choices")->capture_default_str();
  add_machine_flags(app, t);
  app.add_option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints")
      ->capture_default_str();
  app.add_option("--limit", o.limit_s,
                 "Seconds after which training ends early, its learning rate fallen; 0: none")
      ->capture_default_str();
  app.add_flag("--resume", t.resume, "Resume from the checkpoint, if there is one");
  app.add_option("-o,--output", f.output, "File to write");
  app.add_option("--storage", f.storage, "f16 or f32: matrices in the file")->capture_default_str();
  app.add_flag("--json", f.json, "Print the final numbers as JSON");
}

// What was asked for, or the exit code where there is nothing to run.
std::optional<int> parse(std::vector<std::string> words, LanguageFlags& f) {
  CLI::App app("Train a language model that writes schedules", "tessera lm");
  LanguageOptions& o = f.options;
  TrainOptions& t = o.train;
  t.trainee.device = "auto";
  t.batch = 256;
  // Fine-tuning forgets quickly what it moves away from.
  const bool tunes = !words.empty() && words[0] == "finetune";
  t.epochs = tunes ? 10 : 2;
  t.lr = tunes ? 1e-4 : 1e-3;
  f.recipe = tunes ? "best" : "all";
  CLI::App* pretrain = app.add_subcommand("pretrain", "Learn from all sentences");
  pretrain->footer(
      "Example:\n  tessera lm pretrain --data corpus --hyper width=192,layers=4 "
      "--checkpoint run --resume -o base.safetensors");
  CLI::App* finetune =
      app.add_subcommand("finetune", "Train a model further on measured sentences");
  finetune->footer(
      "Example:\n  tessera lm finetune --init base.safetensors --data measured --recipe preference "
      "-o lm.safetensors");
  app.require_subcommand(1);
  for (CLI::App* sub : {pretrain, finetune}) add_shared_flags(*sub, f);
  pretrain->add_option("--hyper", f.hyper, "Sizes of the network: width=192,layers=4");
  pretrain->add_option("--init", t.init, "Start from this file");
  finetune->add_option("--init", t.init, "Start from this file")->required();
  pretrain
      ->add_option(
          "--recipe", f.recipe,
          "all: every sentence with its quality; contrast: quality separates the best from "
          "the common")
      ->check(CLI::IsMember({"all", "contrast"}))
      ->capture_default_str();
  finetune
      ->add_option("--recipe", f.recipe,
                   "best: the best sentences of each task; all: every sentence with its quality; "
                   "preference: pairs of which one is better; contrast: quality separates the best "
                   "from the common")
      ->capture_default_str();
  finetune->add_option("--best", o.best, "Quality from which on sentences are the best")
      ->capture_default_str();
  finetune->add_option("--beta", o.preference.beta, "How soon a preference suffices")
      ->capture_default_str();
  finetune
      ->add_option("--gap", o.preference.gap,
                   "Difference in quality between the sentences of a pair")
      ->capture_default_str();
  for (CLI::App* sub : {pretrain, finetune}) {
    sub->add_option("--keep", o.preference.keep,
                    "Weight of the likelihood, compared with preferences and contrasts")
        ->capture_default_str();
    sub->add_option("--tilt", o.preference.tilt,
                    "Difference in quality that makes a sentence e times as likely in a contrast")
        ->capture_default_str();
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  return std::nullopt;
}

Result<lm::WeightStorage> storage_of(const std::string& text) {
  if (text == "f16") return lm::WeightStorage::kF16;
  if (text == "f32") return lm::WeightStorage::kF32;
  return make_error(ErrorCode::kInvalidArgument, "no storage '{}'; there are f16, f32", text);
}

void print_report(const LanguageReport& r) {
  fmt::print(stderr,
             "step {:>5}/{} loss {:.4f} held out: loss {:.4f} accuracy {:.4f} pairs {:.4f}{} "
             "{:.0f} sentences/s, {:.0f} s left\n",
             r.step, r.steps, r.loss, r.scores.loss, r.scores.accuracy, r.scores.pairs,
             r.best ? " best," : ",", r.sentences_per_second, r.eta_seconds);
}

Json to_json(const LanguageFlags& f, const TrainedLanguageRun& run, double seconds) {
  const LanguageScores& s = run.scores;
  return {{"recipe", to_text(f.options.recipe)},
          {"weights", run.weights},
          {"sentences", run.sentences},
          {"subjects", run.subjects},
          {"seconds", seconds},
          {"interrupted", run.interrupted},
          {"held_out",
           {{"sentences", s.sentences},
            {"answers", s.answers},
            {"loss", s.loss},
            {"accuracy", s.accuracy},
            {"uniform_loss", s.uniform_loss},
            {"uniform_accuracy", s.uniform_accuracy},
            {"preferred_accuracy", s.preferred_accuracy},
            {"pairs", s.pairs}}}};
}

std::string to_text(const TrainedLanguageRun& run, double seconds) {
  const LanguageScores& s = run.scores;
  std::string out = fmt::format("{} weights, {} sentences about {} subjects, {:.0f} s\n",
                                run.weights, run.sentences, run.subjects, seconds);
  if (s.answers == 0) return out + "no sentence is held out\n";
  out += fmt::format("held out: {} answers of {} good sentences\n", s.answers, s.sentences);
  out += fmt::format("  loss {:.4f} (uniform {:.4f})\n", s.loss, s.uniform_loss);
  out += fmt::format(
      "  value taken is the likeliest {:.1f} % (uniform {:.1f} %, preferred {:.1f} %)\n",
      100 * s.accuracy, 100 * s.uniform_accuracy, 100 * s.preferred_accuracy);
  if (s.pairs > 0) out += fmt::format("  better sentence is likelier {:.1f} %\n", 100 * s.pairs);
  return out;
}

Result<int> run(LanguageFlags& f, const std::atomic<bool>& stop) {
  LanguageOptions& o = f.options;
  TESSERA_TRY(o.train.hyper, parse_hyper(f.hyper));
  TESSERA_TRY(o.train.decay, decay_from_text(f.decay));
  TESSERA_TRY(o.recipe, recipe_from_text(f.recipe));
  TESSERA_TRY(const lm::WeightStorage storage, storage_of(f.storage));
  TESSERA_DO(check_writable(f.output));
  if (o.train.trainee.threads <= 0) o.train.trainee.threads = target::usable_cpus();
  LanguageTask task;
  TESSERA_TRY(task.start, start_language(o));
  TESSERA_TRY(task.sentences, load_sentences(f.data, task.start.spec.hyper.at("max_answers")));
  fmt::print(stderr, "{} sentences about {} subjects\n", task.sentences.size(),
             task.sentences.subjects());
  const auto begin = Clock::now();
  TESSERA_TRY(const TrainedLanguageRun trained, train_language(task, o, print_report, &stop));
  const double spent_s = seconds_since(begin);
  if (!f.output.empty() && !trained.interrupted) {
    TESSERA_DO(lm::save_language(trained.model, storage, f.output));
  }
  if (f.json) {
    fmt::print("{}\n", to_json(f, trained, spent_s).dump(2));
  } else {
    fmt::print("{}", to_text(trained, spent_s));
  }
  return static_cast<int>(trained.interrupted ? kInterrupted : kOk);
}

}  // namespace

int run_language(const std::vector<std::string>& words, const std::atomic<bool>& stop) {
  LanguageFlags flags;
  if (const std::optional<int> code = parse(words, flags)) return *code;
  const Result<int> code = run(flags, stop);
  return code.ok() ? *code : report("tessera lm", code.error());
}

}  // namespace tessera::train
