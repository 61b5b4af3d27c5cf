#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "tessera/cli/command.h"

namespace tessera::cli {

int report(const Error& error) {
  fmt::print(stderr, "tessera: {}\n", error.message);
  switch (error.code) {
    case ErrorCode::kUnavailable: return kUnreachable;
    case ErrorCode::kBuildFailed:
    case ErrorCode::kRunFailed: return kInternal;
    default: return kUsage;
  }
}

std::string default_schedule_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {fs::path("bench/schedules"), bin / "../../../bench/schedules", bin / "../share/tessera/schedules"}) {
    if (fs::is_directory(folder, error)) return fs::weakly_canonical(folder, error).string();
  }
  return "bench/schedules";
}

namespace {

constexpr AddCommand kCommands[] = {add_bench, add_show, add_targets};

int run(int argc, char** argv) {
  CLI::App app("Tessera: a learned tensor compiler", "tessera");
  app.require_subcommand(1);
  app.set_version_flag("--version", "tessera 0.1.0");
  std::function<int()> command;
  for (const AddCommand add : kCommands) add(app, &command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? kOk : kUsage;
  }
  return command();
}

}  // namespace
}  // namespace tessera::cli

int main(int argc, char** argv) {
  try {
    return tessera::cli::run(argc, argv);
  } catch (const tessera::InternalError& e) {
    fmt::print(stderr, "tessera: internal error, please report it: {}\n", e.what());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tessera: {}\n", e.what());
  }
  return tessera::cli::kInternal;
}
