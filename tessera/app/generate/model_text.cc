#include "tessera/app/generate/model_text.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tessera/app/generate/gguf_vocabulary.h"
#include "tessera/frontend/checkpoint/checkpoint.h"
#include "tessera/frontend/checkpoint/json_file.h"
#include "tessera/support/files.h"
#include "tessera/support/invalid.h"
#include "tessera/support/mapped_file.h"

namespace tessera::app {
namespace {

using checkpoint::member;
using nlohmann::json;
using tokenizer::Token;
using tokenizer::Vocabulary;

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// An object without members where there is no such file.
Result<json> object_if(const std::string& path) {
  if (!exists(path)) return json(json::object());
  return checkpoint::read_object(path);
}

// A token by its text, which a file gives alone or with what else is known of it.
std::optional<Token> named(const json& config, const char* role, const Vocabulary& v) {
  const json& said = member(config, role);
  const json& text = said.is_object() ? member(said, "content") : said;
  if (!text.is_string()) return {};
  const auto at = std::ranges::find(v.tokens, text.get_ref<const std::string&>());
  if (at == v.tokens.end()) return {};
  return static_cast<Token>(at - v.tokens.begin());
}

// A number, or a list of them.
Result<void> read_ends(const json& config, const std::string& path, Vocabulary* v) {
  const json& said = member(config, "eos_token_id");
  if (said.is_null()) return {};
  for (const json& id : said.is_array() ? said : json::array({said})) {
    const auto count = static_cast<std::int64_t>(v->tokens.size());
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= count)
      return invalid("{}: eos_token_id is {}, but there are {} tokens", path, id.dump(), count);
    v->also_end.push_back(id.get<Token>());
  }
  return {};
}

// One text, or several with names of which "default" is meant for chats.
std::string chat_template_of(const json& config) {
  const json& said = member(config, "chat_template");
  if (said.is_string()) return said.get<std::string>();
  if (!said.is_array()) return "";
  for (const json& one : said) {
    const json& text = member(one, "template");
    if (member(one, "name") == "default" && text.is_string()) return text.get<std::string>();
  }
  return "";
}

Result<ModelText> of_folder(const std::string& folder) {
  const auto in = [&](const char* name) { return folder + "/" + name; };
  if (!exists(in("tokenizer.json"))) {
    return make_error(ErrorCode::kUnsupported, "{}: there is no tokenizer.json", folder);
  }
  TESSERA_TRY(const MappedFile file, MappedFile::open(in("tokenizer.json")));
  if (file.bytes().size() > kMostBytes) {
    return invalid("{}: {} bytes, {} at most", in("tokenizer.json"), file.bytes().size(),
                   kMostBytes);
  }
  Result<Vocabulary> read = tokenizer::parse_tokenizer_json(file.bytes());
  if (!read.ok()) return read.error().with_context(folder);
  ModelText out{std::move(*read), ""};
  Vocabulary& v = out.vocabulary;
  TESSERA_TRY(const json config, object_if(in("tokenizer_config.json")));
  if (!v.begin) v.begin = named(config, "bos_token", v);
  if (!v.end) v.end = named(config, "eos_token", v);
  if (!v.padding) v.padding = named(config, "pad_token", v);
  for (const char* name : {"generation_config.json", "config.json"}) {
    TESSERA_TRY(const json ends, object_if(in(name)));
    TESSERA_DO(read_ends(ends, in(name), &v));
  }
  add_ends_by_name(&v);
  out.chat_template = chat_template_of(config);
  if (exists(in("chat_template.jinja"))) {
    TESSERA_TRY(out.chat_template, read_file(in("chat_template.jinja")));
  }
  return out;
}

}  // namespace

Result<ModelText> read_model_text(const std::string& path) {
  if (checkpoint::is_folder(path)) return of_folder(path);
  TESSERA_TRY(const gguf::File file, gguf::File::open(path));
  TESSERA_TRY(Vocabulary vocabulary, gguf_vocabulary(file));
  TESSERA_TRY(const std::string_view text, file.text("tokenizer.chat_template", ""));
  return ModelText{std::move(vocabulary), std::string(text)};
}

}  // namespace tessera::app
