#include "tessera/scheduling/schedule/step.h"

#include <array>
#include <charconv>
#include <limits>

#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {
namespace {

struct StepEntry {
  const char* verb;
  Result<Step> (*parse)(ArgReader&);
};

constexpr std::array kSteps = {
    StepEntry{Split::kVerb, parse_split},
    StepEntry{FollowSplit::kVerb, parse_follow_split},
    StepEntry{FollowFusedSplit::kVerb, parse_follow_fused_split},
    StepEntry{Fuse::kVerb, parse_fuse},
    StepEntry{Reorder::kVerb, parse_reorder},
    StepEntry{Annotate::kVerb, parse_annotate},
    StepEntry{Tensorize::kVerb, parse_tensorize},
    StepEntry{Pragma::kVerb, parse_pragma},
    StepEntry{ComputeAt::kVerb, parse_compute_at},
    StepEntry{ComputeInline::kVerb, parse_compute_inline},
    StepEntry{ComputeRoot::kVerb, parse_compute_root},
    StepEntry{CacheRead::kVerb, parse_cache_read},
    StepEntry{CacheWrite::kVerb, parse_cache_write},
    StepEntry{RFactor::kVerb, parse_rfactor},
    StepEntry{StorageAlign::kVerb, parse_storage_align},
    StepEntry{SetLayout::kVerb, parse_layout},
    StepEntry{PrefetchStep::kVerb, parse_prefetch},
};
static_assert(kSteps.size() == std::variant_size_v<Step>);

std::vector<std::string> tokenize(std::string_view line) {
  std::vector<std::string> tokens;
  std::size_t i = 0;
  while (i < line.size()) {
    const bool space = line[i] == ' ' || line[i] == '\t' || line[i] == '\r';
    if (space) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && line[end] != ' ' && line[end] != '\t' && line[end] != '\r') ++end;
    tokens.emplace_back(line.substr(i, end - i));
    i = end;
  }
  return tokens;
}

}  // namespace

Result<std::string> ArgReader::word(const char* what) {
  if (done()) return make_error(ErrorCode::kInvalidArgument, "missing {}", what);
  return tokens_[next_++];
}

Result<std::int64_t> ArgReader::number(const char* what) {
  TESSERA_TRY(const std::string text, word(what));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} must be a number, not '{}'", what, text);
  }
  return value;
}

Result<int> ArgReader::small_number(const char* what) {
  TESSERA_TRY(const std::int64_t value, number(what));
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    return make_error(ErrorCode::kInvalidArgument, "{} {} is out of range", what, value);
  }
  return static_cast<int>(value);
}

Result<std::vector<std::int64_t>> ArgReader::numbers_until_word(const char* what) {
  std::vector<std::int64_t> values;
  while (!done() && (values.empty() || (tokens_[next_][0] >= '0' && tokens_[next_][0] <= '9'))) {
    TESSERA_TRY(const std::int64_t v, number(what));
    values.push_back(v);
  }
  if (values.empty()) return make_error(ErrorCode::kInvalidArgument, "missing {}", what);
  return values;
}

Result<std::vector<int>> ArgReader::comma_list(const char* what) {
  TESSERA_TRY(std::string text, word(what));
  for (char& c : text) c = c == ',' ? ' ' : c;
  ArgReader inner(tokenize(text));
  std::vector<int> out;
  while (!inner.done()) {
    TESSERA_TRY(const int v, inner.small_number(what));
    out.push_back(v);
  }
  return out;
}

std::vector<std::string> ArgReader::rest() {
  std::vector<std::string> out(tokens_.begin() + static_cast<std::ptrdiff_t>(next_), tokens_.end());
  next_ = tokens_.size();
  return out;
}

bool ArgReader::take(std::string_view literal) {
  if (done() || tokens_[next_] != literal) return false;
  ++next_;
  return true;
}

Result<void> ArgReader::finish() const {
  if (!done()) return make_error(ErrorCode::kInvalidArgument, "unexpected '{}'", tokens_[next_]);
  return {};
}

std::string to_text(const Step& step) {
  return std::visit([](const auto& s) { return std::string(s.kVerb) + " " + s.args(); }, step);
}

Result<Step> step_from_text(std::string_view line) {
  std::vector<std::string> tokens = tokenize(line);
  if (tokens.empty()) return make_error(ErrorCode::kInvalidArgument, "empty step");
  const std::string verb = tokens[0];
  tokens.erase(tokens.begin());
  for (const StepEntry& entry : kSteps) {
    if (verb != entry.verb) continue;
    ArgReader args(std::move(tokens));
    Result<Step> step = entry.parse(args);
    if (step.ok()) {
      if (Result<void> end = args.finish(); !end.ok()) return end.error().with_context(verb);
      return step;
    }
    return step.error().with_context(verb);
  }
  std::string verbs;
  for (const StepEntry& entry : kSteps) verbs += std::string(" ") + entry.verb;
  return make_error(ErrorCode::kInvalidArgument, "unknown step '{}'; steps are:{}", verb, verbs);
}

std::string to_text(const Schedule& schedule) {
  std::string out;
  for (const Step& s : schedule.steps) out += to_text(s) + "\n";
  return out;
}

Result<Schedule> schedule_from_text(std::string_view text) {
  Schedule schedule;
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<Step> step = step_from_text(line);
    if (!step.ok()) return step.error().with_context(fmt::format("line {}", line_number));
    schedule.steps.push_back(std::move(step).value());
  }
  return schedule;
}

Result<void> apply_step(const Step& step, std::size_t number, State& state) {
  state.splits.resize(number);  // a step that does not split leaves an empty entry
  const Result<void> result = std::visit([&](const auto& s) { return s.apply(state); }, step);
  if (!result)
    return result.error().with_context(fmt::format("step {} '{}'", number, to_text(step)));
  return {};
}

Result<State> apply(const te::Dag& dag, const Schedule& schedule) {
  State state = initial_state(dag);
  state.splits.reserve(schedule.steps.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    TESSERA_DO(apply_step(schedule.steps[i], i, state));
  }
  state.splits.resize(schedule.steps.size());
  return state;
}

}  // namespace tessera::schedule
