#include "tessera/app/cli/train/trainer_process.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "tessera/app/cli/common/command.h"

namespace tessera::cli {

std::string find_trainer() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {bin / "tessera-train", bin / "../libexec/tessera/tessera-train"}) {
    if (::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error)) return path.string();
  }
  return "";
}

int run_trainer(const std::vector<std::string>& words, const std::string& hint) {
  const std::string program = find_trainer();
  if (program.empty()) {
    return report(
        make_error(ErrorCode::kUnavailable,
                   "training networks needs libtorch (1.13 or 2.x), which was absent when "
                   "Tessera was built: ./do deps --train && ./do build{}",
                   hint));
  }
  std::vector<std::string> copies = {program};
  copies.insert(copies.end(), words.begin(), words.end());
  std::vector<char*> argv;
  argv.reserve(copies.size() + 1);
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return report(
      make_error(ErrorCode::kUnavailable, "cannot run {}: {}", program, std::strerror(errno)));
}

}  // namespace tessera::cli
