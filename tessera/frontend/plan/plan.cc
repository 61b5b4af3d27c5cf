#include "tessera/frontend/plan/plan.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "tessera/support/files.h"

namespace tessera::plan {
namespace {

using Json = nlohmann::json;  // its objects are sorted by name

constexpr int kVersion = 2;
constexpr const char* kFormat = "tessera plan";

Error malformed(const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, "not a plan: {}", why);
}

// A member of `object` that must be there and of the type of `out`.
template <class T>
Result<void> read(const Json& object, const std::string& where, const char* name, T* out) {
  const auto it = object.find(name);
  if (it == object.end()) return malformed(fmt::format("{} has no \"{}\"", where, name));
  const bool fits = std::is_same_v<T, std::string> ? it->is_string()
                    : std::is_integral_v<T>        ? it->is_number_integer()
                                                   : it->is_number();
  if (!fits) return malformed(fmt::format("\"{}\" of {} is {}", name, where, it->dump()));
  it->get_to(*out);
  return {};
}

Result<const Json*> object_of(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_object()) {
    return malformed(fmt::format("\"{}\" is not an object", name));
  }
  return &*it;
}

Result<PlanEntry> entry_of(const std::string& key, const Json& json) {
  const std::string where = "task " + key;
  if (!json.is_object()) return malformed(where + " is not an object");
  PlanEntry entry;
  TESSERA_DO(read(json, where, "name", &entry.name));
  TESSERA_DO(read(json, where, "candidate", &entry.candidate));
  TESSERA_DO(read(json, where, "seconds", &entry.seconds));
  const auto earlier = json.find("earlier");
  if (earlier != json.end()) {
    if (!earlier->is_boolean())
      return malformed(fmt::format("\"earlier\" of {} is {}", where, earlier->dump()));
    earlier->get_to(entry.earlier);
  }
  const auto lines = json.find("schedule");
  if (lines == json.end() || !lines->is_array()) {
    return malformed(where + " has no list of steps \"schedule\"");
  }
  for (const Json& line : *lines) {
    if (!line.is_string()) return malformed(where + " has a step that is not text");
    entry.schedule += line.get<std::string>() + "\n";
  }
  return entry;
}

// One element for each line; the text ends with a line break, as schedule::to_text writes it.
Json lines_of(const std::string& text) {
  Json lines = Json::array();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

const PlanEntry* Plan::find(const std::string& key) const {
  const auto it = tasks.find(key);
  return it == tasks.end() ? nullptr : &it->second;
}

std::string to_json(const Plan& plan) {
  Json json = {{"format", kFormat},      {"version", kVersion},     {"model", plan.model},
               {"target", plan.target},  {"threads", plan.threads}, {"decisions", Json::object()},
               {"tasks", Json::object()}};
  for (const auto& [key, value] : plan.decisions) json["decisions"][key] = value;
  for (const auto& [key, entry] : plan.tasks) {
    json["tasks"][key] = {{"name", entry.name},
                          {"candidate", entry.candidate},
                          {"seconds", std::isfinite(entry.seconds) ? entry.seconds : 0},
                          {"schedule", lines_of(entry.schedule)}};
    if (entry.earlier) json["tasks"][key]["earlier"] = true;
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Plan> plan_from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return malformed("the text is not JSON");
  if (!json.is_object()) return malformed("the text is not a JSON object");
  std::string format;
  TESSERA_DO(read(json, "the file", "format", &format));
  if (format != kFormat) return malformed(fmt::format("its format is '{}'", format));
  int version = 0;
  TESSERA_DO(read(json, "the file", "version", &version));
  if (version < 1 || version > kVersion) {
    return make_error(ErrorCode::kUnsupported, "a plan of version {}; this program knows {}",
                      version, kVersion);
  }
  Plan plan;
  TESSERA_DO(read(json, "the file", "model", &plan.model));
  TESSERA_DO(read(json, "the file", "target", &plan.target));
  TESSERA_DO(read(json, "the file", "threads", &plan.threads));
  // Plans of version 1 had the algorithms alone.
  TESSERA_TRY(const Json* decisions, object_of(json, version == 1 ? "algorithms" : "decisions"));
  for (const auto& [key, value] : decisions->items()) {
    if (!value.is_string()) {
      return malformed(fmt::format("the decision '{}' is {}", key, value.dump()));
    }
    plan.decisions[key] = value.get<std::string>();
  }
  TESSERA_TRY(const Json* tasks, object_of(json, "tasks"));
  for (const auto& [key, entry] : tasks->items()) {
    TESSERA_TRY(plan.tasks[key], entry_of(key, entry));
  }
  return plan;
}

Result<Plan> load_plan(const std::string& path) {
  TESSERA_TRY(const std::string text, read_file(path));
  Result<Plan> plan = plan_from_json(text);
  if (!plan.ok()) return plan.error().with_context(path);
  return plan;
}

Result<void> save_plan(const Plan& plan, const std::string& path) {
  const std::string text = to_json(plan);
  return write_file(path, {text});
}

}  // namespace tessera::plan
