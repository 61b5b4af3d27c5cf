#include "tessera/frontend/checkpoint/folder.h"

#include <filesystem>
#include <functional>

#include "tessera/frontend/checkpoint/checkpoint.h"
#include "tessera/frontend/gguf/architecture.h"
#include "tessera/frontend/gguf/to_model.h"
#include "tests/checkpoint/tiny_folder.h"

namespace tessera::checkpoint {
namespace {

using testing::case_named;
using testing::cases;
using testing::json;
using testing::save_folder;
using testing::save_text;

class Folder : public ::testing::Test {
 protected:
  Folder() : folder_(TemporaryFolder::make("checkpoint").value()) {}
  std::string path() const { return folder_.path(); }
  std::string in(const std::string& name) const { return path() + "/" + name; }

  // What a decoder of the folder is refused for.
  std::string refusal() const {
    const auto model = load_model(path());
    EXPECT_FALSE(model.ok());
    if (model.ok()) return "";
    std::string out = model.error().message;
    for (std::size_t at = 0; (at = out.find(path())) != std::string::npos;)
      out.replace(at, path().size(), "DIR");
    return out;
  }
  // The same of a case with a change.
  std::string refusal(const std::string& name, const std::function<void(json&)>& change) const {
    json c = case_named(name);
    change(c);
    save_folder(c, path());
    return refusal();
  }

  TemporaryFolder folder_;
};

TEST_F(Folder, EveryCaseIsADecoder) {
  for (const json& c : cases()["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    save_folder(c, path());
    const auto file = open(path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->version(), 0);
    const auto a = gguf::read_architecture(*file);
    ASSERT_TRUE(a.ok()) << a.error().message;
    EXPECT_FALSE(a->interleaved);
    EXPECT_EQ(a->vocabulary, 40);
    for (const gguf::Values values : {gguf::Values::kRead, gguf::Values::kLeft}) {
      const auto model = gguf::to_model(*file, values);
      ASSERT_TRUE(model.ok()) << model.error().message;
    }
  }
}

TEST_F(Folder, OnnxDecodersAreNamed) {
  save_folder(case_named("llama"), path());
  save_text(in("genai_config.json"), R"({"model": {"decoder": {"filename": "model.onnx"}}})");
  EXPECT_TRUE(load_model(path()).ok()) << "there are safetensors, too";
  std::filesystem::remove(in("model.safetensors"));
  const std::string said =
      "DIR: genai_config.json names an ONNX decoder \"model.onnx\", which can be compiled and run "
      "by "
      "itself; text is generated from GGUF files, and folders with config.json and safetensors";
  EXPECT_EQ(refusal(), said);
  std::filesystem::remove(in("config.json"));
  EXPECT_EQ(refusal(), said);
  EXPECT_EQ(load_model(path()).error().code, ErrorCode::kUnsupported);
  save_text(in("genai_config.json"), "{}");
  EXPECT_NE(refusal().find("names an ONNX decoder, which"), std::string::npos) << refusal();
  save_text(in("genai_config.json"), "[");
  EXPECT_NE(refusal().find("genai_config.json"), std::string::npos) << refusal();
  save_text(in("model.onnx"), "x");
  EXPECT_EQ(open(in("model.onnx")).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(open(in("none.onnx")).error().code, ErrorCode::kIo);
  EXPECT_EQ(open(in(std::string(5000, 'x') + ".onnx")).error().code, ErrorCode::kIo);
}

TEST_F(Folder, TensorsStayInTheirFile) {
  save_folder(case_named("llama"), path());
  const auto file = open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const gguf::Tensor* q = file->find_tensor("blk.1.attn_q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_STREQ(q->type->name, "BF16");
  EXPECT_EQ(q->shape, (Shape{32, 32}));
  const auto want =
      testing::weights("model.layers.1.self_attn.q_proj.weight", DType::kBF16, {32, 32}, 1);
  EXPECT_EQ(gguf::widened(*q)->get_float(37), want.get_float(37));
  EXPECT_EQ(file->spelled("blk.1.attn_q.weight"), "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(file->spelled("llama.block_count"), "num_hidden_layers");
  EXPECT_EQ(file->spelled("something"), "something");
}

TEST_F(Folder, NormsOfGemmaCountFromOne) {
  save_folder(case_named("gemma2"), path());
  const auto file = open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const auto& [ours, theirs] :
       {std::pair{"blk.0.post_attention_norm", "post_attention_layernorm"},
        std::pair{"blk.0.ffn_norm", "pre_feedforward_layernorm"},
        std::pair{"blk.0.post_ffw_norm", "post_feedforward_layernorm"}}) {
    const gguf::Tensor* t = file->find_tensor(std::string(ours) + ".weight");
    ASSERT_NE(t, nullptr) << ours;
    const auto want =
        testing::weights(fmt::format("model.layers.0.{}.weight", theirs), DType::kF32, {32}, 1);
    EXPECT_EQ(gguf::widened(*t)->get_float(5), want.get_float(5)) << ours;
  }
}

TEST_F(Folder, ShardsAreReadTogether) {
  const json& c = case_named("qwen3");
  save_folder(c, path());
  NamedTensors all = testing::tensors_of(c), first, second;
  json places;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool low = i % 2 == 0;
    places[all[i].name] = low ? "a.safetensors" : "b.safetensors";
    (low ? first : second).push_back(all[i]);
  }
  // A tensor that the index places elsewhere is not taken.
  second.push_back({"model.norm2", HostTensor(DType::kI8, {3})});
  ASSERT_TRUE(write_safetensors(in("a.safetensors"), first).ok());
  ASSERT_TRUE(write_safetensors(in("b.safetensors"), second).ok());
  std::filesystem::remove(in("model.safetensors"));
  EXPECT_EQ(refusal(), "DIR: neither model.safetensors nor model.safetensors.index.json is there");
  const auto index = [&](const json& map) {
    save_text(in("model.safetensors.index.json"), json{{"weight_map", map}}.dump());
  };
  index(places);
  const auto file = open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), all.size());
  EXPECT_EQ(files(path())->size(), 4U);

  json more = places;
  more["model.more"] = "b.safetensors";
  index(more);
  EXPECT_EQ(refusal(),
            "DIR/b.safetensors: 1 of the tensors that model.safetensors.index.json places here are "
            "missing");
  for (const char* outside : {"../a.safetensors", "pytorch_model.bin"}) {
    more["model.more"] = outside;
    index(more);
    EXPECT_EQ(refusal(),
              "DIR/model.safetensors.index.json: 'model.more' is in no safetensors file of this "
              "folder");
  }
  index(json::array());
  EXPECT_EQ(refusal(), "DIR/model.safetensors.index.json: 'weight_map' names no tensors");
  more["model.more"] = "c.safetensors";
  index(more);
  EXPECT_NE(refusal().find("DIR/c.safetensors"), std::string::npos);
}

TEST_F(Folder, SaysWhatIsWrongByTheNamesOfTheFolder) {
  EXPECT_EQ(refusal(), "DIR: a folder without config.json");
  const auto tensor = [](const char* name) { return [=](json& c) { c["tensors"].erase(name); }; };
  EXPECT_EQ(refusal("llama", tensor("model.layers.1.mlp.up_proj.weight")),
            "DIR: there is no tensor 'model.layers.1.mlp.up_proj.weight'");
  EXPECT_EQ(refusal("llama", tensor("lm_head.weight")), "DIR: there is no tensor 'lm_head.weight'");
  EXPECT_EQ(refusal("llama", tensor("model.embed_tokens.weight")),
            "DIR: there is no tensor 'model.embed_tokens.weight'");
  EXPECT_EQ(refusal("gemma2", tensor("model.layers.0.pre_feedforward_layernorm.weight")),
            "DIR: there is no tensor 'model.layers.0.pre_feedforward_layernorm.weight'");
  EXPECT_EQ(refusal("qwen2", [](json& c) { c["config"]["hidden_size"] = 64; }),
            "DIR: tensor 'model.embed_tokens.weight' is 40x32, rows of 64 needed");
  EXPECT_EQ(refusal("qwen2", [](json& c) { c["config"]["intermediate_size"] = 64; }),
            "DIR: tensor 'model.layers.0.mlp.gate_proj.weight' is 48x32, 64x32 needed");
  EXPECT_EQ(
      refusal("qwen2",
              [](json& c) {
                c["tensors"]["model.layers.0.lora.weight"] = {{"dtype", "F32"}, {"shape", {1}}};
              }),
      "DIR/model.safetensors: tensor 'model.layers.0.lora.weight', of which nothing is known "
      "in qwen2");
  save_folder(case_named("llama"), path());
  ASSERT_TRUE(
      write_safetensors(in("model.safetensors"), {{"lm_head.weight", HostTensor(DType::kF64, {2})}})
          .ok());
  EXPECT_EQ(refusal(), "DIR/model.safetensors: tensor 'lm_head.weight' has elements of type f64");
  save_text(in("model.safetensors"), "no");
  EXPECT_EQ(refusal(), "DIR/model.safetensors: safetensors: too short");
  save_text(in("config.json"), "{");
  EXPECT_EQ(refusal(), "DIR/config.json: not a JSON object");
  save_text(in("config.json"), std::string(100, '['));
  EXPECT_EQ(refusal(), "DIR/config.json: nested more than 16 deep");
}

TEST_F(Folder, OldBuffersAndSuperfluousHeadsAreLeftOut) {
  json c = case_named("qwen2");  // tied
  c["tensors"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{"dtype", "F32"}, {"shape", {4}}};
  c["tensors"]["lm_head.weight"] = {{"dtype", "F32"}, {"shape", {40, 32}}};
  save_folder(c, path());
  const auto file = open(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->find_tensor("output.weight"), nullptr);
}

}  // namespace
}  // namespace tessera::checkpoint
