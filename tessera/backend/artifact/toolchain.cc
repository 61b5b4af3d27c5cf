#include "tessera/backend/artifact/toolchain.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/support/run_tool.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::artifact {
namespace {

// Links an empty library: a compiler that starts may still lack the target's linker or C library.
Result<void> probe(const std::vector<std::string>& cc) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("probe"));
  std::vector<std::string> command = cc;
  for (const char* word :
       {"-shared", "-fPIC", "-pthread", "-x", "c", "/dev/null", "-o", "probe.so", "-lm"}) {
    command.emplace_back(word);
  }
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
  const target::ArchRow& row = target::row_of(target.arch);
  std::string gcc(row.name);
  std::replace(gcc.begin(), gcc.end(), '_', '-');
  return fmt::format("gcc-{}-linux-gnu libc6-dev-{}-cross", gcc, row.debian);
}

std::vector<std::vector<std::string>> candidates(const target::Target& target) {
  if (target.arch == target::host().arch) return {{"cc"}, {"gcc"}, {"clang"}};
  const std::string arch(target::row_of(target.arch).name);
  return {{arch + "-linux-gnu-gcc"}, {"clang", "--target=" + target.triple}};
}

// A relative path would be looked up in the folder where the tool runs.
std::string absolute_program(const std::string& program) {
  if (program.find('/') == std::string::npos) return program;
  std::error_code error;
  return std::filesystem::absolute(program, error).string();
}

}  // namespace

Result<std::vector<std::string>> find_linker(const target::Target& target, const std::string& cc) {
  std::vector<std::vector<std::string>> tried = candidates(target);
  if (!cc.empty()) tried = {{absolute_program(cc)}};
  std::string reasons;
  for (const std::vector<std::string>& candidate : tried) {
    const Result<void> made = probe(candidate);
    if (made.ok()) return candidate;
    reasons +=
        fmt::format("\n  {}: {}", fmt::join(candidate, " "), error_line(made.error().message));
  }
  return make_error(
      ErrorCode::kUnavailable,
      "no C compiler links shared libraries for {}; install one (Debian, Ubuntu: {}), "
      ""
      "name it with --cc, or choose --emit a or obj, which need none:{}",
      target.triple, packages_for(target), reasons);
}

}  // namespace tessera::artifact
