// Learned choices of the whole zoo, in every type: none outside of the data that ships.
#include <gtest/gtest.h>

#include "tessera/app/study/eval.h"
#include "tessera/learn/dataset/training.h"
#include "tests/app/choice_case.h"
#include "tests/zoo/typed_models.h"

namespace tessera::app {
namespace {

// Kinds of all records that ship, whoever learnt from them.
const std::map<std::string, std::int64_t>& measured_kinds() {
  static const auto kinds = [] {
    std::map<std::string, std::int64_t> out;
    for (const char* part : {"", "/h200", "/in-networks"}) {
      const auto data = dataset::load(data_folder() + part);
      EXPECT_TRUE(data.ok()) << part;
      if (!data.ok()) continue;
      dataset::Split all;
      all.part.assign(data->examples.size(), dataset::kTrain);
      for (const auto& [kind, count] : dataset::kinds_of(*data, all)) out[kind] += count;
    }
    return out;
  }();
  return kinds;
}

class LearnedChoiceOfTheZoo : public ::testing::TestWithParam<std::string> {
 protected:
  static void expect_measured(const std::string& spec, const char* machine, DType floats,
                              const std::string& language = kNoModel) {
    const Choice choice = choice_of(spec, target::find_target(machine).value(), floats, language);
    for (const std::string& kind : choice.kinds) {
      EXPECT_GE(measured_kinds().contains(kind) ? measured_kinds().at(kind) : 0, kLeastExamples)
          << spec << " on " << machine << ": " << kind;
    }
    for (const std::string& types : choice.types) {
      EXPECT_EQ(types.find("i8"), std::string::npos) << spec;
      EXPECT_EQ(types.find("u8"), std::string::npos) << spec;
    }
    ::testing::Test::RecordProperty(std::string(machine) + "_changed",
                                    static_cast<int>(choice.changed));
    fmt::print("{} {} {}: {} of {} changed\n", spec, machine, to_text(floats), choice.changed,
               choice.tasks);
  }
};

TEST_P(LearnedChoiceOfTheZoo, IsAmongWhatWasMeasured) {
  for (const DType floats : {DType::kF32, DType::kF16, DType::kBF16}) {
    expect_measured(GetParam(), "sapphirerapids", floats);
  }
  expect_measured(GetParam(), "sapphirerapids", DType::kF32, kShipped);
  expect_measured(GetParam(), "h200", DType::kF32);
  expect_measured(GetParam(), "neoverse-v1", DType::kF32);
}

INSTANTIATE_TEST_SUITE_P(Zoo, LearnedChoiceOfTheZoo, ::testing::ValuesIn(zoo::typed_models()));

}  // namespace
}  // namespace tessera::app
