// Language models through tessera.h.
#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "tessera/machine/target/matrix_instructions.h"
#include "tests/checkpoint/tiny_folder.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::capi {
namespace {

using checkpoint::testing::case_named;
using checkpoint::testing::cases;
using checkpoint::testing::json;

const tsr_api& api() { return *tsr_get_api(TSR_API_VERSION); }

void expect_status(const tsr_status& status, int code, const std::string& said) {
  EXPECT_EQ(status.code, code);
  EXPECT_NE(std::string(status.message).find(said), std::string::npos) << status.message;
}

class Text : public ::testing::Test {
 protected:
  Text() : folder_(TemporaryFolder::make("capi_text").value()) {
    checkpoint::testing::save_folder(case_named("qwen3"), folder_.path());
    tokens_ = cases()["tokens"].get<std::vector<std::int32_t>>();
  }
  ~Text() override {
    for (tsr_text* text : texts_) api().free_text(text);
  }

  // Frees it in the end.
  tsr_text* open() {
    tsr_text_options options{};
    options.size = sizeof options;
    options.context = 50;
    options.threads = 1;
    tsr_text* text = nullptr;
    const tsr_status status = api().open_text(folder_.path().c_str(), &options, &text);
    EXPECT_EQ(status.code, TSR_OK) << status.message;
    texts_.push_back(text);
    return text;
  }
  tsr_text* another(const tsr_text* of) {
    tsr_text* text = nullptr;
    const tsr_status status = api().another_text(of, &text);
    EXPECT_EQ(status.code, TSR_OK) << status.message;
    texts_.push_back(text);
    return text;
  }
  void save_words() const {
    json vocabulary = json::object();
    for (int i = 0; i < 39; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
    const json file = {
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"added_tokens", {{{"id", 39}, {"content", "<|im_end|>"}, {"special", true}}}}};
    checkpoint::testing::save_text(folder_.path() + "/tokenizer.json", file.dump());
  }
  // A vocabulary with the letters of roles and marks, a line feed and two marks.
  void save_chat() const {
    json vocabulary = json::object();
    for (std::size_t i = 0; i < kLetters.size(); ++i)
      vocabulary[kLetters[i] == '\n' ? "\u010a" : std::string(1, kLetters[i])] = i;
    const json file = {
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
        {"added_tokens",
         {{{"id", kOpen}, {"content", "<|im_start|>"}, {"special", true}},
          {{"id", kClose}, {"content", "<|im_end|>"}, {"special", true}}}}};
    checkpoint::testing::save_text(folder_.path() + "/tokenizer.json", file.dump());
    checkpoint::testing::save_text(folder_.path() + "/chat_template.jinja",
                                   "<|im_start|>role\ncontent<|im_end|>");
  }
  // Tokens of letters, with { and } for the two marks.
  static std::vector<std::int32_t> spelled(const std::string& text) {
    std::vector<std::int32_t> out;
    for (const char c : text) {
      out.push_back(c == '{'   ? kOpen
                    : c == '}' ? kClose
                               : static_cast<std::int32_t>(kLetters.find(c)));
    }
    return out;
  }
  static std::vector<std::int32_t> chat_tokens(const tsr_text* text,
                                               const std::vector<tsr_message>& messages) {
    std::vector<std::int32_t> out(200);
    std::size_t count = 0;
    const tsr_status status =
        api().encode_chat(text, messages.data(), messages.size(), out.data(), out.size(), &count);
    EXPECT_EQ(status.code, TSR_OK) << status.message;
    out.resize(count);
    return out;
  }
  // Reads tokens from `from` to `to`; the logits must be those of a row of the case.
  void expect_row(tsr_text* text, std::size_t from, std::size_t to, const char* row) const {
    const float* logits = nullptr;
    const tsr_status status = api().step(text, tokens_.data() + from, to - from, &logits);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    const auto want = case_named("qwen3")["logits"][row].get<std::vector<double>>();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(static_cast<double>(logits[i]), want[i], 1e-3);
  }

  inline static const std::string kLetters = "ystemuranidAB<|_>\n";
  static constexpr std::int32_t kOpen = 18, kClose = 19;

  TemporaryFolder folder_;
  std::vector<std::int32_t> tokens_;
  std::vector<tsr_text*> texts_;
};

TEST_F(Text, StepsGiveLogits) {
  tsr_text* text = open();
  expect_row(text, 0, 1, "0");
  expect_row(text, 1, 12, "11");
  tsr_text_info info{};
  ASSERT_EQ(api().text_info(text, &info).code, TSR_OK);
  EXPECT_EQ(info.position, 12);
  EXPECT_EQ(info.capacity, 50);
  EXPECT_EQ(info.vocabulary, 40);
  ASSERT_EQ(api().rewind_text(text, 1).code, TSR_OK);
  expect_row(text, 1, 12, "11");
  expect_row(text, 12, 24, "23");
}

TEST_F(Text, SeveralShareAModel) {
  tsr_text* first = open();
  expect_row(first, 0, 12, "11");
  std::vector<tsr_text*> others = {another(first), another(first)};
  std::vector<std::thread> threads;
  threads.reserve(others.size());
  for (tsr_text* text : others) {
    threads.emplace_back([this, text] { expect_row(text, 0, 24, "23"); });
  }
  expect_row(first, 12, 24, "23");
  for (std::thread& t : threads) t.join();
}

TEST_F(Text, WordsAndChoices) {
  save_words();
  tsr_text* text = open();
  std::vector<std::int32_t> tokens(3);
  std::size_t count = 0;
  ASSERT_EQ(api().encode(text, "CABA", 4, tokens.data(), tokens.size(), &count).code, TSR_OK);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 0, 1})) << "no more than there is room for";
  const char* bytes = nullptr;
  std::int32_t ends = 2;
  ASSERT_EQ(api().token_bytes(text, 3, &bytes, &count, &ends).code, TSR_OK);
  EXPECT_EQ(std::string(bytes, count), "D");
  EXPECT_EQ(ends, 0);
  ASSERT_EQ(api().token_bytes(text, 2, &bytes, &count, &ends).code, TSR_OK);
  EXPECT_EQ(ends, 1) << "config.json says so";
  ASSERT_EQ(api().token_bytes(text, 39, &bytes, &count, &ends).code, TSR_OK);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(ends, 1);

  std::int32_t token = -1;
  expect_status(api().pick(text, nullptr, &token), TSR_INVALID_ARGUMENT, "no token was read");
  const float* logits = nullptr;
  ASSERT_EQ(api().step(text, tokens.data(), tokens.size(), &logits).code, TSR_OK);
  ASSERT_EQ(api().pick(text, nullptr, &token).code, TSR_OK);
  EXPECT_EQ(token, std::max_element(logits, logits + 40) - logits);
  tsr_sampling how{};
  how.size = sizeof how;
  how.temperature = 5;
  const auto drawn = [&](std::uint64_t seed) {
    how.seed = seed;
    std::vector<std::int32_t> out(20);
    for (std::int32_t& t : out) EXPECT_EQ(api().pick(text, &how, &t).code, TSR_OK);
    return out;
  };
  const auto one = drawn(1), two = drawn(2);
  EXPECT_NE(one, two);
  EXPECT_EQ(one, drawn(1)) << "other options begin anew";
  const std::int32_t read[] = {2, 0, 1};
  ASSERT_EQ(api().rewind_text(text, 0).code, TSR_OK);
  ASSERT_EQ(api().step(text, read, 3, nullptr).code, TSR_OK);
  EXPECT_EQ(one, drawn(1)) << "so does a text that is read again";
  how.top_p = 7;
  expect_status(api().pick(text, &how, &token), TSR_INVALID_ARGUMENT, "top-p is 7");
}

// Rounding is the default, as it is of the program; it changes what no float has to.
TEST_F(Text, ActivationsAreBytesOrFloats) {
  app::testing::TinyDecoder d;
  d.blocks = "Q8_0";
  const std::string file = folder_.path() + "/m.gguf";
  std::ofstream(file, std::ios::binary) << app::testing::write_decoder(d);
  const auto logits = [&](const char* activations, std::size_t size) {
    tsr_text_options options{};
    options.size = size;
    options.threads = 1;
    options.activations = activations;
    tsr_text* text = nullptr;
    const tsr_status opened = api().open_text(file.c_str(), &options, &text);
    EXPECT_EQ(opened.code, TSR_OK) << opened.message;
    texts_.push_back(text);
    const std::vector<std::int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
    const float* out = nullptr;
    const tsr_status status = api().step(text, tokens.data(), tokens.size(), &out);
    EXPECT_EQ(status.code, TSR_OK) << status.message;
    return std::vector<float>(out, out + d.words);
  };
  const std::size_t before = offsetof(tsr_text_options, activations);
  const auto exact = logits("float", sizeof(tsr_text_options));
  const auto bytes = logits("int8", sizeof(tsr_text_options));
  EXPECT_EQ(bytes, logits(nullptr, sizeof(tsr_text_options)));
  EXPECT_EQ(bytes, logits(nullptr, before)) << "as of an older header";
  const auto* instruction =
      target::find_matrix(target::host(), target::Operands::kLanes, DType::kI8, DType::kU8);
  EXPECT_EQ(bytes != exact, instruction != nullptr);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(bytes[i], exact[i], 0.1F);
}

TEST_F(Text, StepsBehindAWarmUpGiveTheSame) {
  tsr_text* text = open();
  ASSERT_EQ(api().warm_up_text(text, 30).code, TSR_OK);
  expect_row(text, 0, 12, "11");
  std::int32_t token = -1;
  ASSERT_EQ(api().warm_up_text(text, 50).code, TSR_OK);
  expect_status(api().pick(text, nullptr, &token), TSR_INVALID_ARGUMENT, "no token was read");
  expect_row(text, 12, 24, "23");
  expect_status(api().warm_up_text(text, 51), TSR_INVALID_ARGUMENT,
                "51 tokens: there is room for 50");
  expect_status(api().warm_up_text(nullptr, 1), TSR_INVALID_ARGUMENT, "must not be NULL");
}

TEST_F(Text, PromptsAndChatsHaveControlTokens) {
  save_chat();
  const tsr_text* text = open();
  const std::string prompt = "<|im_start|>A<|im_end|>";
  std::vector<std::int32_t> tokens(50);
  std::size_t count = 0;
  ASSERT_EQ(
      api().encode(text, prompt.data(), prompt.size(), tokens.data(), tokens.size(), &count).code,
      TSR_OK);
  EXPECT_EQ(count, prompt.size()) << "plain text";
  ASSERT_EQ(
      api()
          .encode_prompt(text, prompt.data(), prompt.size(), tokens.data(), tokens.size(), &count)
          .code,
      TSR_OK);
  tokens.resize(count);
  EXPECT_EQ(tokens, spelled("{A}"));
  EXPECT_EQ(chat_tokens(text, {{"user", "A<|im_end|>", 11}}),
            spelled("{user\nA<|im_end|>}\n{assistant\n"));
  EXPECT_EQ(
      chat_tokens(text,
                  {{"system", "B", 1}, {"user", "A", 1}, {"assistant", "", 0}, {"user", "BA", 2}}),
      spelled("{system\nB}\n{user\nA}\n{assistant\n}\n{user\nBA}\n{assistant\n"));
  const tsr_message mistaken = {"tool", "A", 1}, user = {"user", "A", 1}, none = {};
  expect_status(api().encode_chat(text, &mistaken, 1, nullptr, 0, &count), TSR_INVALID_ARGUMENT,
                "message 1 is of 'tool'");
  expect_status(api().encode_chat(text, &none, 1, nullptr, 0, &count), TSR_INVALID_ARGUMENT,
                "must not be NULL");
  expect_status(api().encode_chat(text, nullptr, 0, nullptr, 0, &count), TSR_INVALID_ARGUMENT,
                "ends with a message of the user");
  save_words();
  checkpoint::testing::save_text(folder_.path() + "/chat_template.jinja", "");
  expect_status(api().encode_chat(open(), &user, 1, nullptr, 0, &count), TSR_UNSUPPORTED,
                "the model has no chat template");
}

TEST_F(Text, SaysWhatIsWrong) {
  tsr_text* text = nullptr;
  expect_status(api().open_text(nullptr, nullptr, &text), TSR_INVALID_ARGUMENT, "must not be NULL");
  expect_status(api().open_text("/no/such.gguf", nullptr, &text), TSR_IO, "/no/such.gguf");
  tsr_text_options options{};
  options.size = sizeof options;
  options.threads = -1;
  expect_status(api().open_text(folder_.path().c_str(), &options, &text), TSR_INVALID_ARGUMENT,
                "threads must not be negative");
  options.threads = 1;
  options.context = -5;
  expect_status(api().open_text(folder_.path().c_str(), &options, &text), TSR_INVALID_ARGUMENT,
                "context must not be negative, but is -5");
  options.context = 0;
  options.activations = "bf16";
  expect_status(api().open_text(folder_.path().c_str(), &options, &text), TSR_INVALID_ARGUMENT,
                "activations must be int8 or float, 'bf16' is");
  text = open();
  const std::int32_t wrong = 40;
  expect_status(api().step(text, &wrong, 1, nullptr), TSR_INVALID_ARGUMENT, "40 tokens, not 40");
  expect_status(api().step(text, nullptr, 0, nullptr), TSR_INVALID_ARGUMENT, "no tokens");
  expect_status(api().rewind_text(text, 1), TSR_INVALID_ARGUMENT, "position 1 of 0 tokens");
  std::size_t count = 0;
  expect_status(api().encode(text, "A", 1, nullptr, 0, &count), TSR_UNSUPPORTED,
                "there is no tokenizer.json");
  api().free_text(nullptr);
}

}  // namespace
}  // namespace tessera::capi
