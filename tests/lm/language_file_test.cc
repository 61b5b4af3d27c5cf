#include "tessera/learn/lm/language_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/nn/network_file.h"

namespace tessera::lm {
namespace {

TrainedLanguage small_model() {
  TrainedLanguage model;
  model.spec =
      make_language_spec({{"width", 8}, {"layers", 1}, {"heads", 2}, {"ffn", 8}}, 4, 3).value();
  model.weights = initial_weights(model.spec, 1).value();
  model.schema = "0123";
  model.notes = {{"recipe", "quality"}};
  return model;
}

std::string path_of(const char* name) { return ::testing::TempDir() + "tessera_language_" + name; }

TEST(LanguageFile, ComesBackAsItWas) {
  const TrainedLanguage model = small_model();
  const std::string path = path_of("whole");
  ASSERT_TRUE(save_language(model, WeightStorage::kF32, path).ok());
  const TrainedLanguage back = load_language(path).value();
  EXPECT_EQ(back.spec, model.spec);
  EXPECT_EQ(back.schema, model.schema);
  EXPECT_EQ(back.notes, model.notes);
  ASSERT_EQ(back.weights.size(), model.weights.size());
  for (const auto& [name, tensor] : model.weights) {
    EXPECT_EQ(std::memcmp(back.weights.at(name).data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST(LanguageFile, HalvesMatricesAndKeepsVectors) {
  const TrainedLanguage model = small_model();
  const std::string path = path_of("half"), full = path_of("full");
  ASSERT_TRUE(save_language(model, WeightStorage::kF16, path).ok());
  ASSERT_TRUE(save_language(model, WeightStorage::kF32, full).ok());
  EXPECT_LT(std::filesystem::file_size(path), std::filesystem::file_size(full));
  const TrainedLanguage back = load_language(path).value();
  for (const auto& [name, tensor] : model.weights) {
    const double least = tensor.shape().size() > 1 ? std::ldexp(1, -11) : 0;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      EXPECT_NEAR(back.weights.at(name).get_float(i), tensor.get_float(i),
                  least * std::abs(tensor.get_float(i)) + (least > 0 ? 1e-7 : 0))
          << name;
    }
  }
}

TEST(LanguageFile, RefusesWhatIsNotOne) {
  TrainedLanguage model = small_model();
  const std::string path = path_of("refused");
  const auto message = [&] {
    const auto loaded = load_language(path);
    return loaded.ok() ? std::string() : loaded.error().message;
  };
  std::filesystem::remove(path);
  EXPECT_FALSE(message().empty());
  ASSERT_TRUE(save_language(model, WeightStorage::kF32, path).ok());
  EXPECT_NE(nn::load_network(path).error().message.find("not a cost model of Tessera"),
            std::string::npos);
  model.weights.at("query.bias").as<float>()[0] = NAN;
  EXPECT_FALSE(save_language(model, WeightStorage::kF32, path).ok());
  model = small_model();
  model.weights.at("query.weight").as<float>()[0] = 1e6f;
  const auto large = save_language(model, WeightStorage::kF16, path);
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("f16 cannot hold weight query.weight"), std::string::npos);
  model = small_model();
  model.weights.erase("query.bias");
  EXPECT_FALSE(save_language(model, WeightStorage::kF32, path).ok());
}

}  // namespace
}  // namespace tessera::lm
