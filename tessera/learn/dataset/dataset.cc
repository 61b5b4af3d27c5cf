#include "tessera/learn/dataset/dataset.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "tessera/support/hash.h"

namespace tessera::dataset {

const std::vector<std::string>& holdout_networks() {
  static const std::vector<std::string> names = {"resnet50", "mobilenet_v2", "resnext50_32x4d",
                                                 "bert_tiny", "bert_base"};
  return names;
}

Result<std::vector<std::string>> Dataset::network_names(
    const std::vector<std::string>& wanted) const {
  std::vector<std::string> known;
  for (const NetworkInfo& n : networks) known.push_back(n.name);
  const auto has = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  std::vector<std::string> out;
  for (const std::string& name : wanted) {
    const std::size_t before = out.size();
    if (has(name)) out.push_back(name);
    if (name == kTenset5) std::ranges::copy_if(holdout_networks(), std::back_inserter(out), has);
    if (out.size() > before) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "no network '{}'; the dataset has: {}; name one with --holdout, or split it "
                      "by-task",
                      name, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
  return out;
}

Result<std::vector<std::string>> Dataset::tasks_of(const std::vector<std::string>& wanted) const {
  TESSERA_TRY(const std::vector<std::string> names, network_names(wanted));
  std::set<std::string> keys;
  for (const NetworkInfo& n : networks) {
    if (std::find(names.begin(), names.end(), n.name) == names.end()) continue;
    for (const auto& [key, count] : n.weights) keys.insert(key);
  }
  return std::vector<std::string>(keys.begin(), keys.end());
}

std::string digest(const Dataset& dataset) {
  std::uint64_t h = 0;
  const auto add = [&](std::string_view text) { h = hash_bytes(text, h); };
  for (const MachineInfo& m : dataset.machines) add(fmt::format("{} {}", m.target, m.threads));
  for (const TaskInfo& t : dataset.tasks) {
    add(t.key);
    add(t.format);
    add(t.definition);
  }
  for (const Example& e : dataset.examples) {
    add(fmt::format("{} {} {}", e.task, e.machine, e.seconds));
    add(e.candidate);
    add(e.schedule);
  }
  return to_hex(h);
}

}  // namespace tessera::dataset
