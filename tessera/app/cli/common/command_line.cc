#include "tessera/app/cli/common/command_line.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/ranges.h>

namespace tessera::cli {

std::string command_line(const std::string& flag, const std::vector<std::string>& others) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return "";
  words[0] = std::filesystem::path(words[0]).filename().string();
  const auto at = std::find(words.begin(), words.end(), flag);
  if (at != words.end()) words.erase(at, at + std::min<std::ptrdiff_t>(2, words.end() - at));
  std::erase_if(words, [&](const std::string& w) {
    return w.starts_with(flag + "=") || std::find(others.begin(), others.end(), w) != others.end();
  });
  return fmt::format("{}", fmt::join(words, " "));
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace tessera::cli
