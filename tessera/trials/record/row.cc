#include "tessera/trials/record/row.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tessera::record {
namespace {

using Json = nlohmann::ordered_json;

constexpr Subject kSubjects[] = {Subject::kKernel, Subject::kInPlace, Subject::kModel};

// The same list of members for both directions: `f(name, member)`.
template <class R, class F>
void members(R& r, F f) requires std::is_same_v<std::remove_const_t<R>, SessionRow> {
  f("id", r.id), f("model", r.model), f("target", r.target), f("options", r.options);
  f("version", r.version), f("threads", r.threads), f("seed", r.seed), f("started", r.started);
  f("ended", r.ended), f("state", r.state);
}

template <class R, class F>
void members(R& r, F f) requires std::is_same_v<std::remove_const_t<R>, TaskRow> {
  f("key", r.key), f("name", r.name), f("definition", r.definition), f("flops", r.flops);
  f("bytes", r.bytes);
}

template <class R, class F>
void members(R& r, F f) requires std::is_same_v<std::remove_const_t<R>, Record> {
  f("id", r.id), f("session", r.session), f("format", r.format), f("task", r.task);
  f("target", r.target), f("threads", r.threads), f("candidate", r.candidate);
  f("schedule", r.schedule), f("digest", r.schedule_digest), f("outcome", r.outcome);
  f("reason", r.reason);
  f("samples_s", r.samples_s), f("seconds", r.seconds), f("calibration_s", r.calibration_s);
  f("default_s", r.default_s), f("memory_s", r.memory_s);
  f("build_ms", r.build_ms), f("quiet", r.quiet), f("subject", r.subject), f("model", r.model);
  f("cold", r.cold), f("evicted_bytes", r.evicted_bytes), f("unchecked", r.unchecked);
  f("policy", r.policy), f("seed", r.seed), f("trial", r.trial);
  f("time", r.unix_time), f("extra", r.extra);
}

constexpr const char* kKinds[] = {"session", "task", "record"};

template <class T>
const T& json_value(const T& member) {
  return member;
}
Json json_value(const Subject& subject) { return to_text(subject); }

template <class R>
Json json_of(const R& row) {
  const R initial;
  Json json;
  std::vector<Json> defaults;
  members(initial,
          [&](const char*, const auto& member) { defaults.push_back(json_value(member)); });
  std::size_t at = 0;
  members(row, [&](const char* name, const auto& member) {
    Json value = json_value(member);
    if (value != defaults[at++]) json[name] = std::move(value);
  });
  return json;
}

bool fits(const Json& json, const std::string&) { return json.is_string(); }
bool fits(const Json& json, const bool&) { return json.is_boolean(); }
bool fits(const Json& json, const double&) { return json.is_number(); }
bool fits(const Json& json, const std::uint64_t&) { return json.is_number_unsigned(); }
bool fits(const Json& json, const std::int64_t&) { return json.is_number_integer(); }
bool fits(const Json& json, const int&) { return json.is_number_integer(); }
bool fits(const Json& json, const std::vector<double>&) {
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!item.is_number()) return false;
  }
  return true;
}

bool fits(const Json& json, const Subject&) {
  return std::ranges::any_of(kSubjects, [&](Subject s) { return json == to_text(s); });
}

template <class T>
void read(const Json& json, T* member) {
  json.get_to(*member);
}
void read(const Json& json, Subject* member) {
  *member = *std::ranges::find_if(kSubjects, [&](Subject s) { return json == to_text(s); });
}

template <class R>
Result<Row> row_of(const Json& json) {
  R row;
  std::size_t known = 1;  // the kind
  std::string wrong;
  members(row, [&](const char* name, auto& member) {
    const auto it = json.find(name);
    if (it == json.end()) return;
    ++known;
    if (fits(*it, member)) {
      read(*it, &member);
    } else {
      wrong = name;
    }
  });
  if (!wrong.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" cannot be {}", wrong,
                      json[wrong].dump());
  }
  if (known != json.size()) {
    return make_error(ErrorCode::kInvalidArgument, "has members that this version does not know");
  }
  if constexpr (std::is_same_v<R, Record>) take_marks(&row);
  return Row(std::move(row));
}

}  // namespace

const char* to_text(Subject subject) {
  switch (subject) {
    case Subject::kKernel:
      return "kernel";
    case Subject::kInPlace:
      return "in_place";
    case Subject::kModel:
      return "model";
  }
  return "";
}

void take_marks(Record* record) {
  if (record->extra.empty() || record->format != "tessera") return;
  const Json marks = Json::parse(record->extra, nullptr, false);
  if (!marks.is_object()) return;
  bool found = false;
  const auto take = [&](const char* name, auto* member) {
    const auto it = marks.find(name);
    if (it == marks.end() || !fits(*it, *member)) return;
    it->get_to(*member);
    found = true;
  };
  take("cold_caches", &record->cold);
  take("evicted_bytes", &record->evicted_bytes);
  take("unchecked", &record->unchecked);
  take("memory_s", &record->memory_s);
  if (found) record->extra.clear();
}

std::string to_json_line(const Row& row) {
  Json json = {{"kind", kKinds[row.index()]}};
  json.update(std::visit([](const auto& r) { return json_of(r); }, row));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Row> row_from_json_line(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return make_error(ErrorCode::kInvalidArgument, "is not a JSON object");
  const auto kind = json.find("kind");
  if (kind != json.end() && *kind == kKinds[0]) return row_of<SessionRow>(json);
  if (kind != json.end() && *kind == kKinds[1]) return row_of<TaskRow>(json);
  if (kind != json.end() && *kind == kKinds[2]) return row_of<Record>(json);
  return make_error(ErrorCode::kInvalidArgument,
                    "its \"kind\" is not one of session, task, record");
}

}  // namespace tessera::record
