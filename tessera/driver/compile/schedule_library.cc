#include "tessera/driver/compile/schedule_library.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "tessera/lower/check_lowers.h"
#include "tessera/lower/lower.h"
#include "tessera/schedule/step.h"
#include "tessera/space/default_schedule.h"

namespace tessera::driver {
namespace {

namespace fs = std::filesystem;

// How many parameters of the pattern "op:K=V,K=V" the spec meets; -1 when one differs.
int match(const std::string& pattern, const te::OpSpec& spec, const te::Dag& dag,
          const target::Target& target) {
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
                      (key == "dtype" && to_text(spec.dtype) == value) ||
                      (key == "stages" && std::to_string(dag.ops.size()) == value) ||
                      (key == "vector" && std::to_string(target.vector_bytes) == value) ||
                      (key == "feature" &&
                       ("," + target.features + ",").find(",+" + value + ",") != std::string::npos);
    if (!same) return -1;
    ++met;
  }
  return met;
}

// The best match of the `# op:` lines of a schedule; -1: it is for something else.
int best_match(const std::string& text, const te::OpSpec& spec, const te::Dag& dag,
               const target::Target& target) {
  constexpr std::string_view kPrefix = "# op: ";
  int best = -1;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(kPrefix, 0) == 0)
      best = std::max(best, match(line.substr(kPrefix.size()), spec, dag, target));
  }
  return best;
}

bool fits(const std::string& text, const te::Dag& dag, const target::Target& target) {
  const Result<schedule::Schedule> steps = schedule::schedule_from_text(text);
  if (!steps.ok()) return false;
  const Result<schedule::State> state = schedule::apply(dag, *steps);
  return state.ok() && lower::lower(*state, target).ok();
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::error_code error;
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path, error))
    return make_error(ErrorCode::kIo, "cannot read {}", path);
  std::stringstream text;
  text << in.rdbuf();
  if (in.bad()) return make_error(ErrorCode::kIo, "cannot read {}", path);
  return text.str();
}

Result<FoundSchedule> find_schedule(const std::string& folder, const te::OpSpec& spec,
                                    const te::Dag& dag, const target::Target& target) {
  const fs::path root = fs::path(folder) / (target.is_gpu() ? target::to_text(target.kind)
                                            : target.arch == target::Arch::kAArch64 ? "aarch64"
                                                                                    : "x86_64");
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& f : fs::directory_iterator(root, error)) {
    if (f.path().extension() == ".txt") files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  struct Candidate {
    int score;
    FoundSchedule schedule;
  };
  std::vector<Candidate> candidates;
  for (const fs::path& file : files) {
    TESSERA_TRY(const std::string text, read_text_file(file.string()));
    const int score = best_match(text, spec, dag, target);
    if (score >= 0) candidates.push_back({score, {file.string(), text}});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  for (const Candidate& c : candidates) {
    if (fits(c.schedule.text, dag, target)) return c.schedule;
  }
  TESSERA_TRY(const schedule::Schedule steps,
              space::default_schedule(dag, target, lower::check_lowers));
  return FoundSchedule{"", schedule::to_text(steps)};
}

}  // namespace tessera::driver
