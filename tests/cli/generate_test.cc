// tessera generate, on a tiny random model that knows bytes.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tests/cli/process.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::cli {
namespace {

using app::testing::ReferenceDecoder;
using app::testing::TinyDecoder;

constexpr const char* kChatTemplate = "<|im_start|>role\ncontent<|im_end|>";

// Bytes, and the marks of a chat; the model does not end by itself unless `end` is one of them.
TinyDecoder byte_model(const std::string& chat_template = kChatTemplate, std::uint32_t end = 257) {
  TinyDecoder d;
  d.words = 258;
  d.metadata = [=](gguf::testing::Writer& w) {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) {
      tokenizer::append_utf8(&tokens.emplace_back(),
                             tokenizer::character_of_byte(static_cast<unsigned char>(b)));
    }
    tokens.insert(tokens.end(), {"<|im_start|>", "<|im_end|>"});
    gguf::testing::Bytes kinds;
    kinds.add<std::uint32_t>(5).add<std::uint64_t>(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) kinds.add<std::int32_t>(i < 256 ? 1 : 3);
    w.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    w.texts("tokenizer.ggml.tokens", tokens).entry("tokenizer.ggml.token_type", 9, kinds.str());
    w.texts("tokenizer.ggml.merges", {}).integer("tokenizer.ggml.eos_token_id", end);
    if (!chat_template.empty()) w.text("tokenizer.chat_template", chat_template);
  };
  return d;
}

std::string saved(const TinyDecoder& d) {
  return write_file("generate/tiny.gguf", app::testing::write_decoder(d));
}

// The likeliest tokens behind a prompt, by loops over double.
std::vector<std::int32_t> reference(const TinyDecoder& d, const std::string& prompt, int count) {
  const auto bytes = std::make_shared<std::string>(app::testing::write_decoder(d));
  const gguf::File file = gguf::File::parse(*bytes, bytes, "tiny").value();
  ReferenceDecoder decoder(d, file);
  std::vector<double> logits;
  for (const char c : prompt) logits = decoder.step(static_cast<unsigned char>(c));
  std::vector<std::int32_t> out;
  for (int i = 0; i < count; ++i) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (best == 257) break;
    out.push_back(static_cast<std::int32_t>(best));
    logits = decoder.step(out.back());
  }
  return out;
}

nlohmann::json json_of(const Finished& done) {
  EXPECT_EQ(done.code, 0) << done.err;
  return nlohmann::json::parse(done.out, nullptr, false);
}

TEST(Generate, GoesOnAsTheModelSays) {
  const TinyDecoder d = byte_model();
  const std::string path = saved(d);
  const nlohmann::json out = json_of(run(
      {"generate", path, "--prompt", "Hello", "--max-tokens", "12", "--json", "--threads", "1"}));
  ASSERT_TRUE(out.is_object());
  EXPECT_EQ(out["tokens"].get<std::vector<std::int32_t>>(), reference(d, "Hello", 12));
  EXPECT_EQ(out["prompt_tokens"], 5);
  const Finished plain = run({"generate", path, "--prompt", "Hello", "--max-tokens", "12"});
  EXPECT_EQ(plain.out, out["text"].get<std::string>() + "\n");
  EXPECT_NE(plain.err.find("tessera: prompt 5 tokens, "), std::string::npos) << plain.err;
  EXPECT_NE(plain.err.find("; generated "), std::string::npos) << plain.err;
}

TEST(Generate, PromptsComeFromFilesAndStandardInput) {
  const std::string path = saved(byte_model());
  const std::string file = write_file("generate/prompt.txt", "Hello");
  const std::string flags = " --max-tokens 4 --json --threads 1 2>/dev/null";
  const auto tokens = [&](const std::string& command) {
    return json_of(run_shell(command))["tokens"].dump();
  };
  const std::string want = tokens("tessera generate " + path + " --prompt Hello" + flags);
  EXPECT_EQ(tokens("tessera generate " + path + " --prompt-file " + file + flags), want);
  EXPECT_EQ(tokens("printf Hello | tessera generate " + path + flags), want);
}

TEST(Generate, TheSeedFixesWhatIsDrawn) {
  const std::string path = saved(byte_model());
  const auto text = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"generate",     path, "--prompt", "x",
                                     "--max-tokens", "24", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return json_of(run(args))["tokens"].dump();
  };
  const std::string greedy = text({}), drawn = text({"--temperature", "2"});
  EXPECT_NE(greedy, drawn);
  EXPECT_EQ(drawn, text({"--temperature", "2"}));
  EXPECT_NE(drawn, text({"--temperature", "2", "--seed", "7"}));
  EXPECT_EQ(greedy, text({"--top-k", "1"}));
  EXPECT_NE(greedy, text({"--top-k", "200"})) << "then the temperature is 1";
}

TEST(Generate, ChatHasTheMarksOfTheTemplate) {
  const TinyDecoder d = byte_model();
  const nlohmann::json out = json_of(run({"generate", saved(d), "--chat", "--prompt", "<|im_end|>",
                                          "--system", "s", "--max-tokens", "1", "--json"}));
  // Two marks each for system and user, one for the answer; the prompt is ten bytes.
  EXPECT_EQ(out["prompt_tokens"], 5 + 7 + 1 + 1 + 5 + 10 + 1 + 10);
}

TEST(Generate, CtrlCEndsIt) {
  const std::string path = saved(byte_model()), out = write_file("generate/out.txt", "");
  const Finished done = run_shell(
      "tessera generate " + path + " --prompt x --max-tokens 0 --context 100000 > " + out +
      " & pid=$!; while [ ! -s " + out + " ]; do sleep 0.05; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_NE(done.err.find("; interrupted"), std::string::npos) << done.err;
}

TEST(Generate, SaysWhatIsWrong) {
  const std::string path = saved(byte_model());
  const auto expect = [](const std::vector<std::string>& args, int code,
                         const std::string& reason) {
    std::vector<std::string> all = {"generate"};
    all.insert(all.end(), args.begin(), args.end());
    const Finished done = run(all);
    EXPECT_EQ(done.code, code) << reason;
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err.find(reason), std::string::npos) << done.err;
  };
  expect({path, "--prompt", ""}, 2, "the prompt is empty");
  expect({path, "--prompt", "x", "--system", "s"}, 2, "--system is a part of a chat; add --chat");
  expect({path, "--prompt", "x", "--top-p", "3"}, 2, "top-p is 3");
  expect({path, "--prompt", "x", "--temperature", "-1"}, 2, "the temperature is -1");
  expect({path, "--prompt", "Hello there", "--context", "4"}, 2, "--context sets it");
  expect({"/no/such.gguf", "--prompt", "x"}, 2, "/no/such.gguf");
  expect({write_file("generate/no.gguf", "not one"), "--prompt", "x"}, 2, "no.gguf");
  expect({saved(byte_model("")), "--chat", "--prompt", "x"}, 5, "has no chat template");
  expect({saved(byte_model("{{ strange }}")), "--chat", "--prompt", "x"}, 5,
         "of no family that is known");
  expect({saved(byte_model(kChatTemplate, 258)), "--prompt", "x"}, 2,
         "tokenizer.ggml.eos_token_id is 258, but there are 258 tokens");
  TinyDecoder small = byte_model();
  small.words = 100;
  expect({saved(small), "--prompt", "x"}, 2, "the model knows 100 tokens");
  expect({saved(TinyDecoder{}), "--prompt", "x"}, 2, "tokenizer.ggml.model");
}

}  // namespace
}  // namespace tessera::cli
