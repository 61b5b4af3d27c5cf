#include "tessera/frontend/checkpoint/json_file.h"

#include "tessera/support/invalid.h"
#include "tessera/support/json_depth.h"
#include "tessera/support/mapped_file.h"

namespace tessera::checkpoint {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr int kDeepest = 16;

}  // namespace

Result<nlohmann::json> parse_object(std::string_view text, const std::string& file) {
  if (text.size() > kMostBytes)
    return invalid("{}: {} bytes, {} at most", file, text.size(), kMostBytes);
  if (is_deeper_than(text, kDeepest))
    return invalid("{}: nested more than {} deep", file, kDeepest);
  nlohmann::json out = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!out.is_object()) return invalid("{}: not a JSON object", file);
  return out;
}

Result<nlohmann::json> read_object(const std::string& path) {
  TESSERA_TRY(const MappedFile file, MappedFile::open(path));
  return parse_object(file.bytes(), path);
}

const nlohmann::json& member(const nlohmann::json& object, std::string_view name) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto at = object.find(name);
  return at == object.end() ? none : *at;
}

}  // namespace tessera::checkpoint
