#include "tessera/nn/training_notes.h"

#include <gtest/gtest.h>

namespace tessera::nn {
namespace {

using Splits = std::vector<TrainingSplit>;

TEST(TrainingNotes, RememberEveryTrainingThatMadeTheWeights) {
  Notes first, second, third, again;
  note_training({"by_network", "tenset5"}, nullptr, &first);
  EXPECT_EQ(first, (Notes{{"split", "by_network"}, {"holdout", "tenset5"}}));
  note_training({"by_network", "a,b@size=8"}, &first, &second);
  EXPECT_EQ(trainings(second), (Splits{{"by_network", "a,b@size=8"}, {"by_network", "tenset5"}}));
  note_training({"by_task", ""}, &second, &third);
  EXPECT_EQ(trainings(third),
            (Splits{{"by_task", ""}, {"by_network", "a,b@size=8"}, {"by_network", "tenset5"}}));
  note_training({"by_network", "tenset5"}, &third, &again);
  EXPECT_EQ(trainings(again),
            (Splits{{"by_network", "tenset5"}, {"by_task", ""}, {"by_network", "a,b@size=8"}}));
}

TEST(TrainingNotes, SayWhatIsNotKnown) {
  EXPECT_EQ(trainings({}), Splits{});
  EXPECT_EQ(trainings({{"earlier_splits", " ;; ;"}}), Splits{});
  Notes tuned;
  const Notes silent = {{"loss", "rank"}};
  note_training({"by_task", ""}, &silent, &tuned);
  EXPECT_EQ(trainings(tuned), (Splits{{"by_task", ""}, {"unknown", ""}}));
}

TEST(TrainingNotes, OfSeveralNetworksKeepWhatIsCommonAndEveryTraining) {
  const Notes a = {{"loss", "rank"}, {"seed", "1"}, {"split", "by_network"}, {"holdout", "a"}};
  const Notes b = {{"loss", "rank"}, {"seed", "2"}, {"split", "by_task"}};
  const Notes both = notes_of_all({a, b});
  EXPECT_EQ(both.at("loss"), "rank");
  EXPECT_FALSE(both.contains("seed"));
  EXPECT_EQ(trainings(both), (Splits{{"by_task", ""}, {"by_network", "a"}}));
  EXPECT_EQ(trainings(notes_of_all({a, a})), (Splits{{"by_network", "a"}}));
  EXPECT_EQ(trainings(notes_of_all({a, {}})), (Splits{{"unknown", ""}, {"by_network", "a"}}));
  EXPECT_EQ(notes_of_all({{}, {}}), Notes{});
}

}  // namespace
}  // namespace tessera::nn
