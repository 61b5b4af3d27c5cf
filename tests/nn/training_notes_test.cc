#include "tessera/learn/nn/training_notes.h"

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

TEST(TrainingNotes, RememberHowTheSplitWasDrawn) {
  Notes first, second;
  note_training({"by-network", "tenset5", "by-reduction=yes,seed=1"}, nullptr, &first);
  EXPECT_EQ(first.at("split_how"), "by-reduction=yes,seed=1");
  note_training({"by-task", "", "seed=2"}, &first, &second);
  EXPECT_EQ(trainings(second), (Splits{{"by-task", "", "seed=2"},
                                       {"by-network", "tenset5", "by-reduction=yes,seed=1"}}));
}

TEST(TrainingNotes, ListTasksThatWereSeen) {
  EXPECT_FALSE(training_tasks({}).has_value());
  Notes first;
  note_tasks({"a", "b"}, {"c"}, &first);
  const TrainingTasks tasks = training_tasks(first).value();
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(tasks.saw(key)) << key;
  EXPECT_FALSE(tasks.saw("d"));
  EXPECT_TRUE(tasks.validated("c"));
  EXPECT_FALSE(tasks.validated("a"));
  note_training({"by-task"}, nullptr, &first);
  // A second training adds its own; what it learns from no longer validates.
  Notes second;
  note_tasks({"c"}, {}, &second);
  EXPECT_EQ(second.at("validation_tasks"), "none");
  note_training({"by-task"}, &first, &second);
  const TrainingTasks both = training_tasks(second).value();
  EXPECT_TRUE(both.saw("a") && both.saw("c"));
  EXPECT_FALSE(both.validated("c"));
  // What began with weights that do not tell does not tell either.
  Notes third;
  note_tasks({"c"}, {}, &third);
  const Notes silent = {{"split", "by-task"}};
  note_training({"by-task"}, &silent, &third);
  EXPECT_FALSE(training_tasks(third).has_value());
  for (const char* bad : {"abc", "0123456G"}) {
    EXPECT_FALSE(training_tasks({{"training_tasks", bad}, {"validation_tasks", "none"}}));
  }
  // Of several that judge together what any has seen.
  EXPECT_TRUE(training_tasks(notes_of_all({first, second}))->saw("b"));
  EXPECT_FALSE(training_tasks(notes_of_all({first, silent})).has_value());
}

TEST(TrainingNotes, CountKinds) {
  const KindCounts kinds = {
      {"m 1 f32 a", 3}, {"m 1 f32 b.c", 40}, {"m 2 f32 a", 1}, {"n 1 f32+i8 a", 5}};
  Notes notes;
  note_kinds(kinds, &notes);
  EXPECT_EQ(notes.at("kinds"), "m 1 f32 a=3,b.c=40; m 2 f32 a=1; n 1 f32+i8 a=5");
  EXPECT_EQ(kinds_of(notes), kinds);
  EXPECT_TRUE(kinds_of({}).empty());
  for (const char* bad : {"m 1 f32 a", "m", "m 1 f32 a=x", "m 1 f32 a=-1", "m 1 f32 a=3,b"}) {
    EXPECT_TRUE(kinds_of({{"kinds", bad}}).empty()) << bad;
  }
  note_training({"by-task"}, nullptr, &notes);
  Notes more;
  note_kinds({{"m 1 f32 a", 2}}, &more);
  note_training({"by-task"}, &notes, &more);
  EXPECT_EQ(kinds_of(more).at("m 1 f32 a"), 5);
  EXPECT_EQ(kinds_of(more).size(), 4u);
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
