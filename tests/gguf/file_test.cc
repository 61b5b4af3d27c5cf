#include "tessera/frontend/gguf/file.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tessera/support/temporary_folder.h"
#include "tests/gguf/gguf_writer.h"

namespace tessera::gguf {
namespace {

using testing::Bytes;
using testing::Writer;

Result<File> parse(const std::string& bytes) {
  const auto kept = std::make_shared<const std::string>(bytes);
  return File::parse(*kept, kept, "m.gguf");
}

std::string error_of(const Writer& writer) {
  const Result<File> file = parse(writer.str());
  EXPECT_FALSE(file.ok());
  return file.ok() ? "" : file.error().message;
}

Writer sound() {
  Writer w;
  w.text("general.architecture", "llama").integer("llama.block_count", 2);
  w.number("llama.eps", .5F).flag("yes", true).texts("tokens", {"a", "bc"});
  w.entry("longs", 9,
          Bytes()
              .add<std::uint32_t>(11)
              .add<std::uint64_t>(2)
              .add<std::int64_t>(-3)
              .add<std::int64_t>(4)
              .str());
  w.entry("scores", 9, Bytes().add<std::uint32_t>(6).add<std::uint64_t>(1).add(.25F).str());
  w.entry("deep", 9,
          Bytes()
              .add<std::uint32_t>(9)
              .add<std::uint64_t>(1)
              .add<std::uint32_t>(7)
              .add<std::uint64_t>(1)
              .add<std::uint8_t>(1)
              .str());
  w.floats("v", {3}, {1, 2, 3}).floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  return w;
}

TEST(File, GivesMetadataOfEveryKind) {
  const auto file = parse(sound().str());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 3);
  EXPECT_EQ(*file->text("general.architecture"), "llama");
  EXPECT_EQ(*file->integer("llama.block_count"), 2);
  EXPECT_EQ(*file->number("llama.block_count"), 2);
  EXPECT_EQ(*file->number("llama.eps"), .5);
  EXPECT_TRUE(*file->flag("yes"));
  EXPECT_EQ((*file->texts("tokens"))[1], "bc");
  EXPECT_EQ((*file->integers("longs"))[0], -3);
  EXPECT_EQ((*file->numbers("scores"))[0], .25);
  const auto& deep = std::get<std::vector<Value>>(file->metadata().at("deep").value);
  EXPECT_TRUE(std::get<std::vector<bool>>(deep.at(0).value)[0]);
}

TEST(File, SaysWhatIsMissingOrOfAnotherKind) {
  const auto file = parse(sound().str());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->integer("rope").error().message, "m.gguf: there is no 'rope'");
  EXPECT_EQ(file->integer("rope", 7).value(), 7);
  EXPECT_EQ(file->text("yes").error().message, "m.gguf: 'yes' is not a text");
  EXPECT_EQ(file->text("yes", "no").error().message, "m.gguf: 'yes' is not a text");
  EXPECT_EQ(file->number("tokens", 1).error().message, "m.gguf: 'tokens' is not a number");
}

TEST(File, GivesTensorsInRowMajorOrder) {
  const auto file = parse(sound().str());
  ASSERT_TRUE(file.ok());
  const Tensor* w = file->find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (Shape{2, 3}));
  const auto values = widened(*w);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->get_float(5), 6);
  EXPECT_EQ(file->find_tensor("x"), nullptr);
}

TEST(File, IsMappedFromDisk) {
  const TemporaryFolder folder = TemporaryFolder::make("gguf").value();
  const std::string path = folder.path() + "/m.gguf";
  std::ofstream(path, std::ios::binary) << sound().str();
  const auto file = File::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(File::open(folder.path() + "/none").error().code, ErrorCode::kIo);
}

TEST(File, RefusesEveryPartOfAFile) {
  const std::string whole = sound().str();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = parse(whole.substr(0, size));
    EXPECT_FALSE(file.ok()) << size;
    if (file.ok()) continue;
    EXPECT_TRUE(file.error().message.starts_with("m.gguf: ")) << file.error().message;
  }
}

TEST(File, RefusesOtherVersions) {
  Writer w;
  w.version = 1;
  EXPECT_EQ(error_of(w), "m.gguf: GGUF version 1");
  w.version = 3U << 24;
  EXPECT_EQ(error_of(w), "m.gguf: GGUF version 50331648, of the other order of bytes");
  EXPECT_EQ(parse("PK").error().message, "m.gguf: not a GGUF file");
}

TEST(File, RefusesBrokenMetadata) {
  const auto with = [](std::uint32_t type, const Bytes& payload) {
    return error_of(Writer().entry("k", type, payload.str()));
  };
  EXPECT_EQ(with(13, {}), "m.gguf: 'k': no value type has the number 13");
  EXPECT_EQ(with(7, Bytes().add<std::uint8_t>(2)), "m.gguf: 'k': 2 is not a bool");
  EXPECT_EQ(with(10, Bytes().add<std::uint64_t>(~0ULL)),
            "m.gguf: 'k': 18446744073709551615 is too large");
  EXPECT_EQ(with(9, Bytes().add<std::uint32_t>(8).add<std::uint64_t>(1ULL << 61)),
            "m.gguf: 'k': an array of 2305843009213693952 elements in 15 bytes");
  EXPECT_EQ(with(9, Bytes().add<std::uint32_t>(99).add<std::uint64_t>(0)),
            "m.gguf: 'k': no value type has the number 99");
  Bytes nested;
  for (int depth = 0; depth < 6; ++depth) nested.add<std::uint32_t>(9).add<std::uint64_t>(1);
  EXPECT_EQ(with(9, nested), "m.gguf: 'k': arrays nested more than 4 deep");
  // Each byte would become eight.
  const std::uint64_t many = (std::uint64_t{1} << 22) + 1;
  const std::string bytes =
      Bytes().add<std::uint32_t>(0).add(many).raw(std::string(many, 'b')).str();
  EXPECT_TRUE(parse(Writer().entry("k", 9, bytes).str()).ok());
  EXPECT_EQ(error_of(Writer().entry("k", 9, bytes).entry("l", 9, bytes)),
            "m.gguf: 'l': metadata of more than 8388608 elements");
  EXPECT_EQ(error_of(Writer().integer("k", 1).integer("k", 2)),
            "m.gguf: the key 'k' is there twice");
  EXPECT_EQ(error_of(Writer().integer("general.alignment", 24)),
            "m.gguf: 'general.alignment': 24 is not a power of two up to a million");
  EXPECT_EQ(error_of(Writer().text("general.alignment", "a")),
            "m.gguf: 'general.alignment' is not an integer");
}

TEST(File, RefusesBrokenTables) {
  const std::string four(4, '\0');
  EXPECT_EQ(error_of(Writer().tensor("t", {1, 1, 1, 1, 1}, 0, four)),
            "m.gguf: tensor 't': 5 dimensions, 4 at most");
  EXPECT_EQ(error_of(Writer().tensor("t", {-1}, 0, four)),
            "m.gguf: tensor 't': a dimension of 18446744073709551615");
  EXPECT_EQ(error_of(Writer().tensor("t", {1}, 77, four)),
            "m.gguf: tensor 't': no element type has the number 77");
  EXPECT_EQ(error_of(Writer().tensor("t", {3, 48}, 2, four)),
            "m.gguf: tensor 't': rows of 48 in Q4_0 blocks of 32");
  EXPECT_NE(error_of(Writer().tensor("t", {1LL << 40, 1LL << 40}, 0, four)).find("tensor 't'"),
            std::string::npos);
  EXPECT_EQ(error_of(Writer().tensor("t", {9}, 0, four)), "m.gguf: tensor 't': bytes 0 to 36 of 4");
  EXPECT_EQ(error_of(Writer().tensor_at("t", {1}, 0, 3).raw_data(four)),
            "m.gguf: tensor 't' starts at 3, no multiple of 32");
  EXPECT_EQ(error_of(Writer().tensor("t", {1}, 0, four).tensor_at("u", {1}, 0, 0)),
            "m.gguf: tensor 'u' overlaps another");
  EXPECT_EQ(error_of(Writer().tensor("t", {1}, 0, four).tensor("t", {1}, 0, four)),
            "m.gguf: tensor 't' is there twice");
  Writer many;
  many.tensors = 1ULL << 60;
  EXPECT_EQ(error_of(many), "m.gguf: 1152921504606846976 tensors in 8 bytes");
}

TEST(File, KeepsTensorsOfOtherTypesUnread) {
  const auto file = parse(Writer().tensor("t", {256}, 10, std::string(84, 'x')).str());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(widened(*file->find_tensor("t")).error().message,
            "tensor 't' has elements of type Q2_K");
}

}  // namespace
}  // namespace tessera::gguf
