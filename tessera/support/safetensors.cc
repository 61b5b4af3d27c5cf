#include "tessera/support/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "tessera/support/ceil_div.h"
#include "tessera/support/files.h"
#include "tessera/support/json_depth.h"
#include "tessera/support/safetensors_index.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr int kDeepest = 4;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // limit of the reference implementation

struct TypeName {
  DType dtype;
  const char* name;
};

constexpr std::array kTypes = {
    TypeName{DType::kBool, "BOOL"},      TypeName{DType::kI8, "I8"},
    TypeName{DType::kU8, "U8"},          TypeName{DType::kI16, "I16"},
    TypeName{DType::kU16, "U16"},        TypeName{DType::kI32, "I32"},
    TypeName{DType::kU32, "U32"},        TypeName{DType::kI64, "I64"},
    TypeName{DType::kU64, "U64"},        TypeName{DType::kF16, "F16"},
    TypeName{DType::kBF16, "BF16"},      TypeName{DType::kF32, "F32"},
    TypeName{DType::kF64, "F64"},        TypeName{DType::kF8E4M3, "F8_E4M3"},
    TypeName{DType::kF8E5M2, "F8_E5M2"},
};

const char* type_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(),
                      [dtype](const TypeName& t) { return t.dtype == dtype; })
      ->name;
}

template <class... Args>
Error broken(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, "safetensors: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

// Where the data of a tensor is.
struct Entry {
  SafetensorsEntry tensor;
  std::uint64_t begin = 0, end = 0;
};

bool is_count(const Json& value) { return value.is_number_unsigned(); }

Result<Entry> parse_entry(const std::string& name, const Json& item) {
  Entry entry;
  SafetensorsEntry& tensor = entry.tensor;
  tensor.name = name;
  const bool whole = item.is_object() && item.contains("dtype") && item["dtype"].is_string() &&
                     item.contains("shape") && item["shape"].is_array() &&
                     item.contains("data_offsets") && item["data_offsets"].is_array() &&
                     item["data_offsets"].size() == 2;
  if (!whole) return broken("{}: dtype, shape and data_offsets are needed", name);
  const auto type = item["dtype"].get<std::string>();
  const auto* row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return t.name == type; });
  if (row == kTypes.end()) {
    return make_error(ErrorCode::kUnsupported, "safetensors: {}: element type {}", name, type);
  }
  tensor.dtype = row->dtype;
  for (const Json& d : item["shape"]) {
    if (!is_count(d) || d.get<std::uint64_t>() > std::uint64_t{1} << 62) {
      return broken("{}: bad shape", name);
    }
    tensor.shape.push_back(d.get<std::int64_t>());
  }
  const Json& offsets = item["data_offsets"];
  if (!is_count(offsets[0]) || !is_count(offsets[1])) return broken("{}: bad offsets", name);
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  auto count = checked_elements(tensor.shape, tensor.dtype);
  if (!count.ok()) return count.error().with_context(name);
  const auto size =
      static_cast<std::uint64_t>(*count) * static_cast<std::uint64_t>(size_bytes(tensor.dtype));
  if (entry.end < entry.begin || entry.end - entry.begin != size) {
    return broken("{}: offsets {} to {} for {} {}", name, entry.begin, entry.end,
                  to_text(tensor.dtype), to_text(tensor.shape));
  }
  return entry;
}

Result<void> check_cover(const std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at)
      return broken("{} starts at byte {} instead of {}", e.tensor.name, e.begin, at);
    at = e.end;
  }
  if (at != data_bytes) return broken("{} bytes of data, {} described", data_bytes, at);
  return {};
}

std::uint64_t byte_size(const HostTensor& t) { return t.bytes(); }

}  // namespace

Result<SafetensorsIndex> index_safetensors(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return broken("too short");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
    return broken("header of {} bytes in a file of {}", length, bytes.size());
  }
  const std::string_view text = bytes.substr(kLengthBytes, length);
  const std::string_view data = bytes.substr(kLengthBytes + length);
  if (is_deeper_than(text, kDeepest))
    return broken("the header is nested more than {} deep", kDeepest);
  const Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return broken("the header is not a JSON object");
  SafetensorsIndex file;
  std::vector<Entry> entries;
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") {
      if (!item.is_object()) return broken("__metadata__ is not an object");
      for (const auto& [key, value] : item.items()) {
        if (!value.is_string()) return broken("__metadata__: {} is not a string", key);
        file.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    TESSERA_TRY(Entry entry, parse_entry(name, item));
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  TESSERA_DO(check_cover(entries, data.size()));
  for (Entry& e : entries) {
    e.tensor.bytes = data.substr(e.begin, e.end - e.begin);
    file.tensors.push_back(std::move(e.tensor));
  }
  return file;
}

Result<Safetensors> parse_safetensors(std::string_view bytes) {
  TESSERA_TRY(SafetensorsIndex index, index_safetensors(bytes));
  Safetensors file;
  file.metadata = std::move(index.metadata);
  for (SafetensorsEntry& e : index.tensors) {
    HostTensor tensor(e.dtype, std::move(e.shape));
    if (!e.bytes.empty()) std::memcpy(tensor.data(), e.bytes.data(), e.bytes.size());
    file.tensors.push_back({std::move(e.name), std::move(tensor)});
  }
  return file;
}

Result<Safetensors> read_safetensors(const std::string& path) {
  TESSERA_TRY(const std::string bytes, read_file(path));
  Result<Safetensors> file = parse_safetensors(bytes);
  if (!file.ok()) return file.error().with_context(path);
  return file;
}

Result<SafetensorsLayout> lay_out_safetensors(const NamedTensors& tensors,
                                              const std::map<std::string, std::string>& metadata,
                                              std::uint64_t alignment) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> names = {"__metadata__"};
  for (const NamedTensor& t : tensors) {
    if (!names.insert(t.name).second) return broken("'{}' is used twice or reserved", t.name);
  }
  SafetensorsLayout layout;
  std::uint64_t at = 0;
  int pads = 0;
  for (const NamedTensor& t : tensors) {
    if (const std::uint64_t start = round_up(at, alignment); start != at) {
      std::string pad = fmt::format("_pad.{}", pads++);
      while (!names.insert(pad).second) pad = fmt::format("_pad.{}", pads++);
      header[pad] = {{"dtype", "U8"}, {"shape", {start - at}}, {"data_offsets", {at, start}}};
      at = start;
    }
    layout.offsets.push_back(at);
    const std::uint64_t end = at + byte_size(t.tensor);
    header[t.name] = {{"dtype", type_name(t.tensor.dtype())},
                      {"shape", t.tensor.shape()},
                      {"data_offsets", {at, end}}};
    at = end;
  }
  // Replaces what is not UTF-8 instead of throwing: names come from files.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::uint64_t start = round_up(kLengthBytes + text.size(), alignment);
  text.append(start - kLengthBytes - text.size(), ' ');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    layout.header.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  }
  layout.header += text;
  for (std::uint64_t& offset : layout.offsets) offset += start;
  layout.bytes = start + at;
  return layout;
}

Result<void> write_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::uint64_t alignment) {
  TESSERA_TRY(const SafetensorsLayout layout, lay_out_safetensors(tensors, metadata, alignment));
  const std::string zeros(alignment, '\0');
  std::vector<std::string_view> parts = {layout.header};
  std::uint64_t at = layout.header.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts.push_back(std::string_view(zeros).substr(0, layout.offsets[i] - at));
    parts.emplace_back(tensors[i].tensor.as<char>(), tensors[i].tensor.bytes());
    at = layout.offsets[i] + tensors[i].tensor.bytes();
  }
  return write_file(path, parts);
}

}  // namespace tessera
