#include "tessera/learn/nn/training_notes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include "tessera/support/hash.h"
#include "tessera/support/split_commas.h"

namespace tessera::nn {
namespace {

// Files of before wrote kinds with underscores; every flag has a hyphen.
std::string kind_of(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// "KIND HOLDOUT (HOW); KIND; ..."
std::vector<TrainingSplit> from_text(const std::string& text) {
  std::vector<TrainingSplit> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    TrainingSplit split;
    if (const std::size_t how = part.find(" ("); how != std::string::npos) {
      split.how = part.substr(how + 2, part.find(')', how) - how - 2);
      part.resize(how);
    }
    const std::size_t space = std::min(part.find(' '), part.size());
    split.kind = kind_of(part.substr(0, space));
    split.holdout = part.substr(std::min(space + 1, part.size()));
    out.push_back(std::move(split));
  }
  return out;
}

std::string to_text(const TrainingSplit& split) {
  return split.kind + (split.holdout.empty() ? "" : " ") + split.holdout +
         (split.how.empty() ? "" : " (" + split.how + ")");
}

std::string text_of(const Notes& notes, const char* name) {
  const auto found = notes.find(name);
  return found == notes.end() ? std::string() : found->second;
}

constexpr std::size_t kDigits = 8;     // of a digest in a list
constexpr const char* kNone = "none";  // a list that is empty

std::string digest_of(const std::string& key) { return to_hex(hash_bytes(key)).substr(0, kDigits); }

std::string join(const std::set<std::string>& digests) {
  std::string out;
  for (const std::string& d : digests) out += d;
  return out.empty() ? kNone : out;
}

std::optional<std::set<std::string>> digests_in(const Notes& notes, const char* name) {
  const auto found = notes.find(name);
  if (found == notes.end()) return std::nullopt;
  const std::string text = found->second == kNone ? "" : found->second;
  if (text.size() % kDigits != 0 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  std::set<std::string> out;
  for (std::size_t at = 0; at < text.size(); at += kDigits) out.insert(text.substr(at, kDigits));
  return out;
}

constexpr const char* kTraining = "training_tasks";
constexpr const char* kValidation = "validation_tasks";
constexpr const char* kKinds = "kinds";

void write(const TrainingTasks& tasks, Notes* notes) {
  (*notes)[kTraining] = join(tasks.training);
  (*notes)[kValidation] = join(tasks.validation);
}

// What both say; forgotten where one of them does not.
void join_tasks(const Notes& before, Notes* notes) {
  std::optional<TrainingTasks> ours = training_tasks(*notes);
  const std::optional<TrainingTasks> theirs = training_tasks(before);
  if (!ours || !theirs) {
    notes->erase(kTraining);
    notes->erase(kValidation);
    return;
  }
  ours->training.insert(theirs->training.begin(), theirs->training.end());
  ours->validation.insert(theirs->validation.begin(), theirs->validation.end());
  write(*ours, notes);
}

}  // namespace

void note_training(const TrainingSplit& split, const Notes* before, Notes* notes) {
  (*notes)["split"] = split.kind;
  if (!split.holdout.empty()) (*notes)["holdout"] = split.holdout;
  if (!split.how.empty()) (*notes)["split_how"] = split.how;
  if (before == nullptr) return;
  std::vector<TrainingSplit> earlier = trainings(*before);
  if (earlier.empty()) earlier.push_back({"unknown", "", ""});
  std::erase(earlier, split);
  std::string text;
  for (const TrainingSplit& one : earlier) text += (text.empty() ? "" : "; ") + to_text(one);
  if (!text.empty()) (*notes)["earlier_splits"] = text;
  join_tasks(*before, notes);
  KindCounts kinds = kinds_of(*notes);
  for (const auto& [kind, count] : kinds_of(*before)) kinds[kind] += count;
  note_kinds(kinds, notes);
}

std::vector<TrainingSplit> trainings(const Notes& notes) {
  std::vector<TrainingSplit> out = from_text(text_of(notes, "earlier_splits"));
  if (const std::string split = text_of(notes, "split"); !split.empty()) {
    out.insert(out.begin(),
               {kind_of(split), text_of(notes, "holdout"), text_of(notes, "split_how")});
  }
  return out;
}

bool TrainingTasks::saw(const std::string& key) const {
  return training.contains(digest_of(key)) || validation.contains(digest_of(key));
}

bool TrainingTasks::validated(const std::string& key) const {
  return validation.contains(digest_of(key)) && !training.contains(digest_of(key));
}

void note_tasks(const std::set<std::string>& training_keys,
                const std::set<std::string>& validation_keys, Notes* notes) {
  TrainingTasks tasks;
  for (const std::string& key : training_keys) tasks.training.insert(digest_of(key));
  for (const std::string& key : validation_keys) tasks.validation.insert(digest_of(key));
  write(tasks, notes);
}

std::optional<TrainingTasks> training_tasks(const Notes& notes) {
  std::optional<std::set<std::string>> training = digests_in(notes, kTraining),
                                       validation = digests_in(notes, kValidation);
  if (!training || !validation) return std::nullopt;
  return TrainingTasks{std::move(*training), std::move(*validation)};
}

// "MACHINE THREADS TYPES SKETCH=COUNT,SKETCH=COUNT; MACHINE ..."
void note_kinds(const KindCounts& kinds, Notes* notes) {
  std::string text, group;
  for (const auto& [kind, count] : kinds) {
    const std::size_t space = kind.rfind(' ');
    if (space == std::string::npos || count <= 0) continue;
    const bool more = kind.compare(0, space, group) == 0;
    group = kind.substr(0, space);
    text += more ? "," : (text.empty() ? "" : "; ") + group + " ";
    text += kind.substr(space + 1) + "=" + std::to_string(count);
  }
  notes->erase(kKinds);
  if (!text.empty()) (*notes)[kKinds] = text;
}

KindCounts kinds_of(const Notes& notes) {
  KindCounts out;
  std::istringstream groups(text_of(notes, kKinds));
  for (std::string group; std::getline(groups, group, ';');) {
    group.erase(0, group.find_first_not_of(' '));
    const std::size_t space = group.rfind(' ');
    if (space == std::string::npos) return {};
    for (const std::string& sketch : split_commas(group.substr(space + 1))) {
      const std::size_t equals = sketch.rfind('=');
      std::int64_t count = 0;
      const char* end = sketch.data() + sketch.size();
      const auto from = std::min(equals + 1, sketch.size());
      const auto [stop, error] = std::from_chars(sketch.data() + from, end, count);
      if (equals == std::string::npos || error != std::errc() || stop != end || count < 0) {
        return {};
      }
      out[group.substr(0, space + 1) + sketch.substr(0, equals)] = count;
    }
  }
  return out;
}

int most_threads(const Notes& notes) {
  const auto targets = notes.find("targets");
  if (targets == notes.end()) return 0;
  constexpr std::string_view kName = "threads=";
  const std::string& text = targets->second;
  int most = 0;
  for (std::size_t at = text.find(kName); at != std::string::npos; at = text.find(kName, at)) {
    at += kName.size();
    int threads = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), threads);
    most = std::max(most, threads);
  }
  return most;
}

Notes notes_of_all(const std::vector<Notes>& networks) {
  const std::array<const char*, 4> own = {"split", "holdout", "split_how", "earlier_splits"};
  Notes out = networks.front();
  for (const Notes& n : networks) {
    std::erase_if(out, [&](const auto& note) {
      const auto same = n.find(note.first);
      return same == n.end() || same->second != note.second;
    });
  }
  for (const char* name : own) out.erase(name);
  bool told = false;
  for (const Notes& n : networks) told = told || !trainings(n).empty();
  if (!told) return out;
  for (const Notes& n : networks) {
    std::vector<TrainingSplit> all = trainings(n);
    if (all.empty()) all.push_back({"unknown", "", ""});
    for (const TrainingSplit& split : all) {
      const Notes before = out;
      for (const char* name : own) out.erase(name);
      note_training(split, before.contains("split") ? &before : nullptr, &out);
    }
  }
  // Of all together; what only one has seen was seen.
  for (const char* name : {kTraining, kValidation, kKinds}) out.erase(name);
  for (const Notes& n : networks) {
    Notes joined = n;
    if (&n != &networks.front()) join_tasks(out, &joined);
    for (const char* name : {kTraining, kValidation}) {
      out.erase(name);
      if (joined.contains(name)) out[name] = joined.at(name);
    }
  }
  return out;
}

}  // namespace tessera::nn
