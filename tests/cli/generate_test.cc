// tessera generate, on a tiny random model that knows bytes.
#include <cmath>
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tests/checkpoint/tiny_folder.h"
#include "tests/cli/process.h"
#include "tests/generate/byte_model.h"

namespace tessera::cli {
namespace {

using app::testing::byte_model;
using app::testing::kChatTemplate;
using app::testing::ReferenceDecoder;
using app::testing::TinyDecoder;

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

TEST(Generate, ActivationsAreBytesOrFloats) {
  const TinyDecoder d = byte_model();
  const std::string path = saved(d);
  const auto generate = [&](const char* activations) {
    return run({"generate", path, "--prompt", "Hello", "--max-tokens", "12", "--json", "--threads",
                "1", "--activations", activations});
  };
  const nlohmann::json out = json_of(generate("float"));
  EXPECT_EQ(out["tokens"].get<std::vector<std::int32_t>>(), reference(d, "Hello", 12));
  EXPECT_EQ(json_of(generate("int8"))["tokens"], out["tokens"]) << "no weights of few bits";
  const Finished other = generate("int4");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("int4 not in {model,int8,float}"), std::string::npos) << other.err;
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

// As `echo` and editors write it.
TEST(Generate, TheLastLineFeedIsNoPartOfThePrompt) {
  const std::string path = saved(byte_model());
  const auto tokens = [&](const std::string& command) {
    const Finished done = run_shell(command);
    const nlohmann::json out = json_of(done);
    return out.is_object() ? out["prompt_tokens"].get<int>() : -1;
  };
  const std::string generate = "tessera generate " + path + " --max-tokens 1 --json";
  EXPECT_EQ(tokens("echo Hello | " + generate), 5);
  EXPECT_EQ(tokens("printf 'Hello' | " + generate), 5);
  EXPECT_EQ(tokens("printf 'Hello\\n\\n' | " + generate), 6);
  const std::string file = write_file("generate/prompt.txt", "Hello\r\n");
  EXPECT_EQ(tokens(generate + " --prompt-file " + file), 5);
  write_file("generate/prompt.txt", "Hello\r");
  EXPECT_EQ(tokens(generate + " --prompt-file " + file), 6);
  EXPECT_EQ(tokens(generate + " --prompt 'Hello\n'"), 6) << "as it was given";
}

// What is compiled for a text of any length is what most texts need: nothing that another text of
// a usual length did not.
TEST(Generate, NoMoreIsCompiledThanTextsUsuallyNeed) {
  const std::string path = saved(byte_model());
  const std::string cache = std::filesystem::path(path).parent_path().string() + "/cache";
  std::filesystem::remove_all(cache);
  const auto programs = [&](const std::string& more) {
    const Finished done = run_shell("TESSERA_CACHE=" + cache + " tessera generate " + path +
                                    " --prompt Hello --threads 1 --json " + more);
    EXPECT_EQ(done.code, 0) << done.err;
    std::int64_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
      files += entry.is_regular_file() ? 1 : 0;
    return std::pair(files, nlohmann::json::parse(done.out, nullptr, false));
  };
  const auto [few, said] = programs("--max-tokens 256");
  ASSERT_TRUE(said.is_object());
  const std::string text = said["text"];
  ASSERT_NE(text, "");
  EXPECT_GT(few, 0);
  const auto [as_many, ended] = programs("--max-tokens 0 --stop '" + text.substr(0, 1) + "'");
  EXPECT_EQ(ended["end"], "stop");
  EXPECT_EQ(as_many, few);
  EXPECT_GT(programs("--max-tokens 600 --stop '" + text.substr(0, 1) + "'").first, few);
  std::filesystem::remove_all(cache);
}

// On a terminal that `script` makes.
TEST(Generate, AConversationGoesOnWhereTheContextIsFull) {
  if (run_shell("command -v script >/dev/null").code != 0) GTEST_SKIP() << "script is absent";
  const std::string path = saved(byte_model());
  const std::string turns =
      "one\\ntwo\\nthree\\n" + std::string(300, 'x') + "\\nfour\\nfive\\nsix\\n";
  const Finished done = run_shell("printf '" + turns + "' | script -qec 'tessera generate " + path +
                                  " --chat --context 120 --max-tokens 8; echo exit $?' /dev/null");
  for (const char* part : {"tessera: the context is full: the ", "the rest is read again",
                           "and the context holds 120; --context sets it", "exit 0"}) {
    EXPECT_NE(done.out.find(part), std::string::npos) << part << "\n" << done.out;
  }
  std::size_t answers = 0;
  for (std::size_t at = 0; (at = done.out.find("; generated ", at)) != std::string::npos; ++at)
    ++answers;
  EXPECT_EQ(answers, 6U) << done.out;
}

TEST(Generate, GuessesLeaveTheTextAsItIs) {
  const std::string path = saved(byte_model());
  for (const char* temperature : {"0", "0.05"}) {
    const auto out = [&](const char* lookup) {
      return json_of(run({"generate", path, "--prompt", "abcabcabc", "--max-tokens", "60",
                          "--temperature", temperature, "--lookup", lookup, "--json"}));
    };
    const nlohmann::json plain = out("1"), guessed = out("4");
    ASSERT_TRUE(plain.is_object() && guessed.is_object());
    EXPECT_EQ(plain["tokens"], guessed["tokens"]);
    EXPECT_EQ(plain["guessed_tokens"], 0);
    EXPECT_GT(guessed["guessed_tokens"].get<int>(), 0);
  }
}

TEST(Generate, WhatIsRememberedIsKept) {
  const std::string path = saved(byte_model()), file = write_file("generate/memory", "");
  const auto out = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"generate",     path, "--prompt", "Hello there",
                                     "--max-tokens", "6",  "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return json_of(run(args));
  };
  const nlohmann::json first = out({"--save-cache", file}), again = out({"--load-cache", file});
  ASSERT_TRUE(first.is_object() && again.is_object());
  EXPECT_EQ(first["reused_tokens"], 0);
  EXPECT_EQ(again["reused_tokens"], 10);
  EXPECT_EQ(first["tokens"], again["tokens"]);
  const std::string other = write_file("generate/other.gguf", [] {
    TinyDecoder d = byte_model();
    d.layers = 1;
    return app::testing::write_decoder(d);
  }());
  const Finished wrong = run({"generate", other, "--prompt", "x", "--load-cache", file});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("of another model"), std::string::npos) << wrong.err;
}

TEST(Generate, ChatHasTheMarksOfTheTemplate) {
  const TinyDecoder d = byte_model();
  const nlohmann::json out = json_of(run({"generate", saved(d), "--chat", "--prompt", "<|im_end|>",
                                          "--system", "s", "--max-tokens", "1", "--json"}));
  // Two marks each for system and user, one for the answer; the prompt is ten bytes.
  EXPECT_EQ(out["prompt_tokens"], 5 + 7 + 1 + 1 + 5 + 10 + 1 + 10);
}

TEST(Generate, PromptsMayHoldTheMarksThemselves) {
  TinyDecoder d = byte_model();
  const auto prompt_tokens = [&](const char* prompt) {
    const nlohmann::json out =
        json_of(run({"generate", saved(d), "--prompt", prompt, "--max-tokens", "1", "--json"}));
    return out["prompt_tokens"].get<int>();
  };
  EXPECT_EQ(prompt_tokens("<|im_start|>user\nHi<|im_end|>\n"), 1 + 7 + 1 + 1);
  const auto metadata = d.metadata;
  d.metadata = [=](gguf::testing::Writer& w) {
    metadata(w);
    w.integer("tokenizer.ggml.bos_token_id", 256).flag("tokenizer.ggml.add_bos_token", true);
  };
  EXPECT_EQ(prompt_tokens("Hi"), 3);
  EXPECT_EQ(prompt_tokens("<|im_start|>Hi"), 3) << "the beginning is there already";
}

TEST(Generate, CtrlCEndsIt) {
  TinyDecoder endless = byte_model();
  endless.context = 100000;
  const std::string path = saved(endless), out = write_file("generate/out.txt", "");
  const Finished done = run_shell(
      "tessera generate " + path + " --prompt x --max-tokens 0 --context 100000 > " + out +
      " & pid=$!; while [ ! -s " + out + " ]; do sleep 0.05; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_NE(done.err.find("; interrupted"), std::string::npos) << done.err;
}

TEST(Generate, BenchTimesReadingAndWriting) {
  const std::string path = saved(byte_model());
  const nlohmann::json out = json_of(run({"bench", path, "--generate", "prompt=20,tokens=5",
                                          "--samples", "2", "--threads", "1", "--json"}));
  ASSERT_TRUE(out.is_object());
  EXPECT_EQ(out["prompt"], 20);
  EXPECT_EQ(out["tokens"], 5);
  EXPECT_EQ(out["threads"], 1);
  EXPECT_EQ(out["activations"], "int8");
  EXPECT_EQ(out["samples"]["decode_tokens_per_s"].size(), 2U);
  for (const char* name : {"prefill_tokens_per_s", "decode_tokens_per_s", "first_token_s",
                           "weight_bytes", "resident_bytes"}) {
    EXPECT_GT(out[name].get<double>(), 0) << name;
  }
  const nlohmann::json exact = json_of(run({"bench", path, "--generate", "prompt=3,tokens=2",
                                            "--samples", "1", "--activations", "float", "--json"}));
  EXPECT_EQ(exact["activations"], "float");
  const Finished text = run({"bench", path, "--generate", "tokens=2,prompt=3", "--samples", "1"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* line : {"1 sample (medians)", "prefill          3 tokens", "tokens/s",
                           "decode           2 tokens", "first token in "}) {
    EXPECT_NE(text.out.find(line), std::string::npos) << text.out;
  }
  const auto refused = [&](const std::vector<std::string>& args, const std::string& reason) {
    const Finished done = run(args);
    EXPECT_EQ(done.code, 2) << reason;
    EXPECT_NE(done.err.find(reason), std::string::npos) << done.err;
  };
  for (const char* wrong : {"prompt=0", "tokens=x", "words=3", "prompt", "tokens=9999999"}) {
    refused({"bench", path, "--generate", wrong}, "write prompt=512,tokens=128");
  }
  refused({"bench", "--generate", "prompt=1"}, "--generate times one language model");
  refused({"bench", path, "--generate", "prompt=1", "--peers", "ort"},
          "--generate times one language model");
  refused({"bench", path, "--generate", "prompt=5000"}, "128 tokens behind 5000: there is room");
}

// By the definition, in pieces of the context.
double reference_perplexity(const TinyDecoder& d, const std::string& text) {
  const auto bytes = std::make_shared<std::string>(app::testing::write_decoder(d));
  const gguf::File file = gguf::File::parse(*bytes, bytes, "tiny").value();
  std::optional<ReferenceDecoder> decoder;
  double log_likelihood = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (i % static_cast<std::size_t>(d.context) == 0) decoder.emplace(d, file);
    const std::vector<double> logits = decoder->step(static_cast<unsigned char>(text[i]));
    double sum = 0;
    for (const double v : logits) sum += std::exp(v);
    log_likelihood += logits[static_cast<unsigned char>(text[i + 1])] - std::log(sum);
  }
  return std::exp(-log_likelihood / static_cast<double>(text.size() - 1));
}

TEST(Generate, BenchMeasuresHowWellTextsArePredicted) {
  const std::string text = "The quick brown fox jumps over the lazy dog, and so on.";
  TinyDecoder d = byte_model();
  d.blocks = "Q8_0";
  d.context = 20;
  const std::string path = saved(d), file = write_file("generate/text.txt", text);
  const double want = reference_perplexity(d, text);
  const nlohmann::json exact =
      json_of(run({"bench", path, "--perplexity", file, "--activations", "float", "--json"}));
  ASSERT_TRUE(exact.is_object());
  EXPECT_EQ(exact["tokens"], text.size() - 1);
  EXPECT_NEAR(exact["perplexity"].get<double>(), want, 1e-3 * want);
  EXPECT_FALSE(exact.contains("against"));

  const nlohmann::json rounded =
      json_of(run({"bench", path, "--perplexity", file, "--against", "exact", "--json"}));
  const nlohmann::json& beside = rounded["against"];
  ASSERT_TRUE(beside.is_object()) << rounded;
  EXPECT_NEAR(rounded["perplexity"].get<double>(), want, 0.05 * want);
  EXPECT_NEAR(beside["perplexity"].get<double>(), want, 1e-3 * want);
  EXPECT_NEAR(beside["perplexity_ratio"].get<double>(), 1, 0.05);
  EXPECT_LT(std::abs(beside["mean_kl"].get<double>()), 0.01);
  EXPECT_GT(beside["same_likeliest"].get<double>(), 0.7);

  TinyDecoder less = d;
  less.layers = 1;
  const std::string other = write_file("generate/less.gguf", app::testing::write_decoder(less));
  const nlohmann::json two = json_of(run({"bench", path, "--perplexity", file, "--against", other,
                                          "--activations", "float", "--json"}))["against"];
  const double its = reference_perplexity(less, text);
  EXPECT_EQ(two["model"], other);
  EXPECT_NEAR(two["perplexity"].get<double>(), its, 1e-3 * its);
  EXPECT_NEAR(two["perplexity_ratio"].get<double>(), want / its, 2e-3 * want / its);
  EXPECT_GT(two["mean_kl"].get<double>(), 1e-4);

  const Finished words = run({"bench", path, "--perplexity", file, "--tokens", "2", "--against",
                              "exact", "--threads", "1"});
  EXPECT_EQ(words.code, 0) << words.err;
  for (const char* part : {"tiny.gguf: perplexity ", " over 1 token", "exact: perplexity ",
                           "; ratio ", "same likeliest token ", "mean KL divergence "}) {
    EXPECT_NE(words.out.find(part), std::string::npos) << words.out;
  }
}

TEST(Generate, BenchRefusesTextsThatCannotBePredicted) {
  TinyDecoder d = byte_model();
  const std::string path = saved(d), good = write_file("generate/text.txt", "some text");
  const auto metadata = d.metadata;
  d.metadata = [=](gguf::testing::Writer& w) {
    metadata(w);
    w.integer("tokenizer.ggml.bos_token_id", 256).flag("tokenizer.ggml.add_bos_token", true);
  };
  const std::string begins = write_file("generate/begins.gguf", app::testing::write_decoder(d));
  const auto refused = [&](const std::vector<std::string>& args, const std::string& reason) {
    std::vector<std::string> all = {"bench"};
    all.insert(all.end(), args.begin(), args.end());
    const Finished done = run(all);
    EXPECT_EQ(done.code, 2) << reason;
    EXPECT_NE(done.err.find(reason), std::string::npos) << done.err;
  };
  const std::string file = write_file("generate/bad.txt", "");
  refused({path, "--perplexity", file}, "bad.txt is empty");
  write_file("generate/bad.txt", "x");
  refused({path, "--perplexity", file}, "the text has 1 of the two tokens needed");
  write_file("generate/bad.txt", "caf\xe9 au lait");
  refused({path, "--perplexity", file}, "bad.txt is not UTF-8");
  refused({path, "--perplexity", good, "--against", begins}, "have different tokenizers");
  refused({path, "--perplexity", good, "--against", "/no/such.gguf"}, "/no/such.gguf");
  refused({path, "--perplexity", good, "--peers", "ort"}, "--perplexity is of one language model");
  refused({"--perplexity", good}, "--perplexity is of one language model");
}

// A folder as transformers saves it, with the vocabulary of bytes.
TEST(Generate, FoldersAreModels) {
  const TemporaryFolder folder = TemporaryFolder::make("generate").value();
  nlohmann::json c = checkpoint::testing::case_named("qwen3");
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
    c["tensors"][name]["shape"] = {258, 32};
  checkpoint::testing::save_folder(c, folder.path());
  const auto args = [&](const std::string& command) {
    return std::vector<std::string>{command, folder.path()};
  };
  std::vector<std::string> generate = args("generate");
  generate.insert(generate.end(), {"--prompt", "Hi", "--max-tokens", "4", "--json"});
  const Finished none = run(generate);
  EXPECT_EQ(none.code, 5) << none.err;
  EXPECT_NE(none.err.find("there is no tokenizer.json"), std::string::npos) << none.err;
  nlohmann::json vocab = nlohmann::json::object();
  for (int b = 0; b < 256; ++b) {
    std::string character;
    tokenizer::append_utf8(&character, tokenizer::character_of_byte(static_cast<unsigned char>(b)));
    vocab[character] = b;
  }
  const nlohmann::json tokenizer = {
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"added_tokens",
       {{{"id", 256}, {"content", "<|im_start|>"}, {"special", true}},
        {{"id", 257}, {"content", "<|im_end|>"}, {"special", true}}}}};
  checkpoint::testing::save_text(folder.path() + "/tokenizer.json", tokenizer.dump());
  checkpoint::testing::save_text(folder.path() + "/chat_template.jinja", kChatTemplate);
  const nlohmann::json out = json_of(run(generate));
  ASSERT_TRUE(out.is_object());
  EXPECT_EQ(out["prompt_tokens"], 2);
  EXPECT_EQ(out["tokens"].size(), 4U);
  generate.push_back("--chat");
  EXPECT_EQ(json_of(run(generate))["prompt_tokens"], 1 + 5 + 2 + 1 + 1 + 1 + 10);

  const Finished checked = run(args("check"));
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("yes"), std::string::npos) << checked.out;
  std::filesystem::remove(folder.path() + "/config.json");
  for (const char* command : {"generate", "check"}) {
    const Finished empty = run(args(command));
    EXPECT_EQ(empty.code, 2) << command;
    EXPECT_NE(empty.err.find("a folder without config.json"), std::string::npos) << empty.err;
  }
}

TEST(Generate, OnnxDecodersAreRefused) {
  const std::string file = write_file("generate/genai/model.onnx", "x");
  const std::string config = write_file("generate/genai/genai_config.json", "{}");
  const std::string folder = config.substr(0, config.rfind('/'));
  for (const std::string& path : {file, folder}) {
    const Finished done = run({"generate", path, "--prompt", "x"});
    EXPECT_EQ(done.code, 5) << done.err;
    EXPECT_NE(done.err.find("GGUF files, and folders with config.json and safetensors"),
              std::string::npos)
        << done.err;
  }
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
