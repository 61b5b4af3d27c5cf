#include "tessera/trials/record/ansor_log.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tessera/support/quantile.h"
#include "tessera/trials/record/json_reading.h"
#include "tessera/trials/record/log_file.h"

namespace tessera::record {
namespace ansor {
namespace {

// Reads the arguments of one step in order; the first mistake is kept.
class Arguments {
 public:
  explicit Arguments(const std::vector<dom::element>& parts) : parts_(parts) {}

  int number() { return static_cast<int>(wide()); }
  bool flag() { return wide() != 0; }

  std::int64_t wide() {
    const dom::element* e = take();
    if (e == nullptr) return 0;
    std::int64_t out = 0;
    bool as_bool = false;
    if (!e->get(as_bool)) return as_bool ? 1 : 0;
    // Some writers leave an unknown extent or length as null.
    if (e->is_null()) return 0;
    if (e->get(out)) error_ = fmt::format("argument {} is not an integer", at_);
    return out;
  }

  std::string word() {
    const dom::element* e = take();
    std::string_view out;
    if (e != nullptr && e->get(out)) error_ = fmt::format("argument {} is not text", at_);
    return std::string(out);
  }

  template <class T>
  std::vector<T> numbers() {
    std::vector<T> out;
    const dom::element* e = take();
    dom::array array;
    if (e == nullptr) return out;
    if (e->get(array)) {
      error_ = fmt::format("argument {} is not a list", at_);
      return out;
    }
    out.reserve(array.size());
    for (const dom::element item : array) {
      std::int64_t value = 0;
      if (!item.is_null() && item.get(value)) {
        error_ = fmt::format("argument {} holds something that is not an integer", at_);
      }
      out.push_back(static_cast<T>(value));
    }
    return out;
  }

  std::string error() const {
    if (!error_.empty()) return error_;
    return at_ + 1 < parts_.size() ? "has too many arguments" : "";
  }

 private:
  const dom::element* take() {
    if (++at_ < parts_.size()) return &parts_[at_];
    if (error_.empty()) error_ = "has too few arguments";
    return nullptr;
  }

  const std::vector<dom::element>& parts_;
  std::size_t at_ = 0;  // 0 is the tag
  std::string error_;
};

// Braces evaluate their elements in order, which is the order of the JSON.
Result<Step> read_step(std::string_view tag, Arguments& a) {
  if (tag == "AN")
    return Step(Annotate{a.number(), a.number(), static_cast<Annotation>(a.number())});
  if (tag == "FU") return Step(Fuse{a.number(), a.numbers<int>()});
  if (tag == "PR") return Step(Pragma{a.number(), a.number(), a.word()});
  if (tag == "RE") return Step(Reorder{a.number(), a.numbers<int>()});
  if (tag == "SP") {
    return Step(Split{a.number(), a.number(), a.wide(), a.numbers<std::int64_t>(), a.flag()});
  }
  if (tag == "FSP") return Step(FollowSplit{a.number(), a.number(), a.number(), a.number()});
  if (tag == "FFSP") {
    return Step(FollowFusedSplit{a.number(), a.number(), a.numbers<int>(), a.number(), a.flag()});
  }
  if (tag == "SA") return Step(StorageAlign{a.number(), a.number(), a.number(), a.number()});
  if (tag == "CA") return Step(ComputeAt{a.number(), a.number(), a.number()});
  if (tag == "CI") return Step(ComputeInline{a.number()});
  if (tag == "CR") return Step(ComputeRoot{a.number()});
  if (tag == "CHR") return Step(CacheRead{a.number(), a.word(), a.numbers<int>()});
  if (tag == "CHW") return Step(CacheWrite{a.number(), a.word()});
  if (tag == "RF") return Step(RFactor{a.number(), a.number(), a.number()});
  return bad_line(fmt::format("unknown tag '{}'", tag));
}

Result<Step> step_of(dom::element json) {
  TESSERA_TRY(const auto parts, list(json, "the step", 1));
  std::string_view tag;
  if (parts[0].get(tag)) return bad_line("the tag is not text");
  Arguments arguments(parts);
  TESSERA_TRY(Step step, read_step(tag, arguments));
  if (const std::string error = arguments.error(); !error.empty()) {
    return bad_line(fmt::format("{} {}", tag, error));
  }
  if (const auto* a = std::get_if<Annotate>(&step);
      a != nullptr &&
      (a->annotation < Annotation::kNone || a->annotation > Annotation::kTensorize)) {
    return bad_line(fmt::format("AN has the annotation {}", static_cast<int>(a->annotation)));
  }
  return step;
}

Result<std::vector<Step>> steps_of(dom::element json) {
  TESSERA_TRY(const auto parts, list(json, "the list of steps", 0));
  std::vector<Step> steps;
  steps.reserve(parts.size());
  for (const dom::element part : parts) {
    Result<Step> step = step_of(part);
    if (!step.ok()) return step.error().with_context(fmt::format("step {}", steps.size()));
    steps.push_back(std::move(step).value());
  }
  return steps;
}

struct Writer {
  using Json = nlohmann::json;
  Json operator()(const Annotate& s) const {
    return {"AN", s.stage, s.iter, static_cast<int>(s.annotation)};
  }
  Json operator()(const Fuse& s) const { return {"FU", s.stage, s.iters}; }
  Json operator()(const Pragma& s) const { return {"PR", s.stage, s.iter, s.text}; }
  Json operator()(const Reorder& s) const { return {"RE", s.stage, s.order}; }
  Json operator()(const Split& s) const {
    return {"SP", s.stage, s.iter, s.extent, s.lengths, s.inner_to_outer ? 1 : 0};
  }
  Json operator()(const FollowSplit& s) const {
    return {"FSP", s.stage, s.iter, s.source, s.parts};
  }
  Json operator()(const FollowFusedSplit& s) const {
    return {"FFSP", s.stage, s.iter, s.sources, s.level, s.factor ? 1 : 0};
  }
  Json operator()(const StorageAlign& s) const {
    return {"SA", s.stage, s.iter, s.factor, s.offset};
  }
  Json operator()(const ComputeAt& s) const { return {"CA", s.stage, s.target, s.iter}; }
  Json operator()(const ComputeInline& s) const { return {"CI", s.stage}; }
  Json operator()(const ComputeRoot& s) const { return {"CR", s.stage}; }
  Json operator()(const CacheRead& s) const { return {"CHR", s.stage, s.scope, s.readers}; }
  Json operator()(const CacheWrite& s) const { return {"CHW", s.stage, s.scope}; }
  Json operator()(const RFactor& s) const { return {"RF", s.stage, s.iter, s.axis}; }
};

}  // namespace

Result<std::vector<Step>> parse_steps(std::string_view json) {
  TESSERA_TRY(const dom::element element, parse_json(json));
  return steps_of(element);
}

std::string to_json(const std::vector<Step>& steps) {
  nlohmann::json out = nlohmann::json::array();
  for (const Step& step : steps) out.push_back(std::visit(Writer{}, step));
  return out.dump();
}

}  // namespace ansor

namespace {

// The number of cores the log was made for; 1 where it does not say.
int cores_of(const std::vector<dom::element>& task) {
  dom::array hardware;
  std::int64_t cores = 0;
  if (task.size() > 2 && !task[2].get(hardware) && !hardware.at(0).get(cores) && cores > 0 &&
      cores < 1 << 20) {
    return static_cast<int>(cores);
  }
  return 1;
}

}  // namespace

Result<Record> parse_ansor_line(std::string_view line) {
  TESSERA_TRY(const dom::element root, parse_json(line));
  dom::element input, result;
  std::string_view version;
  if (root["i"].get(input) || root["r"].get(result)) {
    return bad_line("has no \"i\" or no \"r\"");
  }
  if (root["v"].get(version)) return bad_line("has no version \"v\"");
  TESSERA_TRY(const auto parts, list(input, "the input", 2));
  TESSERA_TRY(const auto task, list(parts[0], "the task", 2));
  TESSERA_TRY(const auto state, list(parts[1], "the state", 2));
  Record r;
  r.format = to_text(LogFormat::kAnsor);
  TESSERA_TRY(r.task, text(task[0], "the workload key"));
  TESSERA_TRY(r.target, text(task[1], "the target"));
  TESSERA_DO([&]() -> Result<void> {
    TESSERA_TRY(const auto steps, ansor::steps_of(state[1]));
    (void)steps;
    return {};
  }());
  r.candidate = simdjson::minify(state[1]);
  r.threads = cores_of(task);
  TESSERA_TRY(const LoggedResult measured, logged_result(result));
  r.outcome = outcome_of_code(measured.code);
  r.reason = reason_of_code(measured.code);
  r.samples_s = measured.costs;
  r.seconds = measured.code == 0 ? median(measured.costs) : 0;
  r.build_ms = 0;
  r.unix_time = static_cast<std::int64_t>(measured.time);
  std::vector<std::string> rest;
  for (std::size_t i = 2; i < task.size(); ++i) rest.push_back(simdjson::minify(task[i]));
  r.extra = fmt::format(R"({{"task":[{}],"cost":{},"v":"{}"}})", fmt::join(rest, ","),
                        measured.total_s, version);
  return r;
}

Result<std::string> to_ansor_line(const Record& r) {
  if (r.format != to_text(LogFormat::kAnsor)) {
    return make_error(ErrorCode::kInvalidArgument, "record {} has the format {}, not ansor", r.id,
                      r.format);
  }
  using Json = nlohmann::ordered_json;
  const Json extra = Json::parse(r.extra, nullptr, false);
  const Json steps = Json::parse(r.candidate, nullptr, false);
  if (!extra.is_object() || !extra.contains("task") || steps.is_discarded()) {
    return make_error(ErrorCode::kInvalidArgument, "record {} is not as its log was read", r.id);
  }
  Json task = {r.task, r.target};
  for (const Json& part : extra["task"]) task.push_back(part);
  Json line;
  line["i"] = Json::array({task, Json::array({Json::array(), steps})});
  line["r"] = Json::array({r.samples_s, code_of(r), extra["cost"], r.unix_time});
  line["v"] = extra["v"];
  return line.dump();
}

}  // namespace tessera::record
