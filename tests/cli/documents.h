// The documents of the repository.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tessera::cli {

// Of the repository.
inline const std::filesystem::path& root() {
  static const std::filesystem::path path = TESSERA_ROOT;
  return path;
}

// README.md, CONTRIBUTING.md, docs/...: names below the root, sorted.
std::vector<std::string> documents();
// The README.md of every folder, below the root too.
std::vector<std::string> folder_documents();

}  // namespace tessera::cli
