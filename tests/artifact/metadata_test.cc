#include "tessera/backend/artifact/metadata.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/elf.h"
#include "tessera/backend/artifact/toolchain.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

Metadata sample() {
  Metadata m;
  m.abi = 1;
  m.name = "net";
  m.tessera_version = "1.2.3";
  m.library = "libnet.so";
  m.target = "host ...";
  m.triple = "x86_64-unknown-linux-gnu";
  m.features = {"avx2", "fma"};
  m.model_digest = "0123456789abcdef";
  m.plan_digest = "1";
  m.weights_digest = "2";
  m.weights_file = "net.safetensors";
  m.weights_bytes = 12;
  m.arena_bytes = 64;
  m.shared_bytes = 128;
  m.worker_bytes = 256;
  m.inputs = {{"x \"quoted\"\n", DType::kBF16, {1, 0, 3}}, {"scalar", DType::kBool, {}}};
  m.outputs = {{"y", DType::kI64, {7}}};
  m.steps = {{"conv+add", "Conv /a", 1e9}};
  return m;
}

TEST(Metadata, RoundTrip) {
  const auto back = metadata_from_json(to_json(sample()));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(sample()));
  EXPECT_EQ(back->inputs[0].name, sample().inputs[0].name);
  EXPECT_EQ(back->steps[0].flops, 1e9);
}

TEST(Metadata, VariantsRoundTrip) {
  Metadata m = sample();
  m.variants = {{"sapphirerapids", "spr ...", "3", {"avx2", "amx-tile"}, 64, 32, 16},
                {"x86-64-v3", "v3 ...", "4", {"avx2"}, 32, 0, 8}};
  const std::string text = to_json(m);
  const auto back = metadata_from_json(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_json(*back), text);
  ASSERT_EQ(back->variants.size(), 2u);
  EXPECT_EQ(back->variants[0].features, m.variants[0].features);
  EXPECT_EQ(back->variants[1].worker_bytes, 8);
  std::string broken = text;
  broken.replace(broken.find("sapphirerapids") - 9, 5, "\"nime");
  EXPECT_NE(metadata_from_json(broken).error().message.find("variants"), std::string::npos);
}

TEST(Metadata, EveryMissingFieldIsNamed) {
  const std::string text = to_json(sample());
  for (const char* key : {"abi", "name", "library", "features", "weights_bytes", "inputs",
                          "outputs", "steps", "triple"}) {
    std::string broken = text;
    broken.replace(broken.find(std::string("\"") + key + "\""), 2, "\"_");
    const auto read = metadata_from_json(broken);
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_NE(read.error().message.find(key), std::string::npos) << read.error().message;
  }
}

TEST(Metadata, OtherTextIsRefused) {
  for (const char* text : {"", "{}", "[1]", "null", "{\"format\": 1}", "{\"format\": \"other\"}"}) {
    EXPECT_FALSE(metadata_from_json(text).ok()) << text;
  }
}

TEST(Metadata, BadShapesAreRefused) {
  Metadata m = sample();
  m.inputs[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_FALSE(metadata_from_json(to_json(m)).ok());
  m.inputs[0].shape = {-1};
  EXPECT_FALSE(metadata_from_json(to_json(m)).ok());
}

TEST(Metadata, FoldersWithoutOrWithSeveral) {
  const std::string folder = fresh_folder();
  EXPECT_FALSE(is_artifact(folder));
  ASSERT_TRUE(write_file(folder + "/other.json", {"{}"}).ok());
  EXPECT_FALSE(is_artifact(folder));
  ASSERT_TRUE(write_file(folder + "/net.json", {to_json(sample())}).ok());
  EXPECT_TRUE(is_artifact(folder));
  ASSERT_TRUE(write_file(folder + "/more.json", {to_json(sample())}).ok());
  const auto several = read_metadata(folder);
  ASSERT_FALSE(several.ok());
  EXPECT_NE(several.error().message.find("more than one"), std::string::npos);
}

TEST(Elf, EveryCutAndFlipIsSurvived) {
  const std::string folder = fresh_folder();
  ASSERT_TRUE(
      write_file(folder + "/t.c",
                 {"__attribute__((section(\".tessera\"),used)) static const char t[]=\"hi\";"})
          .ok());
  const auto built = run_tool({"cc", "-c", "t.c", "-o", "t.o"}, folder);
  ASSERT_TRUE(built.ok()) << built.error().message;
  std::string bytes = *read_file(folder + "/t.o");
  const auto found = find_section(bytes, ".tessera");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, std::string_view("hi\0", 3));
  EXPECT_FALSE(find_section(bytes, ".absent").ok());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(find_section(std::string_view(bytes).substr(0, n), ".tessera").ok()) << n;
  }
  for (char& c : bytes) {
    c = static_cast<char>(~c);
    const auto any = find_section(bytes, ".tessera");
    EXPECT_TRUE(!any.ok() || any->size() <= bytes.size());
    c = static_cast<char>(~c);
  }
}

TEST(Elf, BrokenArchives) {
  EXPECT_FALSE(find_section("!<arch>\n", ".tessera").ok());
  EXPECT_FALSE(find_section("!<arch>\n" + std::string(60, 'x'), ".tessera").ok());
  const std::string header = "name/           0           0     0     644     99999999  `\n";
  ASSERT_EQ(header.size(), 60u);
  EXPECT_FALSE(find_section("!<arch>\n" + header + "abc", ".tessera").ok());
  EXPECT_FALSE(find_section("", ".tessera").ok());
}

}  // namespace
}  // namespace tessera::artifact
