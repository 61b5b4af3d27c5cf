#include "tessera/learn/dataset/autotvm_rows.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tessera/scheduling/feature/step_rows.h"

namespace tessera::dataset {
namespace {

using Json = nlohmann::json;

std::size_t kind_number(const char* verb) {
  const std::vector<std::string>& verbs = feature::step_kinds();
  return static_cast<std::size_t>(std::find(verbs.begin(), verbs.end(), verb) - verbs.begin());
}

schedule::Annotation annotation_of(const std::string& word) {
  if (word == "vec" || word == "try_vec") return schedule::Annotation::kVectorize;
  if (word == "unroll" || word == "try_unroll") return schedule::Annotation::kUnroll;
  return schedule::Annotation::kNone;
}

// Numbers and truth values as they are; words say nothing that a row could show.
double number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? value.get<double>() : 0;
}

// Throws what nlohmann throws.
Result<void> read_knob(const Json& knob, std::size_t place, std::vector<feature::StepValues>* out) {
  const std::string kind = knob.at(1).get<std::string>();
  const Json& value = knob.at(2);
  feature::StepValues step;
  step.iterator = static_cast<double>(place);
  if (kind == "sp" || kind == "re") {
    step.kind = kind_number(kind == "sp" ? "split" : "reorder");
    for (const Json& v : value) step.arguments.push_back(v.get<double>());
    out->push_back(std::move(step));
  } else if (kind == "an") {
    step.kind = kind_number("annotate");
    for (const Json& v : value) {
      step.annotation =
          v.is_string() ? annotation_of(v.get<std::string>()) : schedule::Annotation::kNone;
      step.arguments = {number_of(v)};
      out->push_back(step);
    }
  } else if (kind == "ot") {
    step.kind = kind_number("pragma");
    step.arguments = {number_of(value)};
    out->push_back(std::move(step));
  } else {
    return make_error(ErrorCode::kInvalidArgument, "no knob '{}'", kind.substr(0, 16));
  }
  return {};
}

Result<std::vector<feature::StepValues>> read_config(const std::string& config) {
  const Json object = Json::parse(config, nullptr, false);
  if (!object.is_object()) return make_error(ErrorCode::kInvalidArgument, "config: no object");
  std::vector<feature::StepValues> steps;
  try {
    const Json& knobs = object.contains("entity") ? object.at("entity") : object.at("e");
    for (std::size_t i = 0; i < knobs.size(); ++i) {
      TESSERA_DO(read_knob(knobs.at(i), i, &steps));
    }
  } catch (const Json::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "config: {}", e.what());
  }
  return steps;
}

}  // namespace

Result<std::size_t> append_autotvm_rows(const std::string& config, std::vector<float>* rows,
                                        std::size_t* cut) {
  TESSERA_TRY(const std::vector<feature::StepValues> steps, read_config(config));
  const std::size_t count = std::min(steps.size(), feature::kMostStepRows);
  for (std::size_t i = 0; i < count; ++i) {
    feature::append_step_row(steps[i], i, steps.size(), rows);
  }
  *cut += steps.size() - count;
  if (count == 0) rows->resize(rows->size() + feature::step_names().size());
  return std::max<std::size_t>(1, count);
}

}  // namespace tessera::dataset
