#include "tessera/learn/nn/network_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "candidates.h"
#include "tessera/support/files.h"
#include "tessera/support/safetensors.h"

namespace tessera::nn {
namespace {

std::string temporary() {
  return ::testing::TempDir() + "nn_" +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
}

TrainedNetwork trained(std::int64_t context = 3) {
  TrainedNetwork n;
  n.spec = small_spec("mlp", {{"hidden", 3}}, context);
  n.weights = fresh_weights(n.spec, 5);
  n.rows = {std::vector<float>(6, 0.5f), std::vector<float>(6, 2.f)};
  const auto size = static_cast<std::size_t>(context);
  n.context = {std::vector<float>(size, -1.f), std::vector<float>(size, 0.f)};
  n.row_schema = "00ff";
  n.context_schema = "ee11";
  n.time_shift = -13.1;
  n.residual_low = -0.3;
  n.residual_mid = 1.0 / 3;
  n.residual_high = 1e-300;
  n.notes = {{"loss", "lambdarank"}, {"targets", "x86-64 \"fast\" \u00e9"}};
  return n;
}

bool same(const TrainedNetwork& a, const TrainedNetwork& b) {
  const auto equal = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  };
  return a.spec == b.spec && a.rows.shift == b.rows.shift && a.rows.scale == b.rows.scale &&
         a.context.shift == b.context.shift && a.context.scale == b.context.scale &&
         a.row_schema == b.row_schema && a.context_schema == b.context_schema &&
         a.time_shift == b.time_shift && a.residual_low == b.residual_low &&
         a.residual_mid == b.residual_mid && a.residual_high == b.residual_high &&
         a.notes == b.notes && a.weights.size() == b.weights.size() &&
         std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(), equal);
}

std::string saved(const TrainedNetwork& network, const std::string& path) {
  const auto written = save_network(network, path);
  EXPECT_TRUE(written.ok()) << written.error().message;
  return *read_file(path);
}

void expect_refused(const std::string& path, ErrorCode code, const std::string& message) {
  const auto loaded = load_network(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(path), std::string::npos) << loaded.error().message;
}

TEST(NetworkFile, ComesBackAsItWas) {
  for (const std::int64_t context : {3, 0}) {
    const TrainedNetwork network = trained(context);
    const std::string path = temporary();
    saved(network, path);
    const auto loaded = load_network(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_TRUE(same(*loaded, network));
  }
}

TEST(NetworkFile, IsTheSameForTheSameNetwork) {
  const std::string path = temporary();
  EXPECT_EQ(saved(trained(), path), saved(trained(), path));
}

// Bits that mean nothing, such as the kind of white space in the header, may change.
TEST(NetworkFile, IsRefusedOrUnchangedAfterAFlip) {
  const TrainedNetwork network = trained();
  const std::string path = temporary(), bytes = saved(network, path);
  std::size_t refused = 0, flips = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 3, ++flips) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ (1 << (i % 8)));
    std::ofstream(path, std::ios::binary) << other;  // write_file would wait for the disk each time
    const auto loaded = load_network(path);
    if (loaded.ok()) {
      EXPECT_TRUE(same(*loaded, network)) << "byte " << i;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused + 20, flips);
}

TEST(NetworkFile, IsRefusedWhenCut) {
  const std::string path = temporary(), bytes = saved(trained(), path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    ASSERT_TRUE(write_file(path, {std::string_view(bytes).substr(0, size)}).ok());
    expect_refused(path, ErrorCode::kIo, "safetensors");
  }
  ASSERT_TRUE(write_file(path, {bytes, "x"}).ok());
  expect_refused(path, ErrorCode::kIo, "safetensors");
}

TEST(NetworkFile, IsRefusedWhenItIsSomethingElse) {
  const std::string path = temporary();
  expect_refused(path + ".absent", ErrorCode::kIo, "absent");
  ASSERT_TRUE(write_file(path, {"{\"loss\": 3}, and more text"}).ok());
  expect_refused(path, ErrorCode::kIo, "safetensors");
  ASSERT_TRUE(write_safetensors(path, {{"w", HostTensor(DType::kF32, {2})}}).ok());
  expect_refused(path, ErrorCode::kInvalidArgument, "not a cost model of Tessera");
}

// Rewrites a field of the file and leaves the checksum as it was.
void rewrite(const std::string& path, const std::function<void(Safetensors&)>& change) {
  auto file = read_safetensors(path);
  ASSERT_TRUE(file.ok());
  std::erase_if(file->tensors, [](const NamedTensor& t) { return t.name.starts_with("_pad."); });
  change(*file);
  ASSERT_TRUE(write_safetensors(path, file->tensors, file->metadata).ok());
}

TEST(NetworkFile, NamesWhatDoesNotFit) {
  const std::string path = temporary();
  saved(trained(), path);
  rewrite(path, [](Safetensors& f) { f.metadata["version"] = "2"; });
  expect_refused(path, ErrorCode::kInvalidArgument, "version 2");
  saved(trained(), path);
  rewrite(path, [](Safetensors& f) { f.metadata["hyper.hidden"] = "4"; });
  expect_refused(path, ErrorCode::kIo, "checksum");
  saved(trained(), path);
  rewrite(path, [](Safetensors& f) { f.tensors[0].tensor.as<float>()[0] += 1; });
  expect_refused(path, ErrorCode::kIo, "checksum");
  saved(trained(), path);
  rewrite(path, [](Safetensors& f) { f.metadata.erase("checksum"); });
  expect_refused(path, ErrorCode::kIo, "checksum is missing");
}

struct Defect {
  const char* name;
  void (*make)(TrainedNetwork& network);
  const char* message;
};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Defect kDefects[] = {
    {"nan", [](TrainedNetwork& n) { n.weights["head.0.bias"].as<float>()[1] = kNan; },
     "weight head.0.bias has values that are not finite"},
    {"shape", [](TrainedNetwork& n) { n.weights["head.0.bias"] = HostTensor(DType::kF32, {4}); },
     "weight head.0.bias is f32 4, network mlp needs f32 3"},
    {"type", [](TrainedNetwork& n) { n.weights["head.0.bias"] = HostTensor(DType::kF64, {3}); },
     "is f64 3"},
    {"missing", [](TrainedNetwork& n) { n.weights.erase("head.0.bias"); },
     "weight head.0.bias of network mlp is missing"},
    {"extra", [](TrainedNetwork& n) { n.weights["more"] = HostTensor(DType::kF32, {1}); },
     "network mlp has no weight more"},
    {"network", [](TrainedNetwork& n) { n.spec.network = "elm"; }, "unknown network 'elm'"},
    {"hyper", [](TrainedNetwork& n) { n.spec.hyper["hidden"] = -3; }, "hidden=-3 is outside"},
    {"normalizer", [](TrainedNetwork& n) { n.rows.shift.pop_back(); },
     "normalizer.rows.shift has 5 values for 6 columns"},
    {"infinite", [](TrainedNetwork& n) { n.context.scale[0] = -INFINITY; },
     "normalizer.context.scale has values"},
    {"number", [](TrainedNetwork& n) { n.time_shift = kNan; }, "time_shift is not finite"},
    {"text", [](TrainedNetwork& n) { n.notes["seed"] = "\xff"; }, "not UTF-8"},
};

class Defective : public ::testing::TestWithParam<Defect> {};

TEST_P(Defective, IsNotSaved) {
  TrainedNetwork network = trained();
  GetParam().make(network);
  const std::string path = ::testing::TempDir() + "nn_" + GetParam().name + ".safetensors";
  const auto written = save_network(network, path);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(written.error().message.find(GetParam().message), std::string::npos)
      << written.error().message;
  EXPECT_FALSE(read_file(path).ok());
}

INSTANTIATE_TEST_SUITE_P(NetworkFile, Defective, ::testing::ValuesIn(kDefects),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tessera::nn
