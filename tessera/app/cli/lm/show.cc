// tessera lm show: a sentence and the probabilities of its answers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/learn/lm/transcribe.h"

namespace tessera::cli {
namespace {

// The likeliest values with their probabilities, and what was taken.
std::string chances_text(std::span<const std::string> labels, std::span<const float> log_probs,
                         std::size_t taken, std::size_t preferred) {
  constexpr std::size_t kShown = 5;
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return log_probs[a] > log_probs[b]; });
  std::vector<std::string> words;
  for (std::size_t i = 0; i < order.size() && i < kShown; ++i) {
    words.push_back(fmt::format("{}{} {:.2f}", labels[order[i]], order[i] == preferred ? "*" : "",
                                std::exp(log_probs[order[i]])));
  }
  const std::size_t more = order.size() - words.size();
  return fmt::format("{} {:.2f} <- {}{}", labels[taken], std::exp(log_probs[taken]),
                     fmt::join(words, ", "), more > 0 ? fmt::format(", {} more", more) : "");
}

Result<void> show_sketches(const space::Space& space, const lm::Scribe& scribe, lm::Reader& reader,
                           std::int32_t taken, float quality) {
  std::vector<std::string> labels;
  std::vector<std::int32_t> legal;
  for (const auto& s : space.sketches()) {
    legal.push_back(static_cast<std::int32_t>(labels.size()));
    labels.push_back(s->name());
  }
  const lm::Subject subject = scribe.choice_of_sketch();
  TESSERA_DO(reader.begin(subject, 1, quality));
  const lm::Step step{.row = 0, .question = 0, .previous = -1, .legal = legal};
  TESSERA_TRY(const std::vector<float> chances, reader.step({&step, 1}));
  fmt::print("  {:<20} {}\n", "sketch",
             chances_text(labels, chances, static_cast<std::size_t>(taken), 0));
  return {};
}

Result<void> show_answers(const space::Space& space, const lm::Scribe& scribe, lm::Reader& reader,
                          const decide::Candidate& candidate, float quality) {
  const decide::Sketch& sketch = *space.sketches()[static_cast<std::size_t>(candidate.sketch)];
  TESSERA_TRY(const std::vector<lm::Answer> answers, lm::transcribe(sketch, candidate.choice));
  const lm::Subject subject = scribe.subject(candidate.sketch);
  TESSERA_DO(reader.begin(subject, 1, quality));
  std::int32_t previous = -1;
  for (const lm::Answer& a : answers) {
    const lm::Step step{.row = 0, .question = a.question, .previous = previous, .legal = a.legal};
    TESSERA_TRY(const std::vector<float> chances, reader.step({&step, 1}));
    const decide::Point& d = sketch.points()[static_cast<std::size_t>(a.question)];
    std::vector<std::string> labels;
    for (const std::int32_t v : a.legal) labels.push_back(d.label(v));
    const auto place = [&](std::int32_t value) {
      return static_cast<std::size_t>(std::lower_bound(a.legal.begin(), a.legal.end(), value) -
                                      a.legal.begin());
    };
    const bool legal = std::binary_search(a.legal.begin(), a.legal.end(), d.preferred);
    fmt::print(
        "  {:<20} {}\n", d.name,
        chances_text(labels, chances, place(a.taken), legal ? place(d.preferred) : labels.size()));
    previous = a.taken;
  }
  return {};
}

int show(const LmArgs& args) {
  const Result<app::WrittenTask> problem = make_task(args, true);
  if (!problem) return report(problem.error());
  const Result<app::OpenReader> open =
      app::open_reader(args.weights, args.device, problem->space->target());
  if (!open) return report(open.error());
  lm::Reader& reader = *open->reader;
  const space::Space& space = *problem->space;
  const lm::Scribe scribe(space);
  const decide::Candidate candidate = problem->best.value_or(space.preferred());
  const lm::Subject subject = scribe.subject(candidate.sketch);
  fmt::print("task {} on {}: {} words, {} questions\n", subject.task, subject.machine,
             subject.prompt.size(), subject.questions.size());
  if (problem->best) {
    fmt::print("answers of the fastest known ({:.1f} us), probability of each; *: preferred\n",
               problem->best_s * 1e6);
  } else {
    fmt::print(
        "answers that reasoning prefers (*), probability of each; nothing faster is known\n");
  }
  const auto quality = static_cast<float>(args.quality);
  Result<void> done = show_sketches(space, scribe, reader, candidate.sketch, quality);
  if (done.ok()) done = show_answers(space, scribe, reader, candidate, quality);
  return done.ok() ? static_cast<int>(kOk) : report(done.error());
}

}  // namespace

void add_lm_show(Flags& lm, std::function<int()>* run) {
  Flags* look = lm.add_subcommand("show", "Print a sentence and the probabilities of its answers");
  const auto shown = std::make_shared<LmArgs>();
  add_task_options(look, shown.get());
  look->footer(
      "Examples:\n  tessera lm show --op matmul:M=64,N=64,K=64 --target neoverse-v1 --threads 2");
  look->callback([shown, run] { *run = [shown] { return show(*shown); }; });
}

}  // namespace tessera::cli
