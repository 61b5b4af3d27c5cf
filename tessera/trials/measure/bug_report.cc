#include "tessera/trials/measure/bug_report.h"

#include <filesystem>

#include "tessera/support/files.h"
#include "tessera/support/hash.h"

namespace tessera::measure {

std::string report_bug(const te::Dag& dag, const schedule::Schedule& steps,
                       const target::Target& target, const std::string& what,
                       const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string input = fmt::format("{}\n{}\n{}", target::to_text(target), te::to_text(dag),
                                        schedule::to_text(steps));
  std::error_code error;
  const fs::path place = folder.empty() ? fs::temp_directory_path(error) : fs::path(folder);
  const std::string path =
      (place / fmt::format("tessera-bug-{}.txt", to_hex(hash_bytes(input)))).string();
  const Result<void> written = write_file(path, {fmt::format("# {}\n{}", what, input)});
  return fmt::format("a defect of the compiler: {}; {}", what,
                     written ? "please report it with " + path
                             : "its input could not be saved: " + written.error().message);
}

}  // namespace tessera::measure
