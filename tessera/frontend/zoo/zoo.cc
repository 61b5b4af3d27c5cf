#include "tessera/frontend/zoo/zoo.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "tessera/frontend/zoo/model_builder.h"
#include "tessera/support/check.h"
#include "tessera/support/invalid.h"
#include "tessera/support/model_name.h"
#include "tessera/support/nearest_name.h"

namespace tessera::zoo {
namespace {

Result<const ZooEntry*> find_entry(std::string_view name) {
  std::vector<std::string> valid;
  for (const ZooEntry& entry : zoo_table()) {
    if (entry.name == name || std::ranges::count(entry.aliases, name) > 0) return &entry;
    valid.push_back(entry.name);
    valid.insert(valid.end(), entry.aliases.begin(), entry.aliases.end());
  }
  const std::string_view shown = name.substr(0, 64);
  return invalid("unknown network '{}'{}", shown,
                 suggest_name(name, valid, "; `tessera zoo` lists them"));
}

Result<void> read_int(const ZooEntry& entry, const ZooParam& param, std::string_view value,
                      Settings* settings) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc() || end != value.data() + value.size()) {
    return invalid("{}: {}={} is not an integer", entry.name, param.name, value);
  }
  if (number < param.min_value || number > param.max_value) {
    return invalid("{}: {}={} is outside {}..{}", entry.name, param.name, value, param.min_value,
                   param.max_value);
  }
  if (!settings->ints.emplace(param.name, number).second) {
    return invalid("{}: {} is given twice", entry.name, param.name);
  }
  return {};
}

Result<void> read_word(const ZooEntry& entry, const ZooWord& word, std::string_view value,
                       Settings* settings) {
  if (std::ranges::count(word.choices, value) == 0) {
    return invalid("{}: {}={} is not one of {}", entry.name, word.name, value,
                   fmt::join(word.choices, ", "));
  }
  if (!settings->words.emplace(word.name, value).second) {
    return invalid("{}: {} is given twice", entry.name, word.name);
  }
  return {};
}

// One `name=value` of a spec.
Result<void> read_setting(const ZooEntry& entry, std::string_view item, Settings* settings) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
    return invalid("{}: '{}' is not NAME=VALUE", entry.name, item);
  }
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  std::vector<std::string> valid;
  for (const ZooParam& param : entry.params) {
    if (param.name == name) return read_int(entry, param, value, settings);
    valid.push_back(param.name);
  }
  for (const ZooWord& word : entry.words) {
    if (word.name == name) return read_word(entry, word, value, settings);
    valid.push_back(word.name);
  }
  return invalid("{}: unknown parameter '{}'{} Valid: {}", entry.name, name,
                 suggest_name(name, valid, "."), fmt::join(valid, ", "));
}

struct Chosen {
  const ZooEntry* entry;
  Settings settings;
};

Result<Chosen> read_spec(std::string_view spec) {
  spec = without_zoo(spec);
  const std::size_t at = spec.find('@');
  TESSERA_TRY(const ZooEntry* entry, find_entry(spec.substr(0, at)));
  Chosen chosen{entry, {}};
  std::string_view rest = at == std::string_view::npos ? "" : spec.substr(at + 1);
  if (at != std::string_view::npos && rest.empty()) {
    return invalid("{}: nothing follows '@'", entry->name);
  }
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    TESSERA_DO(read_setting(*entry, rest.substr(0, comma), &chosen.settings));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return invalid("{}: trailing comma", entry->name);
  }
  for (const ZooParam& p : entry->params) chosen.settings.ints.emplace(p.name, p.default_value);
  for (const ZooWord& w : entry->words) chosen.settings.words.emplace(w.name, w.choices[0]);
  return chosen;
}

}  // namespace

std::int64_t Settings::at(std::string_view name) const {
  const auto found = ints.find(name);
  TESSERA_CHECK(found != ints.end(), "zoo: no parameter {}", name);
  return found->second;
}

const std::string& Settings::word(std::string_view name) const {
  const auto found = words.find(name);
  TESSERA_CHECK(found != words.end(), "zoo: no parameter {}", name);
  return found->second;
}

Result<onnx::Model> make_model(std::string_view spec, const ZooOptions& options) {
  TESSERA_TRY(const Chosen chosen, read_spec(spec));
  const DType dtype = *dtype_from_text(chosen.settings.word("dtype"));
  ModelBuilder builder(chosen.entry->name, dtype, options.fill_weights);
  chosen.entry->build(builder, chosen.settings);
  Result<onnx::Model> model = builder.finish();
  if (!model.ok()) return model.error().with_context(chosen.entry->name);
  return model;
}

Result<std::string> canonical_spec(std::string_view spec) {
  TESSERA_TRY(const Chosen chosen, read_spec(spec));
  std::vector<std::string> items;
  for (const auto& [name, value] : chosen.settings.ints) {
    items.push_back(fmt::format("{}={}", name, value));
  }
  for (const auto& [name, value] : chosen.settings.words) {
    items.push_back(fmt::format("{}={}", name, value));
  }
  return fmt::format("{}@{}", chosen.entry->name, fmt::join(items, ","));
}

}  // namespace tessera::zoo
