#include "tessera/trials/record/autotvm_log.h"

#include <nlohmann/json.hpp>

#include "tessera/support/quantile.h"
#include "tessera/trials/record/json_reading.h"
#include "tessera/trials/record/log_file.h"

namespace tessera::record {
namespace autotvm {
namespace {

Result<void> read_value(std::string_view kind, dom::element value, Knob* knob) {
  if (kind == "ot") {
    knob->kind = KnobKind::kOther;
    knob->text = simdjson::minify(value);
    return {};
  }
  TESSERA_TRY(const auto items, list(value, "the value of a knob", 0));
  if (kind == "sp" || kind == "re") {
    knob->kind = kind == "sp" ? KnobKind::kSplit : KnobKind::kReorder;
    for (const dom::element item : items) {
      TESSERA_TRY(const std::int64_t size, integer(item, "a size"));
      knob->sizes.push_back(size);
    }
    return {};
  }
  if (kind != "an") return bad_line(fmt::format("unknown kind '{}'", kind));
  knob->kind = KnobKind::kAnnotate;
  for (const dom::element item : items) {
    // Places where a cache is computed are numbers.
    std::string_view word;
    knob->words.push_back(item.get(word) ? simdjson::minify(item) : std::string(word));
  }
  return {};
}

Result<Knob> knob_of(dom::element json) {
  TESSERA_TRY(const auto parts, list(json, "the knob", 3));
  Knob knob;
  TESSERA_TRY(knob.name, text(parts[0], "the name of a knob"));
  std::string_view kind;
  if (parts[1].get(kind)) return bad_line("the kind is not text");
  const Result<void> read = read_value(kind, parts[2], &knob);
  if (!read.ok()) return read.error().with_context(fmt::format("knob '{}'", knob.name));
  return knob;
}

Result<Config> config_of(dom::element json) {
  Config config;
  dom::element index, entity;
  // v0.1 has one letter for each name.
  if (json["index"].get(index) && json["i"].get(index)) return bad_line("the config has no index");
  if (json["entity"].get(entity) && json["e"].get(entity)) {
    return bad_line("the config has no entity");
  }
  if (!index.is_null()) {
    TESSERA_TRY(config.index, integer(index, "the index of the config"));
  }
  TESSERA_TRY(const auto knobs, list(entity, "the entity of the config", 0));
  for (const dom::element knob : knobs) {
    TESSERA_TRY(Knob read, knob_of(knob));
    config.knobs.push_back(std::move(read));
  }
  return config;
}

}  // namespace

Result<Config> parse_config(std::string_view json) {
  TESSERA_TRY(const dom::element element, parse_json(json));
  return config_of(element);
}

}  // namespace autotvm

namespace {

struct Parts {
  dom::element target, name, arguments, keywords, config, result;
  std::string extra;  // members of the line that no field has, with a comma in front
};

// v0.1: {"i": [target, template, arguments, keywords, workload, config], "r": [...], "v": 0.1}
Result<Parts> positional_parts(dom::element root, dom::element input) {
  TESSERA_TRY(const auto items, list(input, "the input", 6));
  Parts p{items[0], items[1], items[2], items[3], items[5], {}, ""};
  if (root["r"].get(p.result)) return bad_line("has no \"r\"");
  dom::element version;
  if (root["v"].get(version)) return bad_line("has no version \"v\"");
  p.extra = fmt::format(R"(,"workload":{},"v":{})", simdjson::minify(items[4]),
                        simdjson::minify(version));
  return p;
}

Result<Parts> parts_of(dom::element root) {
  dom::element input;
  if (!root["i"].get(input)) return positional_parts(root, input);
  if (root["input"].get(input)) return bad_line("has no \"input\"");
  TESSERA_TRY(const auto items, list(input, "the input", 4));
  Parts p{items[0], items[1], items[2], items[3], {}, {}, ""};
  if (root["config"].get(p.config)) return bad_line("has no \"config\"");
  if (root["result"].get(p.result)) return bad_line("has no \"result\"");
  for (const char* name : {"version", "tvm_version"}) {
    dom::element value;
    if (!root[name].get(value)) {
      p.extra += fmt::format(R"(,"{}":{})", name, simdjson::minify(value));
    }
  }
  return p;
}

}  // namespace

Result<Record> parse_autotvm_line(std::string_view line) {
  TESSERA_TRY(const dom::element root, parse_json(line));
  if (!root.is_object()) return bad_line("is not a JSON object");
  TESSERA_TRY(const Parts p, parts_of(root));
  Record r;
  r.format = to_text(LogFormat::kAutotvm);
  TESSERA_TRY(r.target, text(p.target, "the target"));
  TESSERA_TRY(const std::string name, text(p.name, "the template"));
  (void)name;
  r.task = fmt::format("[{},{},{}]", simdjson::minify(p.name), simdjson::minify(p.arguments),
                       simdjson::minify(p.keywords));
  TESSERA_TRY(const autotvm::Config config, autotvm::config_of(p.config));
  (void)config;
  r.candidate = simdjson::minify(p.config);
  TESSERA_TRY(const LoggedResult measured, logged_result(p.result));
  r.outcome = outcome_of_code(measured.code);
  r.reason = reason_of_code(measured.code);
  r.samples_s = measured.costs;
  r.seconds = measured.code == 0 ? median(measured.costs) : 0;
  r.unix_time = static_cast<std::int64_t>(measured.time);
  r.extra = fmt::format(R"({{"cost":{},"time":{}{}}})", measured.total_s, measured.time, p.extra);
  return r;
}

Result<std::string> to_autotvm_line(const Record& r) {
  if (r.format != to_text(LogFormat::kAutotvm)) {
    return make_error(ErrorCode::kInvalidArgument, "record {} has the format {}, not autotvm", r.id,
                      r.format);
  }
  using Json = nlohmann::ordered_json;
  const Json extra = Json::parse(r.extra, nullptr, false);
  const Json config = Json::parse(r.candidate, nullptr, false);
  const Json task = Json::parse(r.task, nullptr, false);
  if (!extra.is_object() || config.is_discarded() || !task.is_array() || task.size() != 3) {
    return make_error(ErrorCode::kInvalidArgument, "record {} is not as its log was read", r.id);
  }
  const Json result = Json::array({r.samples_s, code_of(r), extra["cost"], extra["time"]});
  Json line;
  if (extra.contains("v")) {
    line["i"] = Json::array({r.target, task[0], task[1], task[2], extra["workload"], config});
    line["r"] = result;
    line["v"] = extra["v"];
    return line.dump();
  }
  line["input"] = Json::array({r.target, task[0], task[1], task[2]});
  line["config"] = config;
  line["result"] = result;
  for (const char* name : {"version", "tvm_version"}) {
    if (extra.contains(name)) line[name] = extra[name];
  }
  return line.dump();
}

// One line is enough: the formats share no pair of members. Here because it needs the parser.
Result<LogFormat> detect_format(std::string_view line) {
  TESSERA_TRY(const dom::element root, parse_json(line));
  dom::element value;
  std::string_view version;
  if (root.is_object()) {
    if (!root["kind"].get(value)) return LogFormat::kTessera;
    if (!root["input"].get(value)) return LogFormat::kAutotvm;
    if (!root["v"].get(version)) return LogFormat::kAnsor;
    if (!root["v"].get(value) && value.is_number()) return LogFormat::kAutotvm;
  }
  return bad_line("is not a record of Tessera, Ansor or AutoTVM");
}

}  // namespace tessera::record
