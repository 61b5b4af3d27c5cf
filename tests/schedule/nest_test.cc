#include "tessera/scheduling/schedule/nest.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/scheduling/schedule/iter_map.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/scheduling/schedule/storage.h"

namespace tessera::schedule {
namespace {

// Q reads P, Y reads both.
te::Dag two_readers() {
  te::DagBuilder b("two");
  const ir::Buffer x = b.input("X", DType::kI32, {20});
  const ir::Buffer p =
      b.compute("P", {{"i", 20}}, [&](const te::Indices& i) { return te::at(x, i) + 1; });
  const ir::Buffer q =
      b.compute("Q", {{"i", 16}}, [&](const te::Indices& i) { return te::at(p, {i[0] + 1}); });
  return b.build({b.compute("Y", {{"i", 16}}, [&](const te::Indices& i) {
    return te::at(p, {i[0] + 4}) * te::at(q, i);
  })});
}

State apply_text(const std::string& text) {
  return apply(two_readers(), schedule_from_text(text).value()).value();
}

// "Y.i.0 Q.i", with * where threads run together.
std::string names(const std::vector<NestLoop>& loops) {
  std::string out;
  for (const NestLoop& l : loops) {
    out += (out.empty() ? "" : " ") + l.stage->name() + "." + l.it().name;
    out += l.together ? "*" : "";
  }
  return out;
}

std::string around(const State& state, const char* stage) {
  return names(loops_around(state, *state.find(stage)));
}

std::string visit(const State& state, const char* stage, const char* reader) {
  const auto loops = loops_of_visit(state, *state.find(stage), *state.find(reader));
  return loops.ok() ? names(*loops) : loops.error().message;
}

TEST(Nest, StagesAreInTheLoopsDownToWhereTheyAreAttached) {
  const State state = apply_text("split Y i 4\ncompute_at Q Y i.1\ncompute_at P Y i.0\n");
  EXPECT_EQ(stage_around(state, *state.find("Y")), nullptr);
  EXPECT_EQ(stage_around(state, *state.find("Q")), state.find("Y"));
  EXPECT_EQ(around(state, "Y"), "");
  EXPECT_EQ(around(state, "Q"), "Y.i.0 Y.i.1");
  EXPECT_EQ(around(state, "P"), "Y.i.0");
  EXPECT_EQ(visit(state, "P", "Y"), "Y.i.1");
  EXPECT_EQ(visit(state, "P", "Q"), "Y.i.1 Q.i");
  EXPECT_EQ(visit(state, "Q", "Y"), "");
}

TEST(Nest, OfStagesInAttachedStages) {
  const State state = apply_text("split Q i 2\ncompute_at Q Y i\ncompute_at P Q i.0\n");
  EXPECT_EQ(around(state, "P"), "Y.i Q.i.0");
  EXPECT_EQ(visit(state, "P", "Q"), "Q.i.1");
  EXPECT_EQ(visit(state, "P", "Y"), "stage P is computed at loop i.0 of Q, but Y uses it outside");
}

TEST(Nest, ReadersOutsideAreRefused) {
  EXPECT_EQ(visit(apply_text("split Y i 4\ncompute_at P Y i.0\n"), "P", "Q"),
            "stage P is computed at loop i.0 of Y, but Q uses it outside");
  EXPECT_EQ(visit(apply_text("split Y i 4\ncompute_at Q Y i.0\ncompute_at P Y i.1\n"), "P", "Q"),
            "stage P is computed at loop i.1 of Y, but Q uses it outside");
}

// What threads share is read by all of them, and so is what it is computed from.
TEST(Nest, ThreadsComputeWhatTheyShareTogether) {
  const State state = apply_text(
      "cache_read Q shared Y\nsplit Y i 2 4\nannotate Y i.0 blockIdx.x\n"
      "annotate Y i.1 threadIdx.x\ncompute_at Q.shared Y i.1\ncompute_at Q Q.shared d0\n");
  EXPECT_EQ(around(state, "Q.shared"), "Y.i.0 Y.i.1*");
  EXPECT_EQ(around(state, "Q"), "Y.i.0 Y.i.1* Q.shared.d0");
  EXPECT_EQ(visit(state, "Q.shared", "Y"), "Y.i.2 Y.i.1*");
  EXPECT_EQ(visit(state, "Q", "Q.shared"), "Y.i.1*");
}

TEST(Nest, StorageHasRoomForPaddedSplitsOnly) {
  const auto stored = [](const char* text) {
    const State state = apply_text(text);
    const Stage& q = *state.find("Q");
    return stored_extents(q, iter_extents(q, {16})).at(0);
  };
  EXPECT_EQ(stored("split Q i 5\n"), 16);
  EXPECT_EQ(stored("split Q i 5 tail=pad\n"), 20);
  EXPECT_EQ(stored("split Q i 5 tail=pad\nsplit Q i.1 3 tail=pad\n"), 20);
}

}  // namespace
}  // namespace tessera::schedule
