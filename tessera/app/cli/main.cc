#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/version.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/app/cli/manual/manual.h"
#include "tessera/app/cli/report/report.h"
#include "tessera/support/disk_cache.h"
#include "tessera/support/json.h"
#include "tessera/support/standard_streams.h"

namespace tessera::cli {

namespace {

// Names come from files, and must not command the terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool control = (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == '\x7f';
    out += control ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  }
  return out;
}

}  // namespace

int report(const Error& error) {
  fmt::print(stderr, "{} {}\n", coloured(Colour::kRed, "tessera:", stderr),
             printable(error.message));
  switch (error.code) {
    case ErrorCode::kUnavailable:
      return kUnreachable;
    case ErrorCode::kBuildFailed:
    case ErrorCode::kRunFailed:
      return kInternal;
    default:
      return kUsage;
  }
}

int report_model(const Error& error) {
  const int code = report(error);
  if (error.code == ErrorCode::kDataDependent) {
    fmt::print(
        stderr,
        "  --value NAME=VALUE fixes an input that it follows from; run, bench and tune leave such "
        "nodes to the host\n");
  }
  const bool unsupported =
      error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kDataDependent;
  return unsupported ? kUnsupportedModel : code;
}

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2)); }

namespace {

constexpr AddCommand kCommands[] = {
    add_agent,       add_bench,   add_cache,   add_check,  add_compile, add_completion,
    add_conformance, add_dataset, add_db,      add_eval,   add_fleet,   add_generate,
    add_info,        add_lm,      add_machine, add_manual, add_peer_op, add_quantize,
    add_report,      add_results, add_run,     add_show,   add_study,   add_targets,
    add_tasks,       add_train,   add_tune,    add_zoo};

// What is still buffered counts too: a full disk must not look like success.
bool finish_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  fmt::print(stderr, "tessera: cannot write to standard output: {}\n",
             std::strerror(errno != 0 ? errno : EIO));
  return false;
}

int run(int argc, char** argv) {
  Flags app("Tessera: a learned tensor compiler", "tessera");
  app.require_subcommand(1, 1);
  app.version("tessera " + version_text());
  app.footer(
      "Examples:\n$ tessera info model.onnx\n$ tessera run model.onnx --random\n"
      "$ tessera tune model.onnx --budget 5m && tessera bench model.onnx --plan model.plan\n"
      "`tessera help COMMAND` explains a command. Exit codes: docs/reference/exit-codes.md.");
  std::function<int()> command;
  for (const AddCommand add : kCommands) add(app, &command);
  if (const std::optional<int> code = app.parse(argc, argv)) return *code;
  const int code = command();
  for (const std::string& note : take_cache_notes()) fmt::print(stderr, "tessera: {}\n", note);
  return code;
}

int run_checked(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InternalError& e) {
    fmt::print(stderr, "tessera: internal error, please report it: {}\n", e.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tessera: not enough memory\n");
  } catch (const std::system_error& e) {
    // fmt does not know the name of the stream, and we print to no other.
    const bool output = std::string_view(e.what()).starts_with("cannot write to file");
    fmt::print(stderr, "tessera: {}\n",
               output ? "cannot write to standard output: " + e.code().message() : e.what());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tessera: {}\n", e.what());
  }
  return kInternal;
}

}  // namespace
}  // namespace tessera::cli

int main(int argc, char** argv) {
  tessera::guard_standard_streams();
  const int code = tessera::cli::run_checked(argc, argv);
  if (code != tessera::cli::kOk) return code;  // the reason is on stderr
  return tessera::cli::finish_output() ? tessera::cli::kOk : tessera::cli::kInternal;
}
