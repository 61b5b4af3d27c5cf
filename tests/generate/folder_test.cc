// Folders with config.json and safetensors where any model may stand.
#include <cmath>
#include <filesystem>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/model_source.h"
#include "tessera/app/generate/decoder.h"
#include "tessera/app/generate/model_text.h"
#include "tessera/machine/target/target.h"
#include "tests/checkpoint/tiny_folder.h"

namespace tessera::app {
namespace {

using checkpoint::testing::case_named;
using checkpoint::testing::cases;
using checkpoint::testing::json;
using checkpoint::testing::save_folder;
using checkpoint::testing::save_text;

// Sums of a few hundred products in f32 here and there.
constexpr double kRelative = 2e-4;

class FolderModel : public ::testing::Test {
 protected:
  FolderModel() : folder_(TemporaryFolder::make("folder_model").value()) {
    options_.compile.target = target::code_target(target::host(), 1);
  }
  std::string path() const { return folder_.path(); }
  std::string in(const std::string& name) const { return path() + "/" + name; }

  TemporaryFolder folder_;
  DecoderOptions options_;
};

void expect_near(std::span<const float> got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  EXPECT_GT(largest, 0.1);
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], kRelative * (largest + 1)) << "word " << i;
}

// The first tokens one by one, the others at once.
TEST_F(FolderModel, EveryFamilyAgreesWithTransformers) {
  const auto tokens = cases()["tokens"].get<std::vector<std::int32_t>>();
  for (const json& c : cases()["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    save_folder(c, path());
    auto decoder = Decoder::open(path(), options_);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    const auto want = [&](const char* row) { return c["logits"][row].get<std::vector<double>>(); };
    for (std::size_t i = 0; i < 12; ++i) {
      const auto got = decoder->step({&tokens[i], 1});
      ASSERT_TRUE(got.ok()) << got.error().message;
      if (i == 0) expect_near(*got, want("0"));
      if (i == 11) expect_near(*got, want("11"));
    }
    const auto got = decoder->step(std::span(tokens).subspan(12));
    ASSERT_TRUE(got.ok()) << got.error().message;
    expect_near(*got, want("23"));
  }
}

TEST_F(FolderModel, IsCheckedAndFoundByItsContent) {
  save_folder(case_named("llama"), path());
  CompileOptions options = options_.compile;
  options.import.symbols = {{"sequence", 3}, {"capacity", 8}, {"wanted", 2}};
  const auto report = check_model(path(), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->unsupported.empty());
  ModelSource source(path()), same(path());
  EXPECT_NE(source.identity(), "");
  EXPECT_EQ(source.identity(), same.identity());
  EXPECT_FALSE(source.changed());
  json c = case_named("llama");
  c["config"]["rms_norm_eps"] = 1e-3;
  save_text(in("config.json"), c["config"].dump());
  EXPECT_TRUE(source.changed());
  std::filesystem::remove(in("config.json"));
  EXPECT_EQ(ModelSource(path()).identity(), "");
}

// Weights that are too large to be read for that, beside small ones and what is made of
// config.json.
TEST_F(FolderModel, IsCheckedWithoutItsLargeWeights) {
  json c = case_named("llama");
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
    c["tensors"][name]["shape"] = {1200, 32};
  save_folder(c, path());
  CompileOptions options = options_.compile;
  options.import.symbols = {{"sequence", 3}, {"capacity", 8}, {"wanted", 2}};
  const auto report = check_model(path(), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->unsupported.empty());
}

// Bytes and two marks.
json tokenizer_json() {
  json vocab = json::object();
  for (int i = 0; i < 30; ++i) vocab[std::string(1, static_cast<char>('A' + i))] = i;
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"added_tokens",
           {{{"id", 30}, {"content", "<s>"}, {"special", true}},
            {{"id", 31}, {"content", "<|im_end|>"}, {"special", true}}}}};
}

TEST_F(FolderModel, TextIsReadFromTheFilesBeside) {
  const auto read = [&] { return read_model_text(path()); };
  EXPECT_EQ(read().error().message, path() + ": there is no tokenizer.json");
  save_text(in("tokenizer.json"), tokenizer_json().dump());
  auto text = read();
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->chat_template, "");
  EXPECT_EQ(text->vocabulary.end, std::nullopt);
  EXPECT_EQ(text->vocabulary.also_end, std::vector<tokenizer::Token>{31});

  save_text(in("tokenizer_config.json"),
            json{{"bos_token", {{"content", "<s>"}}}, {"eos_token", "A"}, {"chat_template", "one"}}
                .dump());
  save_text(in("generation_config.json"), json{{"eos_token_id", {3, 4}}}.dump());
  text = read();
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(text->vocabulary.begin, 30);
  EXPECT_EQ(text->vocabulary.end, 0);
  EXPECT_EQ(text->vocabulary.also_end, (std::vector<tokenizer::Token>{3, 4, 31}));
  EXPECT_FALSE(text->vocabulary.add_begin);
  EXPECT_EQ(text->chat_template, "one");

  save_text(
      in("tokenizer_config.json"),
      json{{"chat_template",
            {{{"name", "tool"}, {"template", "x"}}, {{"name", "default"}, {"template", "y"}}}}}
          .dump());
  EXPECT_EQ(read()->chat_template, "y");
  save_text(in("chat_template.jinja"), "z");
  EXPECT_EQ(read()->chat_template, "z");

  save_text(in("generation_config.json"), json{{"eos_token_id", 32}}.dump());
  EXPECT_EQ(read().error().message,
            in("generation_config.json") + ": eos_token_id is 32, but there are 32 tokens");
  save_text(in("generation_config.json"), "[");
  EXPECT_EQ(read().error().message, in("generation_config.json") + ": not a JSON object");
  save_text(in("tokenizer.json"), std::string(100, '['));
  EXPECT_EQ(read().error().message, path() + ": tokenizer.json: it is nested more than 64 deep");
}

}  // namespace
}  // namespace tessera::app
