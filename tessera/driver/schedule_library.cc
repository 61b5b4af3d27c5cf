#include "tessera/driver/schedule_library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace tessera::driver {
namespace {

namespace fs = std::filesystem;

// How many parameters of the pattern "op:K=V,K=V" the spec meets; -1 when one differs.
int match(const std::string& pattern, const te::OpSpec& spec) {
  const std::size_t colon = std::min(pattern.find(':'), pattern.size());
  if (pattern.substr(0, colon) != spec.op) return -1;
  int met = 0;
  std::stringstream items(colon < pattern.size() ? pattern.substr(colon + 1) : "");
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t eq = item.find('=');
    if (eq == std::string::npos) return -1;
    const std::string key = item.substr(0, eq), value = item.substr(eq + 1);
    const auto number = spec.ints.find(key);
    const auto word = spec.words.find(key);
    const bool same = (number != spec.ints.end() && std::to_string(number->second) == value) ||
                      (word != spec.words.end() && word->second == value) ||
                      (key == "dtype" && to_text(spec.dtype) == value);
    if (!same) return -1;
    ++met;
  }
  return met;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return make_error(ErrorCode::kIo, "cannot read {}", path);
  std::stringstream text;
  text << in.rdbuf();
  if (in.bad()) return make_error(ErrorCode::kIo, "cannot read {}", path);
  return text.str();
}

Result<FoundSchedule> find_schedule(const std::string& folder, const te::OpSpec& spec, const target::Target& target) {
  const fs::path root = fs::path(folder) / (target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64");
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& f : fs::directory_iterator(root, error)) {
    if (f.path().extension() == ".txt") files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  FoundSchedule best;
  int best_score = -1;
  for (const fs::path& file : files) {
    TESSERA_TRY(const std::string text, read_text_file(file.string()));
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      constexpr const char* kPrefix = "# op: ";
      if (line.rfind(kPrefix, 0) != 0) continue;
      const int score = match(line.substr(6), spec);
      if (score <= best_score) continue;
      best_score = score;
      best = {file.string(), text};
    }
  }
  return best;
}

}  // namespace tessera::driver
