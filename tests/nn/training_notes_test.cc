#include "tessera/nn/training_notes.h"

#include <gtest/gtest.h>

namespace tessera::nn {
namespace {

using Splits = std::vector<TrainingSplit>;

TEST(TrainingNotes, RememberEveryTrainingThatMadeTheWeights) {
  Notes first, second, third, again;
  note_training({"by-network", "tenset5"}, nullptr, &first);
  EXPECT_EQ(first, (Notes{{"split", "by-network"}, {"holdout", "tenset5"}}));
  note_training({"by-network", "a,b@size=8"}, &first, &second);
  EXPECT_EQ(trainings(second), (Splits{{"by-network", "a,b@size=8"}, {"by-network", "tenset5"}}));
  note_training({"by-task", ""}, &second, &third);
  EXPECT_EQ(trainings(third),
            (Splits{{"by-task", ""}, {"by-network", "a,b@size=8"}, {"by-network", "tenset5"}}));
  note_training({"by-network", "tenset5"}, &third, &again);
  EXPECT_EQ(trainings(again),
            (Splits{{"by-network", "tenset5"}, {"by-task", ""}, {"by-network", "a,b@size=8"}}));
}

TEST(TrainingNotes, SayWhatIsNotKnown) {
  EXPECT_EQ(trainings({}), Splits{});
  EXPECT_EQ(trainings({{"earlier_splits", " ;; ;"}}), Splits{});
  Notes tuned;
  const Notes silent = {{"loss", "rank"}};
  note_training({"by-task", ""}, &silent, &tuned);
  EXPECT_EQ(trainings(tuned), (Splits{{"by-task", ""}, {"unknown", ""}}));
}

TEST(TrainingNotes, OfSeveralNetworksKeepWhatIsCommonAndEveryTraining) {
  const Notes a = {{"loss", "rank"}, {"seed", "1"}, {"split", "by-network"}, {"holdout", "a"}};
  const Notes b = {{"loss", "rank"}, {"seed", "2"}, {"split", "by-task"}};
  const Notes both = notes_of_all({a, b});
  EXPECT_EQ(both.at("loss"), "rank");
  EXPECT_FALSE(both.contains("seed"));
  EXPECT_EQ(trainings(both), (Splits{{"by-task", ""}, {"by-network", "a"}}));
  EXPECT_EQ(trainings({{"split", "by_network"}, {"earlier_splits", "by_task; within_task"}}),
            (Splits{{"by-network", ""}, {"by-task", ""}, {"within-task", ""}}))
      << "as older files have it";
  EXPECT_EQ(trainings(notes_of_all({a, a})), (Splits{{"by-network", "a"}}));
  EXPECT_EQ(trainings(notes_of_all({a, {}})), (Splits{{"unknown", ""}, {"by-network", "a"}}));
  EXPECT_EQ(notes_of_all({{}, {}}), Notes{});
}

}  // namespace
}  // namespace tessera::nn
