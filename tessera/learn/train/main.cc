// tessera-train: trains cost models and language models. `tessera train` and `tessera lm` pass
// their arguments on to it.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "tessera/learn/train/exit_code.h"
#include "tessera/learn/train/graph_job.h"
#include "tessera/learn/train/job.h"
#include "tessera/learn/train/language_job.h"
#include "tessera/support/files.h"
#include "tessera/support/json.h"
#include "tessera/support/standard_streams.h"

namespace tessera::train {
namespace {

std::atomic<bool> stop_asked = false;

// The second one ends the program at once.
void ask_to_stop(int) {
  stop_asked = true;
  std::signal(SIGINT, SIG_DFL);
}

constexpr const char* kProgram = "tessera train";

// Parses `words` as flags. An exit code where there is nothing to run: help, or an error.
std::optional<int> parse(std::vector<std::string> words, Flags& flags) {
  CLI::App app("Train a cost model on a dataset (see `tessera dataset`)", "tessera train");
  app.footer(
      "Examples:\n  tessera train --data data --model mlp -o mlp.safetensors\n"
      "  tessera train --data data --model atformer --device cuda --batch 2048 -o a.safetensors\n"
      "  tessera train --data data --jobs jobs.txt --json\n"
      "Networks that order the configurations of graphs: tessera train --graphs FILE.npz --help");
  add_flags(app, flags);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  return std::nullopt;
}

int run_one(Flags& flags, Library& library, bool one_line) {
  if (const Result<void> resolved = resolve(flags); !resolved.ok()) {
    return report(kProgram, resolved.error());
  }
  const Result<JobResult> result =
      run_job(flags, library, stop_asked, [] { std::signal(SIGINT, ask_to_stop); });
  if (!result) return report(kProgram, result.error());
  fmt::print(stderr, "{}", unimproved_note(flags, result->trained));
  if (flags.json) {
    fmt::print("{}\n", to_json(flags, *result).dump(one_line ? -1 : 2));
  } else {
    fmt::print("{}", to_text(*result));
  }
  std::fflush(stdout);
  return result->trained.interrupted ? kInterrupted : kOk;
}

// The first failure ends the list; jobs before it are done and written.
int run_jobs(const std::vector<std::string>& shared, const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return report(kProgram, text.error());
  Library library;
  const std::vector<std::vector<std::string>> jobs = parse_jobs(*text);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::vector<std::string> words = shared;
    words.insert(words.end(), jobs[i].begin(), jobs[i].end());
    Flags flags;
    if (const std::optional<int> code = parse(std::move(words), flags)) return *code;
    fmt::print(stderr, "job {} of {}: {}\n", i + 1, jobs.size(), CLI::detail::join(jobs[i], " "));
    if (const int code = run_one(flags, library, true); code != kOk) return code;
  }
  return kOk;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "lm") {
    std::signal(SIGINT, ask_to_stop);
    return run_language({words.begin() + 1, words.end()}, stop_asked);
  }
  Flags flags;
  if (const std::optional<int> code = parse(words, flags)) return *code;
  if (!flags.jobs.empty()) return run_jobs(words, flags.jobs);
  Library library;
  return run_one(flags, library, false);
}

}  // namespace
}  // namespace tessera::train

int main(int argc, char** argv) {
  namespace train = tessera::train;
  tessera::guard_standard_streams();
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (train::asks_for_graphs(words)) {
      std::signal(SIGINT, train::ask_to_stop);
      return train::run_graphs(words, train::stop_asked);
    }
    return train::run(argc, argv);
  } catch (const tessera::InternalError& e) {
    fmt::print(stderr, "tessera train: internal error, please report it: {}\n", e.what());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tessera train: {}\n", e.what());
  }
  return 1;
}
