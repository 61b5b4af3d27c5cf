// tessera-runner: measures bundles of `tessera dataset build` on a machine without a compiler.
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/duration.h"
#include "tessera/support/result.h"
#include "tessera/support/standard_streams.h"
#include "tessera/trials/measure/confine.h"
#include "tessera/trials/measure/process.h"
#include "tessera/trials/runner/run_bundles.h"

namespace {

using tessera::Error;
using tessera::ErrorCode;
using tessera::Result;

constexpr const char* kUsage =
    R"(Measures bundles of `tessera dataset build` on this machine
Usage: tessera-runner BUNDLE... -o RECORDS.jsonl [OPTIONS]

Options:
  -h,--help         Print this help message and exit
  -o,--output FILE  JSON lines to add records to; what it has is not measured again
  --threads N       Threads of the measured code (default: what the bundle was sampled for)
  --cores LIST      Processors to use, e.g. 0-3,8
  --budget TIME     Stop after this long: 90s, 5m, 1h30m; run the same command again to resume
  --any-machine     Measure even if the candidates were drawn for another machine
  --machine         Print this machine for `tessera dataset sample --target` and exit

The records are read by `tessera db import` and `tessera dataset import`.
)";

volatile std::sig_atomic_t g_interrupted = 0;

struct Args {
  tessera::runner::RunnerOptions options;
  std::vector<int> cores;
  bool help = false, machine = false;
};

template <class T>
Result<T> number(const std::string& name, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= 0)) {
    return tessera::make_error(ErrorCode::kInvalidArgument, "{} '{}' is not a number", name, text);
  }
  return value;
}

// "0-3,8" -> 0 1 2 3 8
Result<std::vector<int>> core_list(const std::string& text) {
  std::vector<int> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t dash = part.find('-');
    TESSERA_TRY(const int first, number<int>("--cores", part.substr(0, dash)));
    int last = first;
    if (dash != std::string::npos) {
      TESSERA_TRY(last, number<int>("--cores", part.substr(dash + 1)));
    }
    if (last < first || last >= 1 << 16) {
      return tessera::make_error(ErrorCode::kInvalidArgument, "--cores '{}' is not a range", part);
    }
    for (int core = first; core <= last; ++core) out.push_back(core);
    at = end + 1;
  }
  return out;
}

Result<void> take_option(const std::string& name, const std::string& value, Args* args) {
  if (name == "-o" || name == "--output") {
    args->options.output = value;
  } else if (name == "--threads") {
    TESSERA_TRY(args->options.threads, number<int>(name, value));
    if (args->options.threads == 0) {
      return tessera::make_error(ErrorCode::kInvalidArgument, "--threads must be at least 1");
    }
  } else if (name == "--budget") {
    TESSERA_TRY(args->options.budget_s, tessera::parse_duration(value));
  } else if (name == "--cores") {
    TESSERA_TRY(args->cores, core_list(value));
  } else {
    return tessera::make_error(ErrorCode::kInvalidArgument, "unknown option {}", name);
  }
  return {};
}

Result<Args> parse(int argc, char** argv) {
  Args args;
  args.options.version = TESSERA_VERSION;
  args.options.command = "tessera-runner";
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    args.options.command += " " + arg;
    if (arg == "-h" || arg == "--help") {
      args.help = true;
    } else if (arg == "--any-machine") {
      args.options.any_machine = true;
    } else if (arg == "--machine") {
      args.machine = true;
    } else if (arg.size() > 1 && arg[0] == '-') {
      if (i + 1 == argc) {
        return tessera::make_error(ErrorCode::kInvalidArgument, "{} needs a value", arg);
      }
      args.options.command += std::string(" ") + argv[i + 1];
      TESSERA_DO(take_option(arg, argv[++i], &args));
    } else {
      args.options.bundles.push_back(arg);
    }
  }
  if (args.help || args.machine) return args;
  if (args.options.bundles.empty() || args.options.output.empty()) {
    return tessera::make_error(ErrorCode::kInvalidArgument,
                               "needs bundles and -o FILE (tessera-runner --help)");
  }
  return args;
}

int report(const Error& error) {
  fmt::print(stderr, "tessera-runner: {}\n", error.message);
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return 2;
    case ErrorCode::kUnsupported:
      return 5;
    default:
      return 6;
  }
}

// A line that is written over on a terminal, and now and then anew elsewhere.
void show(const tessera::runner::RunnerProgress& p) {
  static double shown_s = -1e9;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const bool last = p.done == p.candidates;
  if (!last && p.elapsed_s - shown_s < (terminal ? 0.2 : 30)) return;
  shown_s = p.elapsed_s;
  fmt::print(stderr, "{}{} of {} candidates, {} records ({} valid), {:.1f}/s: {}{}",
             terminal ? "\r\x1b[K" : "", p.done, p.candidates, p.records, p.valid,
             static_cast<double>(p.records) / std::max(p.elapsed_s, 1e-9), p.task,
             terminal && !last ? "" : "\n");
}

int run(const Args& args) {
  if (args.help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (!args.cores.empty()) tessera::measure::use_processors(args.cores);
  if (args.machine) {
    fmt::print("{}\n", tessera::target::to_text(tessera::target::host()));
    return 0;
  }
  tessera::target::allowed_cpus();
  if (const std::string& why = tessera::measure::confinement_note(); !why.empty()) {
    fmt::print(stderr, "tessera-runner: {}\n", why);
  }
  std::signal(SIGINT, [](int) { g_interrupted = 1; });
  std::signal(SIGTERM, [](int) { g_interrupted = 1; });
  const Result<tessera::runner::RunnerResult> done =
      tessera::runner::run_bundles(args.options, {show, [] { return g_interrupted != 0; }});
  if (!done.ok()) return report(done.error());
  fmt::print("{} records ({} valid), {} earlier; ended by {}\n", done->records, done->valid,
             done->earlier, done->stopped_by);
  return g_interrupted != 0 ? 130 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  tessera::guard_standard_streams();
  const Result<Args> args = parse(argc, argv);
  return args.ok() ? run(*args) : report(args.error());
}
