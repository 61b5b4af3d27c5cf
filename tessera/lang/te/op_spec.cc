#include "tessera/lang/te/op_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/support/host_tensor.h"
#include "tessera/support/invalid.h"
#include "tessera/support/nearest_name.h"

namespace tessera::te {
namespace {

constexpr std::int64_t kMaxParam =
    (std::int64_t{1} << 31) - 1;  // products of two parameters fit i64

Result<const OpEntry*> find_entry(const std::string& name) {
  std::vector<std::string> valid;
  for (const OpEntry& entry : op_table()) {
    if (name == entry.name) return &entry;
    valid.emplace_back(entry.name);
  }
  return invalid("unknown operation '{}'{} Operations: {}", name, suggest_name(name, valid, "."),
                 fmt::join(valid, ", "));
}

const OpParam* find_param(const OpEntry& entry, std::string_view name) {
  for (const OpParam& p : entry.params) {
    if (name == p.name) return &p;
  }
  return nullptr;
}

const OpWord* find_word(const OpEntry& entry, std::string_view name) {
  for (const OpWord& w : entry.words) {
    if (name == w.name) return &w;
  }
  return nullptr;
}

Error unknown_parameter(const OpEntry& entry, std::string_view name) {
  std::vector<std::string> valid;
  for (const OpParam& p : entry.params) valid.emplace_back(p.name);
  for (const OpWord& w : entry.words) valid.emplace_back(w.name);
  valid.emplace_back("dtype");
  return invalid("{}: unknown parameter '{}'{} Valid: {}", entry.name, name,
                 suggest_name(name, valid, "."), fmt::join(valid, ", "));
}

Result<void> check_int(const OpEntry& entry, const OpParam& param, std::int64_t value) {
  if (value < param.min_value || value > kMaxParam) {
    return invalid("{}: {}={} is outside {}..{}", entry.name, param.name, value, param.min_value,
                   kMaxParam);
  }
  return {};
}

Result<void> check_word(const OpEntry& entry, const OpWord& word, const std::string& value) {
  if (word.choices.empty()) return {};
  const auto same = [&](const char* choice) { return value == choice; };
  if (std::any_of(word.choices.begin(), word.choices.end(), same)) return {};
  return invalid("{}: {}={} is not one of {}", entry.name, word.name, value,
                 fmt::join(word.choices, ", "));
}

// One `name=value` of a spec.
Result<void> read_parameter(const OpEntry& entry, std::string_view item, OpSpec* spec) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
    return invalid("{}: '{}' is not NAME=VALUE", entry.name, item);
  }
  const std::string name(item.substr(0, equals));
  const std::string_view value = item.substr(equals + 1);
  if (name == "dtype") {
    const std::optional<DType> dtype = dtype_from_text(value);
    if (!dtype) return invalid("{}: dtype={} is not a type", entry.name, value);
    spec->dtype = *dtype;
    return {};
  }
  if (find_word(entry, name)) {
    if (!spec->words.emplace(name, value).second)
      return invalid("{}: {} is given twice", entry.name, name);
    return {};
  }
  if (!find_param(entry, name)) return unknown_parameter(entry, name);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc() || end != value.data() + value.size()) {
    return invalid("{}: {}={} is not an integer in range", entry.name, name, value);
  }
  if (!spec->ints.emplace(name, number).second)
    return invalid("{}: {} is given twice", entry.name, name);
  return {};
}

}  // namespace

Result<OpSpec> parse_op_spec(std::string_view text) {
  OpSpec spec;
  const std::size_t colon = text.find(':');
  spec.op = std::string(text.substr(0, colon));
  TESSERA_TRY(const OpEntry* entry, find_entry(spec.op));
  std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    TESSERA_DO(read_parameter(*entry, rest.substr(0, comma), &spec));
    if (comma != std::string_view::npos && comma + 1 == rest.size())
      return invalid("{}: trailing comma", spec.op);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return complete(spec);
}

Result<OpSpec> complete(const OpSpec& spec) {
  TESSERA_TRY(const OpEntry* entry, find_entry(spec.op));
  OpSpec full = spec;
  for (const auto& [name, value] : spec.ints) {
    const OpParam* param = find_param(*entry, name);
    if (!param) return unknown_parameter(*entry, name);
    TESSERA_DO(check_int(*entry, *param, value));
  }
  for (const auto& [name, value] : spec.words) {
    const OpWord* word = find_word(*entry, name);
    if (!word) return unknown_parameter(*entry, name);
    TESSERA_DO(check_word(*entry, *word, value));
  }
  for (const OpParam& param : entry->params) {
    if (param.default_value == kDerived || full.ints.count(param.name) != 0) continue;
    if (param.default_value == kRequired)
      return invalid("{}: {} ({}) must be given", entry->name, param.name, param.doc);
    full.ints[param.name] = param.default_value;
  }
  for (const OpWord& word : entry->words) {
    if (full.words.count(word.name) != 0) continue;
    if (word.choices.empty())
      return invalid("{}: {} ({}) must be given", entry->name, word.name, word.doc);
    full.words[word.name] = word.choices.front();
  }
  return full;
}

std::string to_text(const OpSpec& spec) {
  std::vector<std::string> items;
  const auto full = complete(spec);
  const OpSpec& from = full.ok() ? *full : spec;
  if (const auto entry = find_entry(spec.op); entry.ok()) {
    for (const OpParam& param : (*entry)->params) {
      const auto it = from.ints.find(param.name);
      if (it != from.ints.end()) items.push_back(fmt::format("{}={}", it->first, it->second));
    }
    for (const OpWord& word : (*entry)->words) {
      const auto it = from.words.find(word.name);
      if (word.usual_unsaid && it != from.words.end() && it->second == word.choices.front())
        continue;
      if (it != from.words.end()) items.push_back(fmt::format("{}={}", it->first, it->second));
    }
  }
  items.push_back(fmt::format("dtype={}", to_text(from.dtype)));
  return fmt::format("{}:{}", spec.op, fmt::join(items, ","));
}

Result<Dag> make_dag(const OpSpec& spec) {
  TESSERA_TRY(const OpSpec full, complete(spec));
  TESSERA_TRY(const OpEntry* entry, find_entry(full.op));
  TESSERA_TRY(Dag dag, entry->make(full));
  if (auto ok = verify(dag); !ok.ok()) return ok.error().with_context(full.op);
  return dag;
}

Result<OpWork> op_work(const OpSpec& spec) {
  TESSERA_TRY(OpSpec full, complete(spec));
  TESSERA_TRY(const OpEntry* entry, find_entry(full.op));
  if (const auto algo = full.words.find("algo");
      algo != full.words.end() && algo->second != "direct") {
    TESSERA_TRY([[maybe_unused]] const Dag as_given,
                make_dag(full));  // refuses what the algorithm cannot do
    algo->second = "direct";
  }
  TESSERA_TRY(const Dag dag, make_dag(full));
  OpWork work;
  work.flops = entry->flops ? entry->flops(full) : flop_count(dag);
  const auto bytes = [](const ir::Buffer& b) {
    return static_cast<double>(elements(b->shape)) * size_bytes(b->dtype);
  };
  for (const Input& input : dag.inputs) work.bytes += bytes(input.buffer);
  for (const ir::Buffer& out : dag.outputs) work.bytes += bytes(out);
  return work;
}

}  // namespace tessera::te
