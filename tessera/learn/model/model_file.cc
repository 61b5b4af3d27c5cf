#include "tessera/learn/model/model_file.h"

#include <algorithm>
#include <charconv>

#include "tessera/support/files.h"
#include "tessera/support/hash.h"

namespace tessera::model {
namespace {

constexpr std::string_view kMagic = "tessera-model ";
// Format 2 has notes.
constexpr std::size_t kVersion = 2;

Error damaged(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::kIo, "{}: damaged model file: {}", path, what);
}

// Takes the line "key value" off the front of `text`.
Result<std::string> take_line(std::string_view* text, std::string_view key,
                              const std::string& path) {
  const std::size_t end = text->find('\n');
  if (end == std::string_view::npos || text->substr(0, key.size()) != key ||
      text->size() <= key.size() || (*text)[key.size()] != ' ') {
    return damaged(path, fmt::format("no line \"{} ...\" where it should be", key));
  }
  std::string value(text->substr(key.size() + 1, end - key.size() - 1));
  text->remove_prefix(end + 1);
  return value;
}

Result<std::size_t> take_number(std::string_view* text, std::string_view key,
                                const std::string& path) {
  TESSERA_TRY(const std::string value, take_line(text, key, path));
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    return damaged(path, fmt::format("{} is \"{}\"", key, value));
  }
  return number;
}

}  // namespace

std::string model_name(const std::string& name) {
  return name == "xgb" ? "gbt" : name == "xgb_ensemble" ? "gbt_ensemble" : name;
}

Result<void> write_model_file(const std::string& path, const ModelFile& file) {
  std::string head = fmt::format("{}{}\nkind {}\nobjective {}\nschema {}\ncolumns {}\nparts {}\n",
                                 kMagic, file.notes.empty() ? 1 : kVersion, file.kind,
                                 file.objective, file.schema, file.columns, file.parts.size());
  if (!file.notes.empty()) head += fmt::format("notes {}\n", file.notes.size());
  for (const auto& [name, value] : file.notes) {
    std::string line = fmt::format("note {} {}", name, value);
    std::replace(line.begin(), line.end(), '\n', ' ');
    head += line + "\n";
  }
  std::vector<std::string_view> pieces;
  for (const std::string& part : file.parts) {
    head += fmt::format("bytes {}\ndigest {}\n", part.size(), to_hex(hash_bytes(part)));
  }
  pieces.push_back(head);
  for (const std::string& part : file.parts) pieces.push_back(part);
  return write_file(path, pieces);
}

Result<ModelFile> read_model_file(const std::string& path) {
  TESSERA_TRY(const std::string bytes, read_file(path));
  std::string_view text = bytes;
  if (text.substr(0, kMagic.size()) != kMagic) {
    return make_error(ErrorCode::kInvalidArgument, "{}: not a Tessera model file", path);
  }
  TESSERA_TRY(const std::size_t version, take_number(&text, "tessera-model", path));
  if (version == 0 || version > kVersion) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: model file of format {}, this program reads up to {}", path, version,
                      kVersion);
  }
  ModelFile file;
  TESSERA_TRY(file.kind, take_line(&text, "kind", path));
  file.kind = model_name(file.kind);
  TESSERA_TRY(file.objective, take_line(&text, "objective", path));
  TESSERA_TRY(file.schema, take_line(&text, "schema", path));
  TESSERA_TRY(file.columns, take_number(&text, "columns", path));
  TESSERA_TRY(const std::size_t parts, take_number(&text, "parts", path));
  const std::size_t none = 0;
  TESSERA_TRY(const std::size_t notes,
              version > 1 ? take_number(&text, "notes", path) : Result<std::size_t>(none));
  for (std::size_t i = 0; i < notes; ++i) {
    TESSERA_TRY(const std::string note, take_line(&text, "note", path));
    const std::size_t space = note.find(' ');
    if (space == std::string::npos) return damaged(path, "a note without a value");
    file.notes[note.substr(0, space)] = note.substr(space + 1);
  }
  std::vector<std::pair<std::size_t, std::string>> expected;
  for (std::size_t i = 0; i < parts; ++i) {
    TESSERA_TRY(const std::size_t size, take_number(&text, "bytes", path));
    TESSERA_TRY(std::string digest, take_line(&text, "digest", path));
    expected.emplace_back(size, std::move(digest));
  }
  for (const auto& [size, digest] : expected) {
    if (size > text.size()) return damaged(path, "it ends too early");
    file.parts.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
    if (to_hex(hash_bytes(file.parts.back())) != digest) {
      return damaged(path, "its bytes do not match their digest");
    }
  }
  if (!text.empty()) return damaged(path, "there is data after its end");
  return file;
}

Result<void> set_notes(const std::string& path, std::map<std::string, std::string> notes) {
  TESSERA_TRY(ModelFile file, read_model_file(path));
  file.notes = std::move(notes);
  return write_model_file(path, file);
}

Result<ModelFile> read_model_file(const std::string& path, const std::string& kind,
                                  const std::string& schema) {
  TESSERA_TRY(ModelFile file, read_model_file(path));
  if (file.kind != kind) {
    return make_error(ErrorCode::kInvalidArgument, "{}: holds a model \"{}\", not \"{}\"", path,
                      file.kind, kind);
  }
  if (!schema.empty() && !file.schema.empty() && file.schema != schema) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: made for features of schema {}, this program computes {}", path,
                      file.schema, schema);
  }
  return file;
}

}  // namespace tessera::model
