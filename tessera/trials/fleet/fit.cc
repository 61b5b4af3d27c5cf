#include "tessera/trials/fleet/fit.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "tessera/machine/target/match.h"

namespace tessera::fleet {
namespace {

constexpr std::string_view kLabel = "label=";
constexpr std::size_t kMostNamed = 8;  // agents of one message
constexpr std::int64_t kMostWanted = 100'000;

std::string machine_text(const target::Target& t) {
  return fmt::format("{}, caches {}/{}/{} KiB", t.cpu, t.l1_bytes >> 10, t.l2_bytes >> 10,
                     t.l3_bytes >> 10);
}

}  // namespace

Result<Labels> labels_from_text(std::string_view text) {
  Labels out;
  constexpr std::string_view kBetween = " ,";
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view label = text.substr(at, end - at);
    const std::size_t equals = label.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == label.size()) {
      return make_error(ErrorCode::kInvalidArgument, "label '{}' is not NAME=VALUE", label);
    }
    out[std::string(label.substr(0, equals))] = label.substr(equals + 1);
    at = end;
  }
  return out;
}

std::string to_text(const Labels& labels) {
  std::vector<std::string> words;
  words.reserve(labels.size());
  for (const auto& [name, value] : labels) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, " "));
}

Result<AgentChoice> choice_from_text(const std::string& text) {
  AgentChoice out;
  if (text == "any") return out;
  if (text.starts_with(kLabel)) {
    TESSERA_TRY(out.labels, labels_from_text(std::string_view(text).substr(kLabel.size())));
    if (!out.labels.empty()) return out;
  }
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out.most);
  const bool number = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  if (number && out.most >= 1 && out.most <= kMostWanted) return out;
  return make_error(ErrorCode::kInvalidArgument,
                    "agents '{}' are neither 'any', nor a number of them, nor label=NAME=VALUE",
                    text);
}

std::string why_unfit(const AgentRow& agent, const TuningRow& tuning) {
  if (agent.version != tuning.version) {
    return fmt::format("runs version {}, this is {}", agent.version, tuning.version);
  }
  if (agent.state != AgentState::kWorking) return to_text(agent.state);
  if (agent.threads < tuning.threads) {
    return fmt::format("has {} of {} threads", agent.threads, tuning.threads);
  }
  const Result<Labels> wanted = labels_from_text(tuning.labels);
  const Result<Labels> has = labels_from_text(agent.labels);
  if (!wanted.ok() || !has.ok()) return "labels cannot be read";
  for (const auto& [name, value] : *wanted) {
    const auto it = has->find(name);
    if (it == has->end() || it->second != value)
      return fmt::format("has no label {}={}", name, value);
  }
  const Result<target::Target> its = target::target_from_text(agent.target);
  const Result<target::Target> made_for = target::target_from_text(tuning.target);
  if (!its.ok() || !made_for.ok()) return "its machine cannot be read";
  // What is allowed to round is the tuning's choice, not a fact of the machine.
  target::Target as_asked = *its;
  as_asked.fast_math = made_for->fast_math;
  if (target::same_group(as_asked, *made_for)) return "";
  return fmt::format("is another machine: {}; wanted {}", machine_text(*its),
                     machine_text(*made_for));
}

std::string why_none_fits(const std::vector<AgentRow>& agents, const TuningRow& tuning,
                          const std::vector<HelperRow>& helpers) {
  if (agents.empty()) return "there is no agent; `tessera agent --db ...` starts one";
  std::vector<std::string> reasons;
  for (const AgentRow& a : agents) {
    if (reasons.size() == kMostNamed) break;
    std::string why = why_unfit(a, tuning);
    for (const HelperRow& h : helpers) {
      if (why.empty() && h.agent == a.id && !h.refused.empty()) why = "refused: " + h.refused;
    }
    reasons.push_back(fmt::format("{} ({})", a.name, why.empty() ? "has not come yet" : why));
  }
  const std::size_t more = agents.size() - reasons.size();
  return fmt::format("no agent fits: {}{}", fmt::join(reasons, "; "),
                     more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace tessera::fleet
