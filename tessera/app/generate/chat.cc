#include "tessera/app/generate/chat.h"

#include <fmt/ranges.h>

#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

// Templates have some thousand bytes, ten thousand at most.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

struct ChatFamily {
  const char* name;
  std::vector<const char*> contains, lacks;
  const char *role_open, *role_close, *answer_open;
  bool trims = false;
  // Where there is no turn of the system: around its words before the first user's.
  const char *system_open = nullptr, *system_close = nullptr;
};

// The first that fits is taken.
const std::vector<ChatFamily>& families() {
  static const std::vector<ChatFamily> all = {
      {"phi4",
       {"<|im_start|>", "<|im_sep|>"},
       {},
       "<|im_start|>ROLE<|im_sep|>",
       "<|im_end|>",
       "<|im_start|>assistant<|im_sep|>"},
      {"chatml",
       {"<|im_start|>", "<|im_end|>"},
       {},
       "<|im_start|>ROLE\n",
       "<|im_end|>\n",
       "<|im_start|>assistant\n"},
      {"llama3",
       {"<|start_header_id|>", "<|eot_id|>"},
       {},
       "<|start_header_id|>ROLE<|end_header_id|>\n\n",
       "<|eot_id|>",
       "<|start_header_id|>assistant<|end_header_id|>\n\n",
       true},
      {"gemma",
       {"<start_of_turn>", "<end_of_turn>"},
       {},
       "<start_of_turn>ROLE\n",
       "<end_of_turn>\n",
       "<start_of_turn>model\n",
       true,
       "",
       "\n\n"},
      {"phi3",
       {"<|user|>", "<|end|>", "<|assistant|>"},
       {},
       "<|ROLE|>\n",
       "<|end|>\n",
       "<|assistant|>\n"},
      {"zephyr",
       {"<|user|>", "<|assistant|>", "eos_token"},
       {},
       "<|ROLE|>\n",
       "END\n",
       "<|assistant|>\n"},
      {"llama2",
       {"[INST]", "<<SYS>>"},
       {},
       "[INST] ",
       " [/INST]",
       "",
       true,
       "<<SYS>>\n",
       "\n<</SYS>>\n\n"},
      {"mistral",
       {"[INST]", "[/INST]"},
       {"[SYSTEM_PROMPT]"},
       "[INST]",
       "[/INST]",
       "",
       false,
       "",
       "\n\n"},
  };
  return all;
}

bool fits(const ChatFamily& family, std::string_view text) {
  for (const char* part : family.contains)
    if (text.find(part) == std::string_view::npos) return false;
  for (const char* part : family.lacks)
    if (text.find(part) != std::string_view::npos) return false;
  return true;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// With each `name` replaced.
std::string with(std::string text, std::string_view name, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
    text.replace(at, name.size(), value);
  return text;
}

std::string with_role(const std::string& text, std::string_view role) {
  return with(text, "ROLE", role);
}

// The words of a system turn that the template writes itself: those behind an opening when they are
// plain text of one literal. Other openings, such as that for tools, come before and behind it.
std::string default_system_of(std::string_view text, std::string open, std::string_view close) {
  constexpr std::string_view kNoWords = "'\"{}\\";
  for (const bool escaped : {false, true}) {
    if (escaped) open = with(open, "\n", "\\n");
    // Both are looked for once on the way through the text, however many openings there are.
    std::size_t end = 0, other = 0;
    for (std::size_t at = 0; (at = text.find(open, at)) != std::string_view::npos;) {
      at += open.size();
      if (end < at) end = text.find(close, at);
      if (end == std::string_view::npos) break;
      if (other < at) other = text.find_first_of(kNoWords, at);
      if (end > at && other > end) return std::string(text.substr(at, end - at));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> chat_families() {
  std::vector<std::string> out;
  for (const ChatFamily& family : families()) out.emplace_back(family.name);
  return out;
}

Result<ChatFormat> ChatFormat::recognise(std::string_view chat_template, std::string_view begin,
                                         std::string_view end) {
  if (chat_template.size() > kMostBytes) {
    return make_error(ErrorCode::kUnsupported, "the model's chat template has {} bytes, {} at most",
                      chat_template.size(), kMostBytes);
  }
  for (const ChatFamily& family : families()) {
    if (!fits(family, chat_template)) continue;
    ChatFormat out;
    out.family_ = family.name;
    out.role_open_ = family.role_open;
    out.role_close_ = out.answer_close_ = family.role_close;
    out.answer_open_ = family.answer_open;
    out.trims_ = family.trims;
    out.begins_text_ = chat_template.find("bos_token") != std::string_view::npos ||
                       chat_template.find("<|begin_of_text|>") != std::string_view::npos;
    out.system_is_role_ = family.system_close == nullptr;
    if (!out.system_is_role_) {
      out.system_open_ = family.system_open;
      out.system_close_ = family.system_close;
    }
    if (out.family_ == "mistral") {  // versions differ in spaces alone
      if (chat_template.find("[INST] ") != std::string_view::npos) out.role_open_ += " ";
      if (chat_template.find(" [/INST]") != std::string_view::npos) out.role_close_ = " [/INST]";
      out.answer_close_ = "END";
      for (const char* space : {"' ' + message", "\" \" + message"})
        if (chat_template.find(space) != std::string_view::npos) out.before_answer_ = " ";
    } else if (out.family_ == "llama2") {
      out.answer_close_ = " ENDBEGIN";
      out.before_answer_ = " ";
    } else {
      const std::string open = with_role(out.role_open_, "system");
      out.default_system_ = default_system_of(chat_template, open, trimmed(out.role_close_));
    }
    for (std::string* marks : {&out.role_close_, &out.answer_close_})
      *marks = with(with(*marks, "END", end), "BEGIN", begin);
    return out;
  }
  return make_error(ErrorCode::kUnsupported,
                    "the model's chat template is of no family that is known ({}); give the text "
                    "with its marks as the prompt",
                    fmt::join(chat_families(), ", "));
}

// As the template gives somebody's words.
std::string ChatFormat::own(std::string_view words) const {
  return std::string(trims_ ? trimmed(words) : words);
}

std::vector<ChatPart> ChatFormat::turn(std::string_view system, std::string_view user) const {
  std::vector<ChatPart> out;
  const bool has_system = !system.empty();
  if (has_system && system_is_role_) {
    out.push_back({with_role(role_open_, "system"), true});
    out.push_back({own(system), false});
    out.push_back({role_close_, true});
  }
  out.push_back({with_role(role_open_, "user"), true});
  if (has_system && !system_is_role_) {
    out.push_back({system_open_, true});
    out.push_back({own(system), false});
    out.push_back({system_close_, true});
  }
  out.push_back({own(user), false});
  out.push_back({role_close_ + answer_open_, true});
  return out;
}

std::vector<ChatPart> ChatFormat::first(std::string_view user,
                                        const std::optional<std::string>& system) const {
  return turn(system ? *system : default_system_, user);
}

std::vector<ChatPart> ChatFormat::next(std::string_view user) const {
  std::vector<ChatPart> out = turn("", user);
  out.insert(out.begin(), {answer_close_, true});
  return out;
}

Result<std::vector<ChatPart>> ChatFormat::conversation(
    std::span<const ChatMessage> messages) const {
  std::optional<std::string> system;
  if (!messages.empty() && messages[0].role == "system") {
    system = messages[0].text;
    messages = messages.subspan(1);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const char* const wanted = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role == wanted) continue;
    return invalid("message {} is of '{}', where one of '{}' is expected", i + (system ? 2 : 1),
                   messages[i].role, wanted);
  }
  if (messages.size() % 2 == 0) return invalid("a conversation ends with a message of the user");
  std::vector<ChatPart> out = first(messages[0].text, system);
  for (std::size_t i = 1; i < messages.size(); i += 2) {
    out.push_back({before_answer_ + own(messages[i].text), false});
    for (ChatPart& part : next(messages[i + 1].text)) out.push_back(std::move(part));
  }
  return out;
}

}  // namespace tessera::app
