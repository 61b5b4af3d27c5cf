#include "tessera/support/safetensors.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tessera/support/json_depth.h"
#include "tessera/support/safetensors_index.h"
#include "tests/testing/testing.h"

namespace tessera {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  return out + header + data;
}

std::string temp_file(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / ("safetensors_" + name)).string();
}

NamedTensors sample() {
  Rng rng(3);
  return {{"a", random_tensor(DType::kF32, {3, 5}, rng)},
          {"b.weight", random_tensor(DType::kBF16, {7}, rng)},
          {"empty", HostTensor(DType::kI8, {0, 4})},
          {"c", random_tensor(DType::kBool, {}, rng)},
          {"d", random_tensor(DType::kI64, {2, 2}, rng)}};
}

TEST(Safetensors, RoundTrip) {
  const NamedTensors want = sample();
  const std::string path = temp_file("round_trip");
  const auto written = write_safetensors(path, want, {{"format", "pt"}});
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto got = read_safetensors(path);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->metadata.at("format"), "pt");
  std::size_t next = 0;
  for (const NamedTensor& t : got->tensors) {
    if (t.name.starts_with("_pad.")) continue;
    ASSERT_LT(next, want.size());
    EXPECT_EQ(t.name, want[next].name);
    EXPECT_EQ(testing::mismatch(t.tensor, want[next].tensor, 0), "") << t.name;
    ++next;
  }
  EXPECT_EQ(next, want.size());
}

TEST(Safetensors, AlignedFromTheStartOfTheFile) {
  const NamedTensors tensors = sample();
  const auto layout = lay_out_safetensors(tensors, {}, 64);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->header.size() % 64, 0u);
  for (const std::uint64_t offset : layout->offsets) EXPECT_EQ(offset % 64, 0u);
  const std::string path = temp_file("aligned");
  ASSERT_TRUE(write_safetensors(path, tensors, {}, 64).ok());
  const std::string bytes = *read_file(path);
  EXPECT_EQ(bytes.size(), layout->bytes);
  EXPECT_EQ(bytes.substr(layout->offsets[4], 32),
            std::string(tensors[4].tensor.as<char>(), tensors[4].tensor.bytes()));
  EXPECT_TRUE(parse_safetensors(bytes).ok());
}

TEST(Safetensors, NoTensors) {
  const auto got = parse_safetensors(file_of("{}", ""));
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_TRUE(got->tensors.empty());
}

TEST(Safetensors, NamesMustDiffer) {
  const HostTensor t(DType::kF32, {1});
  EXPECT_FALSE(lay_out_safetensors({{"x", t}, {"x", t}}, {}).ok());
  const auto taken = lay_out_safetensors({{"a", t}, {"_pad.0", t}}, {}, 64);
  ASSERT_TRUE(taken.ok());
  EXPECT_NE(taken->header.find("_pad.1"), std::string::npos);
  EXPECT_FALSE(lay_out_safetensors({{"__metadata__", t}}, {}).ok());
}

struct Bad {
  const char* header;
  const char* said;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

TEST(Safetensors, BadHeaders) {
  const Bad cases[] = {
      {"[]", "not a JSON object"},
      {"{", "not a JSON object"},
      {R"({"x": 1})", "are needed"},
      {R"({"x": {"dtype": "F32", "shape": [1]}})", "are needed"},
      {R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", "are needed"},
      {R"({"x": {"dtype": "F8_E8M0", "shape": [4], "data_offsets": [0, 4]}})", "F8_E8M0",
       ErrorCode::kUnsupported},
      {R"({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "bad shape"},
      {R"({"x": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", "bad shape"},
      {R"({"x": {"dtype": "F32", "shape": [9223372036854775807, 3], "data_offsets": [0, 4]}})",
       "bad shape"},
      {R"({"x": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 4]}})",
       "too large"},
      {R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "offsets 4 to 0"},
      {R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "offsets 0 to 4"},
      {R"({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})", "4 bytes of data"},
      {R"({"x": {"dtype": "U8", "shape": [3], "data_offsets": [1, 4]}})", "starts at byte 1"},
      {R"({"x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
           "y": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
       "y starts at byte 2"},
      {R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "8 described"},
      {R"({"__metadata__": {"a": 1}})", "not a string"},
  };
  for (const Bad& c : cases) {
    const auto got = parse_safetensors(file_of(c.header, std::string(4, '\0')));
    ASSERT_FALSE(got.ok()) << c.header;
    EXPECT_EQ(got.error().code, c.code) << c.header;
    EXPECT_NE(got.error().message.find(c.said), std::string::npos) << got.error().message;
  }
}

TEST(Safetensors, DeepHeadersAreNotRead) {
  const auto got = index_safetensors(file_of(std::string(1 << 20, '['), ""));
  EXPECT_EQ(got.error().message, "safetensors: the header is nested more than 4 deep");
  EXPECT_FALSE(is_deeper_than(R"({"[[[[\\\"[[[[": [1, [2]]})", 3));
  EXPECT_TRUE(is_deeper_than(R"({"a": [1, [2]]})", 2));
}

TEST(Safetensors, AnIndexLeavesTheBytesWhereTheyAre) {
  const std::string bytes = file_of(R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                    R"("x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})",
                                    "abc");
  const auto got = index_safetensors(bytes);
  ASSERT_TRUE(got.ok()) << got.error().message;
  ASSERT_EQ(got->tensors.size(), 2U);
  EXPECT_EQ(got->tensors[0].name, "x");
  EXPECT_EQ(got->tensors[0].bytes.data(), bytes.data() + bytes.size() - 3);
  EXPECT_EQ(got->tensors[1].bytes, "c");
}

TEST(Safetensors, LengthBeyondTheFile) {
  EXPECT_FALSE(parse_safetensors("").ok());
  EXPECT_FALSE(parse_safetensors("\xff\xff\xff\xff\xff\xff\xff\xff{}").ok());
  const std::string whole =
      file_of(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
  ASSERT_TRUE(parse_safetensors(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(parse_safetensors(std::string_view(whole).substr(0, n)).ok()) << n;
  }
}

}  // namespace
}  // namespace tessera
