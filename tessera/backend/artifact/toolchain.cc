#include "tessera/backend/artifact/toolchain.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/ranges.h>

#include "tessera/support/run_tool.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::artifact {
namespace {

using Words = std::vector<std::string>;

Result<void> run(Words command, const Words& more, const std::string& folder) {
  command.insert(command.end(), more.begin(), more.end());
  const Result<std::string> done = run_tool(command, folder);
  if (!done.ok()) return done.error();
  return {};
}

// Links an empty library: a compiler that starts may still lack the target's linker or C library.
Result<void> probe(const Linker& linker) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("probe"));
  Words words = {"-shared", "-fPIC", "-x", "c", "/dev/null", "-o", "probe.so"};
  const Words last = linker.has_c_library ? Words{"-pthread", "-lm"} : Words{"-nostdlib", "-lgcc"};
  words.insert(words.end(), last.begin(), last.end());
  return run(linker.command, words, folder.path());
}

// Empty libraries with the names that glibc's have on every Linux. Functions are then found without
// a version of their interface: whichever of those that the machine has is the first or the default
// one, and what artifacts call has had one declaration in all of them (runtime/libc.h).
Result<Words> empty_libraries(const Linker& linker, const std::string& folder,
                              std::string_view more) {
  Words names = {"libc.so.6", "libpthread.so.0"};
  names.emplace_back(more == "-ldl" ? "libdl.so.2" : "libm.so.6");
  for (const std::string& name : names) {
    TESSERA_DO(
        run(linker.command,
            {"-shared", "-nostdlib", "-Wl,-soname," + name, "-x", "c", "/dev/null", "-o", name},
            folder));
  }
  for (std::string& name : names) name.insert(0, folder + "/");
  return names;
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

// That of Debian and Ubuntu.
std::string package_for(const target::Target& target) {
  if (target.arch == target::host().arch) return "gcc";
  std::string gcc(target::row_of(target.arch).name);
  std::replace(gcc.begin(), gcc.end(), '_', '-');
  return fmt::format("gcc-{}-linux-gnu", gcc);
}

std::vector<Words> candidates(const target::Target& target) {
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

Result<Linker> find_linker(const target::Target& target, const std::string& cc) {
  std::vector<Words> tried = candidates(target);
  if (!cc.empty()) tried = {{absolute_program(cc)}};
  std::string reasons;
  for (const bool has_c_library : {true, false}) {
    for (const Words& command : tried) {
      Linker linker{command, has_c_library};
      const Result<void> made = probe(linker);
      if (made.ok()) return linker;
      if (has_c_library) continue;  // told below, if nothing else is missing
      reasons +=
          fmt::format("\n  {}: {}", fmt::join(command, " "), error_line(made.error().message));
    }
  }
  return make_error(
      ErrorCode::kUnavailable,
      "no C compiler links shared libraries for {}; install one (Debian, Ubuntu: {}), "
      "name it with --cc, or choose --emit a or obj, which need none:{}",
      target.triple, package_for(target), reasons);
}

Result<void> link_library(const Linker& linker, const std::string& folder,
                          const std::string& object, const std::string& library,
                          std::string_view more) {
  Words words = {
      "-shared", "-static-libgcc", "-Wl,-soname," + library, "-Wl,-z,noexecstack", "-o", library,
      object};
  if (linker.has_c_library) {
    for (const std::string& word :
         {std::string("-pthread"), std::string("-Wl,-z,defs"), std::string(more)}) {
      words.push_back(word);
    }
    return run(linker.command, words, folder);
  }
  TESSERA_TRY(const TemporaryFolder places, TemporaryFolder::make("link"));
  TESSERA_TRY(const Words empty, empty_libraries(linker, places.path(), more));
  words.insert(words.end(), {"-nostdlib", "-lgcc", "-Wl,--no-as-needed"});
  words.insert(words.end(), empty.begin(), empty.end());
  return run(linker.command, words, folder);
}

}  // namespace tessera::artifact
