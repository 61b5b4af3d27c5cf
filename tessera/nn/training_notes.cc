#include "tessera/nn/training_notes.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

namespace tessera::nn {
namespace {

// Files of before wrote kinds with underscores; every flag has a hyphen.
std::string kind_of(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// "KIND HOLDOUT; KIND; ..."
std::vector<TrainingSplit> from_text(const std::string& text) {
  std::vector<TrainingSplit> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    const std::size_t space = std::min(part.find(' '), part.size());
    out.push_back({kind_of(part.substr(0, space)), part.substr(std::min(space + 1, part.size()))});
  }
  return out;
}

}  // namespace

void note_training(const TrainingSplit& split, const Notes* before, Notes* notes) {
  (*notes)["split"] = split.kind;
  if (!split.holdout.empty()) (*notes)["holdout"] = split.holdout;
  if (before == nullptr) return;
  std::vector<TrainingSplit> earlier = trainings(*before);
  if (earlier.empty()) earlier.push_back({"unknown", ""});
  std::erase(earlier, split);
  std::string text;
  for (const TrainingSplit& one : earlier) {
    text += (text.empty() ? "" : "; ") + one.kind + (one.holdout.empty() ? "" : " ") + one.holdout;
  }
  if (!text.empty()) (*notes)["earlier_splits"] = text;
}

std::vector<TrainingSplit> trainings(const Notes& notes) {
  const auto text = [&](const char* name) {
    const auto found = notes.find(name);
    return found == notes.end() ? std::string() : found->second;
  };
  std::vector<TrainingSplit> out = from_text(text("earlier_splits"));
  if (!text("split").empty()) {
    out.insert(out.begin(), {kind_of(text("split")), text("holdout")});
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
  Notes out = networks.front();
  for (const Notes& n : networks) {
    std::erase_if(out, [&](const auto& note) {
      const auto same = n.find(note.first);
      return same == n.end() || same->second != note.second;
    });
  }
  for (const char* name : {"split", "holdout", "earlier_splits"}) out.erase(name);
  bool told = false;
  for (const Notes& n : networks) told = told || !trainings(n).empty();
  if (!told) return out;
  for (const Notes& n : networks) {
    std::vector<TrainingSplit> all = trainings(n);
    if (all.empty()) all.push_back({"unknown", ""});
    for (const TrainingSplit& split : all) {
      const Notes before = out;
      for (const char* name : {"split", "holdout", "earlier_splits"}) out.erase(name);
      note_training(split, before.contains("split") ? &before : nullptr, &out);
    }
  }
  return out;
}

}  // namespace tessera::nn
