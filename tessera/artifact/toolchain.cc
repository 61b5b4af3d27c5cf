#include "tessera/artifact/toolchain.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/support/run_tool.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::artifact {
namespace {

// Makes an empty library: a compiler that starts may still lack the target's headers or linker.
Result<void> probe(const std::vector<std::string>& cc, bool links) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("probe"));
  std::vector<std::string> command = cc;
  for (const char* word :
       {links ? "-shared" : "-c", "-fPIC", "-pthread", "-x", "c", "-include", "stdio.h", "-include",
        "pthread.h", "/dev/null", "-o", links ? "probe.so" : "probe.o"}) {
    command.emplace_back(word);
  }
  if (links) command.emplace_back("-lm");
  const Result<std::string> done = run_tool(command, folder.path());
  if (!done.ok()) return done.error();
  return {};
}

// The first line that names an error; compilers say where it was included from above it.
std::string error_line(const std::string& output) {
  std::string first;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    std::string line = output.substr(at, end - at);
    if (line.find("error") != std::string::npos) return line;
    if (first.empty() && !line.ends_with("failed:")) first = line;
    at = end + 1;
  }
  return first;
}

// Those of Debian and Ubuntu.
std::string packages_for(const target::Target& target) {
  if (target.arch == target::host().arch) return "gcc libc6-dev";
  return target.arch == target::Arch::kAArch64 ? "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
                                               : "gcc-x86-64-linux-gnu libc6-dev-amd64-cross";
}

std::vector<std::vector<std::string>> candidates(const target::Target& target) {
  if (target.arch == target::host().arch) return {{"cc"}, {"gcc"}, {"clang"}};
  const std::string arch = target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64";
  return {{arch + "-linux-gnu-gcc"}, {"clang", "--target=" + target.triple}};
}

// A relative path would be looked up in the folder where the tool runs.
std::string absolute_program(const std::string& program) {
  if (program.find('/') == std::string::npos) return program;
  std::error_code error;
  return std::filesystem::absolute(program, error).string();
}

}  // namespace

Result<Toolchain> find_toolchain(const target::Target& target, const std::string& cc, bool links) {
  std::vector<std::vector<std::string>> tried = candidates(target);
  if (!cc.empty()) tried = {{absolute_program(cc)}};
  std::string reasons;
  for (const std::vector<std::string>& candidate : tried) {
    if (const Result<void> made = probe(candidate, links); !made.ok()) {
      reasons +=
          fmt::format("\n  {}: {}", fmt::join(candidate, " "), error_line(made.error().message));
      continue;
    }
    Toolchain found{candidate, "ar"};
    std::vector<std::string> ask = candidate;
    ask.push_back("-print-prog-name=ar");
    if (const Result<std::string> ar = run_tool(ask, "/"); ar.ok() && !ar->empty()) {
      found.ar = ar->substr(0, ar->find('\n'));
    }
    return found;
  }
  return make_error(
      ErrorCode::kUnavailable,
      "no C compiler for {}; install one (Debian, Ubuntu: {}) or name it with --cc:{}",
      target.triple, packages_for(target), reasons);
}

}  // namespace tessera::artifact
