// random_graphs --seed S --runs N: random models, seeds S, S+1, ..., each run in every way there
// is. A failure is made small, printed and written as an ONNX file; exit status 1. --table prints
// the operators and types that were reached; --help lists the rest. --planted: in a build with
// planted bugs, exit status 0 where a comparison finds the one that TESSERA_PLANTED_BUG names.
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_graph.h"
#include "generate.h"
#include "minimise.h"
#include "required_ways.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tests/testing/devices.h"

namespace {

using tessera::fuzz::Case;

struct Flags {
  std::uint64_t seed = 1, runs = 100;
  std::int64_t nodes = 0;            // 0: between 1 and 20, by seed
  std::uint64_t artifact_every = 8;  // 0: never
  bool keep_going = false, table = false, print = false, generate_only = false, opencl = false;
  bool minimise = true, refusals = false, planted = false;
  bool plans = true;
  tessera::fuzz::RequiredWays required;
  std::string folder = ".";
  tessera::fuzz::GraphOptions graph;  // max_elements 0: by seed
  tessera::fuzz::CheckOptions check;
};

constexpr const char* kUsage =
    "usage: random_graphs [--seed S] [--runs N] [--nodes K] [--max-elements E] [--only OP]...\n"
    "  [--no-compile] [--no-plans] [--artifact-every N] [--opencl] [--generate-only] [--table]\n"
    "  [--keep-going] [--no-minimise] [--print] [--refusals] [--out FOLDER]\n"
    "  [--require WAY=N,...] [--planted]\n"
    "ways: compiled plans artifacts opencl parts\n";

template <class T>
bool read_number(const std::string& text, T* out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && at == end;
}

bool read_switch(const std::string& flag, Flags* f) {
  const std::pair<const char*, std::pair<bool*, bool>> switches[] = {
      {"--no-compile", {&f->check.compile, false}},
      {"--no-plans", {&f->plans, false}},
      {"--opencl", {&f->opencl, true}},
      {"--generate-only", {&f->generate_only, true}},
      {"--table", {&f->table, true}},
      {"--keep-going", {&f->keep_going, true}},
      {"--no-minimise", {&f->minimise, false}},
      {"--planted", {&f->planted, true}},
      {"--print", {&f->print, true}},
      {"--refusals", {&f->refusals, true}}};
  for (const auto& [name, target] : switches) {
    if (flag == name) {
      *target.first = target.second;
      return true;
    }
  }
  return false;
}

bool read_value(const std::string& flag, const std::string& value, Flags* f) {
  if (flag == "--seed") return read_number(value, &f->seed);
  if (flag == "--runs") return read_number(value, &f->runs);
  if (flag == "--nodes") return read_number(value, &f->nodes) && f->nodes > 0;
  if (flag == "--max-elements") return read_number(value, &f->graph.max_elements);
  if (flag == "--artifact-every") return read_number(value, &f->artifact_every);
  if (flag == "--only") return f->graph.only.insert(value).second;
  if (flag == "--require") return tessera::fuzz::read_required(value, &f->required);
  if (flag == "--out") return !(f->folder = value).empty();
  return false;
}

bool read_flags(int argc, char** argv, Flags* f) {
  for (int i = 1; i < argc; ++i) {
    if (read_switch(argv[i], f)) continue;
    if (i + 1 >= argc || !read_value(argv[i], argv[i + 1], f)) return false;
    ++i;
  }
  return true;
}

char g_crash_report[256];  // written by the signal handler

void on_crash(int signal) {
  // Nothing can be done about a failed write here.
  [[maybe_unused]] const auto n = write(STDERR_FILENO, g_crash_report, std::strlen(g_crash_report));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::int64_t nodes_of(std::uint64_t seed, const Flags& flags) {
  if (flags.nodes > 0) return flags.nodes;
  return tessera::Rng(seed).between(1, 20);
}

std::string text_of(const Case& c) {
  const auto trace = tessera::fuzz::trace_case(c);
  return trace.ok() ? to_text(c, *trace) : trace.error().message + "\n";
}

void report(const Case& c, const std::string& bad, std::uint64_t seed, const Flags& flags,
            const tessera::fuzz::CheckOptions& check) {
  const std::string way = tessera::fuzz::way_of(bad);
  Case small = c;
  if (flags.minimise) {
    small = minimise(c, [&](const Case& next) {
      return tessera::fuzz::way_of(check_graph(next, check)) == way;
    });
  }
  const std::string path = fmt::format("{}/random_graph_{}.onnx", flags.folder, seed);
  const auto saved = tessera::onnx::save_model(small.model, path);
  fmt::print(stderr, "FAILED seed {}: {}\nsmallest: {}\n{}model: {}\n", seed, bad,
             check_graph(small, check), text_of(small), saved.ok() ? path : saved.error().message);
  fmt::print(stderr, "repeat: random_graphs --seed {} --nodes {} --runs 1\n\n", seed,
             nodes_of(seed, flags));
}

// Whether the model of this seed is right without the planted bug, which a process chooses once.
bool is_right_without(std::uint64_t seed, const Flags& flags) {
  const std::string number = std::to_string(seed), nodes = std::to_string(nodes_of(seed, flags));
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("TESSERA_PLANTED_BUG");
    execl("/proc/self/exe", "random_graphs", "--seed", number.c_str(), "--nodes", nodes.c_str(),
          "--runs", "1", "--artifact-every", "0", "--no-minimise", "--out", flags.folder.c_str(),
          nullptr);
    _exit(127);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

// Results that differ find the bug; whatever else fails, without the bug or by not being done at
// all, does not.
bool finds_bug(const std::string& bad, std::uint64_t seed, const Flags& flags) {
  if (!tessera::fuzz::is_comparison(bad)) {
    fmt::print("seed {}: no comparison: {}\n", seed, bad);
    return false;
  }
  if (!is_right_without(seed, flags)) {
    fmt::print("seed {}: wrong without the bug, too: {}\n", seed, bad);
    return false;
  }
  fmt::print("FOUND by seed {}: {}\n", seed, bad);
  return true;
}

// False, after a report, when the model of this seed fails; of planted bugs: when it finds one.
bool run_seed(std::uint64_t seed, const Flags& flags, tessera::fuzz::Reached* reached,
              tessera::fuzz::Counts* counts) {
  tessera::fuzz::GraphOptions options = flags.graph;
  options.nodes = nodes_of(seed, flags);
  if (options.max_elements == 0)
    options.max_elements = seed % 16 == 0 ? 30000 : seed % 4 == 0 ? 4000 : 600;
  const Case c = random_graph(seed, options, [&](const std::string& op, const std::string& why) {
    if (flags.refusals) fmt::print("refused {}: {}\n", op, why);
  });
  if (flags.print) fmt::print(stderr, "seed {}\n{}", seed, text_of(c));
  if (flags.table) add_reached(c, reached);
  if (flags.generate_only || c.model.graph.outputs.empty()) return true;
  tessera::fuzz::CheckOptions check = flags.check;
  check.artifact = flags.artifact_every != 0 && seed % flags.artifact_every == 0;
  check.opencl = flags.opencl;
  check.plan = flags.plans ? seed : 0;
  check.counts = counts;
  const std::string bad = check_graph(c, check);
  check.counts = nullptr;
  if (flags.planted) return bad.empty() || !finds_bug(bad, seed, flags);
  if (!bad.empty()) report(c, bad, seed, flags, check);
  return bad.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!read_flags(argc, argv, &flags)) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  if (flags.opencl) {
    const auto device = tessera::runtime::open_device(tessera::target::Kind::kOpenCl);
    if (!device.ok() && tessera::testing::opencl_is_installed()) {
      fmt::print("FAILED: {}\n", device.error().message);
      return 1;
    }
    if (!device.ok()) {
      fmt::print("SKIPPED: {}\n", device.error().message);
      return 77;
    }
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_crash);
  std::uint64_t failures = 0;
  tessera::fuzz::Reached reached;
  tessera::fuzz::Counts counts;
  for (std::uint64_t i = 0; i < flags.runs; ++i) {
    const std::uint64_t seed = flags.seed + i;
    fmt::format_to_n(g_crash_report, sizeof(g_crash_report) - 1,
                     "CRASHED: repeat with random_graphs --seed {} --nodes {} --runs 1\n{}", seed,
                     nodes_of(seed, flags), '\0');
    if (run_seed(seed, flags, &reached, &counts)) continue;
    ++failures;
    if (!flags.keep_going) break;
  }
  if (flags.table) fmt::print("{}", tessera::fuzz::table_of(reached));
  fmt::print(
      "{} graphs from seed {}: {} failed; {} compiled, {} with a random plan, {} as artifacts, {} "
      "on "
      "OpenCL, {} in parts\n",
      flags.runs, flags.seed, failures, counts.compiled, counts.plans, counts.artifacts,
      counts.opencl, counts.parts);
  if (flags.planted) {
    if (failures == 0) fmt::print("NOT FOUND in {} graphs\n", flags.runs);
    return failures > 0 ? 0 : 1;
  }
  const std::string missing = missing_ways(flags.required, counts);
  if (!missing.empty()) fmt::print("MISSING {}\n", missing);
  return failures == 0 && missing.empty() ? 0 : 1;
}
