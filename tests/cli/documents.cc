#include "tests/cli/documents.h"

#include <algorithm>

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

std::string name_of(const fs::path& file) { return fs::relative(file, root()).string(); }

}  // namespace

std::vector<std::string> documents() {
  std::vector<std::string> found;
  const auto add = [&](const fs::directory_entry& f) {
    if (f.path().extension() == ".md") found.push_back(name_of(f.path()));
  };
  for (const fs::directory_entry& f : fs::directory_iterator(root())) add(f);
  for (const fs::directory_entry& f : fs::recursive_directory_iterator(root() / "docs")) add(f);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> folder_documents() {
  std::vector<std::string> found;
  for (const char* folder : {"tessera", "bench", "weights", "data", "peers", "python", "tests"}) {
    for (const fs::directory_entry& f : fs::recursive_directory_iterator(root() / folder)) {
      if (f.path().filename() == "README.md") found.push_back(name_of(f.path()));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tessera::cli
