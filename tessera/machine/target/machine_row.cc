#include "tessera/machine/target/machine_row.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tessera/machine/target/features.h"
#include "tessera/machine/target/match.h"
#include "tessera/support/files.h"
#include "tessera/support/nearest_name.h"

namespace tessera::target {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "tessera machine row 1";
constexpr std::size_t kMostBytes = 1 << 20;
constexpr double kLeastRate = 1e-6, kMostRate = 1e9;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

template <class... Args>
Error refuse(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("machine row {}: {}", where, fmt::format(text, std::forward<Args>(args)...))};
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

// Numbers that schedules divide by, or that sizes of code follow from.
Result<void> check_target(const Target& t, std::string_view where) {
  Target derived = t;
  derive_from_features(derived);
  if (!is_word(t.name)) return refuse(where, "the name of the machine is not a word");
  if (t.vector_bytes != derived.vector_bytes || t.vector_registers != derived.vector_registers)
    return refuse(where, "{} registers of {} bytes, where its features mean {} of {}",
                  t.vector_registers, t.vector_bytes, derived.vector_registers,
                  derived.vector_bytes);
  const auto within = [](std::int64_t n, std::int64_t least, std::int64_t most) {
    return n >= least && n <= most;
  };
  if (t.threads != 0) return refuse(where, "threads= belongs to code, not to machines");
  if (!within(t.cores, 1, 1 << 16)) return refuse(where, "cores={} is out of range", t.cores);
  if (!within(t.l1_bytes, 1 << 10, kMostSize) || !within(t.l2_bytes, 0, kMostSize) ||
      !within(t.l3_bytes, 0, kMostSize))
    return refuse(where, "sizes of caches are out of range");
  if (!within(t.line_bytes, 16, 1024) || (t.line_bytes & (t.line_bytes - 1)) != 0)
    return refuse(where, "line={} is not the length of a cache line", t.line_bytes);
  if (!t.is_gpu()) return {};
  const GpuLimits& g = t.gpu;
  if (g.warp != 32) return refuse(where, "warp={}, only warps of 32 threads are supported", g.warp);
  if (!within(g.block_threads, g.warp, 1024) || !within(g.core_threads, g.block_threads, 1 << 16) ||
      !within(g.core_blocks, 1, 1 << 10) || !within(g.core_registers, 1 << 10, 1 << 24) ||
      !within(g.block_shared_bytes, 1 << 10, 1 << 24) ||
      !within(g.core_shared_bytes, g.block_shared_bytes, 1 << 24))
    return refuse(where, "limits of blocks and multiprocessors are out of range");
  return {};
}

// What the shipped row knows, estimates divide by.
Result<void> read_rates(const Json& rates, std::string_view where, MachineRow* row) {
  const Rates shipped = row->target.rates;
  std::vector<std::string> known;
  for (const RateField& field : rate_fields()) {
    if (!has_rate(row->target, field)) continue;
    known.emplace_back(field.name);
    const auto at = rates.find(field.name);
    if (at == rates.end()) return refuse(where, "no rate \"{}\"", field.name);
    const auto value = at->is_object() ? at->find("value") : at->end();
    if (value == at->end() || !value->is_number())
      return refuse(where, "\"{}\" has no number as its value", field.name);
    const auto number = value->get<double>();
    const double least = shipped.*field.value > 0 ? kLeastRate : 0;
    if (!(number >= least && number <= kMostRate))
      return refuse(where, "\"{}\" = {} is out of range", field.name, number);
    row->target.rates.*field.value = number;
    const auto source = at->find("source");
    if (source != at->end() && source->is_string())
      row->sources[std::string(field.name)] = source->get<std::string>();
  }
  for (const auto& [name, value] : rates.items()) {
    if (std::ranges::find(known, name) == known.end())
      return refuse(where, "unknown rate \"{}\"{}", name.substr(0, 64),
                    suggest_name(name, known, ""));
  }
  return {};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

MachineRow shipped_row(const Target& target) {
  MachineRow row{target, {}};
  row.target.rates = shipped_rates(target);
  for (const RateField& field : rate_fields()) {
    const std::string_view source = rate_source(target, field);
    if (has_rate(target, field) && !source.empty())
      row.sources[std::string(field.name)] = std::string(source);
  }
  return row;
}

std::string to_json(const MachineRow& row) {
  Json rates = Json::object();
  for (const RateField& field : rate_fields()) {
    if (!has_rate(row.target, field)) continue;
    Json rate = {{"value", row.target.rates.*field.value},
                 {"unit", std::string(field.unit)},
                 {"meaning", std::string(field.meaning)}};
    const auto source = row.sources.find(field.name);
    if (source != row.sources.end()) rate["source"] = source->second;
    rates[std::string(field.name)] = std::move(rate);
  }
  const Json j = {{"format", std::string(kFormat)},
                  {"machine", to_text(row.target)},
                  {"rates", std::move(rates)}};
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<MachineRow> machine_row_from_json(std::string_view text, std::string_view where) {
  if (text.size() > kMostBytes) return refuse(where, "larger than {} bytes", kMostBytes);
  const Json j = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return refuse(where, "not a JSON object");
  const auto format = j.find("format"), machine = j.find("machine"), rates = j.find("rates");
  if (format == j.end() || *format != kFormat)
    return refuse(where, "\"format\" is not \"{}\"; `tessera machine fit` writes rows", kFormat);
  if (machine == j.end() || !machine->is_string())
    return refuse(where, "no text \"machine\", a line of `tessera targets`");
  if (rates == j.end() || !rates->is_object()) return refuse(where, "no object \"rates\"");
  MachineRow row;
  Result<Target> target = target_from_text(machine->get_ref<const std::string&>());
  if (!target.ok()) return target.error().with_context(fmt::format("machine row {}", where));
  row.target = *std::move(target);
  TESSERA_DO(check_target(row.target, where));
  TESSERA_DO(read_rates(*rates, where, &row));
  return row;
}

Result<MachineRow> read_machine_row(const std::string& path) {
  TESSERA_TRY(const std::string text, read_file(path));
  return machine_row_from_json(text, path);
}

std::string user_rows_folder() {
  const std::string config = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (!config.empty()) return config + "/tessera/machines";
  return home.empty() ? "" : home + "/.config/tessera/machines";
}

std::vector<std::string> user_row_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(user_rows_folder(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".json") names.push_back(at->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string user_row_path(std::string_view name) {
  const std::string folder = user_rows_folder();
  const bool plain = is_word(name) && name.find('/') == std::string_view::npos && name[0] != '.';
  return folder.empty() || !plain ? "" : fmt::format("{}/{}.json", folder, name);
}

bool names_row(std::string_view name) {
  if (name.ends_with(".json")) return true;
  const std::string path = user_row_path(name);
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error);
}

Result<MachineRow> find_row(std::string_view name) {
  return read_machine_row(name.ends_with(".json") ? std::string(name) : user_row_path(name));
}

Result<Target> with_user_rates(Target target, std::string_view name) {
  if (!names_row(name)) return target;
  TESSERA_TRY(const MachineRow row, find_row(name));
  if (same_machine(row.target, target)) target.rates = row.target.rates;
  return target;
}

}  // namespace tessera::target
