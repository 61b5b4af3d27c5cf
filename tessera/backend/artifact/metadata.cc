#include "tessera/backend/artifact/metadata.h"

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "tessera/backend/artifact/elf.h"
#include "tessera/support/files.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tessera-artifact";
constexpr const char* kSection = ".tessera";

Json tensors_to_json(const std::vector<TensorDescription>& tensors) {
  Json list = Json::array();
  for (const TensorDescription& t : tensors) {
    list.push_back({{"name", t.name}, {"dtype", to_text(t.dtype)}, {"shape", t.shape}});
  }
  return list;
}

Error broken(const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, "artifact metadata: {}", what);
}

// Reads typed fields; the first that is absent or of another type is remembered.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  std::string text(const char* key) {
    const Json* value = find(key);
    if (!value || !value->is_string()) return fail(key), "";
    return value->get<std::string>();
  }
  std::int64_t integer(const char* key) {
    const Json* value = find(key);
    if (!value || !value->is_number_integer() || value->get<std::int64_t>() < 0) {
      return fail(key), 0;
    }
    return value->get<std::int64_t>();
  }
  double number(const char* key) {
    const Json* value = find(key);
    if (!value || !value->is_number()) return fail(key), 0;
    return value->get<double>();
  }
  const Json& list(const char* key) {
    static const Json empty = Json::array();
    const Json* value = find(key);
    if (!value || !value->is_array()) return fail(key), empty;
    return *value;
  }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> out;
    for (const Json& item : list(key)) {
      if (item.is_string()) out.push_back(item.get<std::string>());
      if (!item.is_string()) fail(key);
    }
    return out;
  }
  void fail(const std::string& key) {
    if (bad_.empty()) bad_ = key;
  }
  const std::string& bad() const { return bad_; }

 private:
  const Json* find(const char* key) const {
    if (!json_.is_object()) return nullptr;
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }
  const Json& json_;
  std::string bad_;
};

std::vector<TensorDescription> tensors_from_json(const char* key, Fields& fields) {
  std::vector<TensorDescription> tensors;
  for (const Json& item : fields.list(key)) {
    Fields one(item);
    TensorDescription t;
    t.name = one.text("name");
    const auto dtype = dtype_from_text(one.text("dtype"));
    t.dtype = dtype.value_or(DType::kF32);
    for (const Json& d : one.list("shape")) {
      if (d.is_number_unsigned()) t.shape.push_back(d.get<std::int64_t>());
      if (!d.is_number_unsigned()) fields.fail(key);
    }
    if (!dtype || !one.bad().empty() || !checked_elements(t.shape, t.dtype).ok()) fields.fail(key);
    tensors.push_back(std::move(t));
  }
  return tensors;
}

std::vector<VariantDescription> variants_from_json(Fields& fields) {
  std::vector<VariantDescription> variants;
  for (const Json& item : fields.list("variants")) {
    Fields one(item);
    variants.push_back({one.text("name"), one.text("target"), one.text("plan_digest"),
                        one.texts("features"), one.integer("arena_bytes"),
                        one.integer("shared_bytes"), one.integer("worker_bytes")});
    if (!one.bad().empty()) fields.fail("variants");
  }
  return variants;
}

// The one *.json with our format in the folder.
Result<std::string> find_json(const fs::path& folder) {
  std::error_code error;
  std::string found;
  for (const fs::directory_entry& f : fs::directory_iterator(folder, error)) {
    if (f.path().extension() != ".json" || !is_artifact(f.path().string())) continue;
    if (!found.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "{} holds more than one artifact: name one",
                        folder.string());
    }
    found = f.path().string();
  }
  if (error || found.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "{} holds no artifact", folder.string());
  }
  return found;
}

}  // namespace

std::string to_json(const Metadata& m) {
  Json json = {{"format", kFormat},
               {"abi", m.abi},
               {"name", m.name},
               {"tessera_version", m.tessera_version},
               {"library", m.library},
               {"target", m.target},
               {"triple", m.triple},
               {"device", target::to_text(m.device)},
               {"code", m.code},
               {"features", m.features},
               {"model_digest", m.model_digest},
               {"plan_digest", m.plan_digest},
               {"weights_digest", m.weights_digest},
               {"weights_file", m.weights_file},
               {"weights_bytes", m.weights_bytes},
               {"arena_bytes", m.arena_bytes},
               {"shared_bytes", m.shared_bytes},
               {"worker_bytes", m.worker_bytes},
               {"inputs", tensors_to_json(m.inputs)},
               {"outputs", tensors_to_json(m.outputs)},
               {"steps", Json::array()}};
  for (const StepDescription& s : m.steps) {
    json["steps"].push_back({{"name", s.name}, {"origin", s.origin}, {"flops", s.flops}});
  }
  for (const VariantDescription& v : m.variants) {
    json["variants"].push_back({{"name", v.name},
                                {"target", v.target},
                                {"plan_digest", v.plan_digest},
                                {"features", v.features},
                                {"arena_bytes", v.arena_bytes},
                                {"shared_bytes", v.shared_bytes},
                                {"worker_bytes", v.worker_bytes}});
  }
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Metadata> metadata_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Fields fields(json);
  if (fields.text("format") != kFormat) return broken("this is not the metadata of an artifact");
  Metadata m;
  m.abi = static_cast<int>(std::min<std::int64_t>(fields.integer("abi"), 1 << 30));
  m.name = fields.text("name");
  m.tessera_version = fields.text("tessera_version");
  m.library = fields.text("library");
  m.target = fields.text("target");
  m.triple = fields.text("triple");
  // Version 1 had processors only.
  if (m.abi >= 2) {
    const auto device = target::kind_from_text(fields.text("device"));
    if (!device) fields.fail("device");
    m.device = device.value_or(m.device);
    m.code = fields.texts("code");
  }
  m.features = fields.texts("features");
  m.model_digest = fields.text("model_digest");
  m.plan_digest = fields.text("plan_digest");
  m.weights_digest = fields.text("weights_digest");
  m.weights_file = fields.text("weights_file");
  m.weights_bytes = fields.integer("weights_bytes");
  m.arena_bytes = fields.integer("arena_bytes");
  m.shared_bytes = fields.integer("shared_bytes");
  m.worker_bytes = fields.integer("worker_bytes");
  m.inputs = tensors_from_json("inputs", fields);
  m.outputs = tensors_from_json("outputs", fields);
  for (const Json& item : fields.list("steps")) {
    Fields one(item);
    m.steps.push_back({one.text("name"), one.text("origin"), one.number("flops")});
    if (!one.bad().empty()) fields.fail("steps");
  }
  if (json.contains("variants")) m.variants = variants_from_json(fields);
  if (!fields.bad().empty()) return broken(fields.bad() + " is missing or wrong");
  return m;
}

bool is_artifact(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return find_json(path).ok();
  if (!fs::is_regular_file(path, error)) return false;
  const std::string extension = fs::path(path).extension();
  if (extension == ".json") {
    const Result<std::string> text = read_file(path);
    return text.ok() && text->find(kFormat) != std::string::npos;
  }
  return (extension == ".so" || extension == ".a" || extension == ".o") && read_metadata(path).ok();
}

Result<Metadata> read_metadata(const std::string& path) {
  std::error_code error;
  std::string file = path;
  if (fs::is_directory(path, error)) {
    TESSERA_TRY(file, find_json(path));
  }
  TESSERA_TRY(const std::string bytes, read_file(file));
  std::string_view text = bytes;
  if (fs::path(file).extension() != ".json") {
    Result<std::string_view> section = find_section(bytes, kSection);
    if (!section.ok()) return section.error().with_context(file);
    text = section->substr(0, section->find('\0'));
  }
  Result<Metadata> metadata = metadata_from_json(text);
  if (!metadata.ok()) return metadata.error().with_context(file);
  return metadata;
}

}  // namespace tessera::artifact
