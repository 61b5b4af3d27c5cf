// tessera train: hands its arguments to tessera-train, which alone is linked with libtorch.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <unistd.h>

#include "tessera/cli/command.h"
#include "tessera/cli/train_trees.h"

namespace tessera::cli {
namespace {

// Beside this program, or where it is installed; empty when it was not built.
std::string find_trainer() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {bin / "tessera-train", bin / "../libexec/tessera/tessera-train"}) {
    if (::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error)) return path.string();
  }
  return "";
}

// Does not return when it succeeds: signals and the exit code are the trainer's own.
int train(const std::vector<std::string>& words) {
  const std::string program = find_trainer();
  if (program.empty()) {
    return report(
        make_error(ErrorCode::kUnavailable,
                   "training networks needs libtorch (1.13 or 2.x), which was absent when "
                   "Tessera was built: ./do deps --train && ./do build; boosted trees need "
                   "none (--model gbt)"));
  }
  std::vector<std::string> copies = {program};
  copies.insert(copies.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return report(
      make_error(ErrorCode::kUnavailable, "cannot run {}: {}", program, std::strerror(errno)));
}

}  // namespace

void add_train(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("train", "Train a cost model on a dataset");
  sub->footer(
      "The flags are those of tessera-train, which is built where libtorch is found.\n"
      "Boosted trees need neither: tessera train --model gbt --help");
  // Where the trainer is there, it explains its own flags.
  if (!find_trainer().empty()) sub->leave_help();
  sub->prefix_command();
  sub->callback([sub, run] {
    const std::vector<std::string> words = sub->remaining();
    *run = [words] { return asks_for_trees(words) ? train_trees(words) : train(words); };
  });
}

}  // namespace tessera::cli
