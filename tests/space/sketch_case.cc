#include "tests/space/sketch_case.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tessera/scheduling/decide/walk.h"
#include "tessera/scheduling/lower/lower.h"
#include "tests/fuzz/check_case.h"
#include "tests/space/space_case.h"
#include "tests/testing/testing.h"

namespace tessera::space {
namespace {

void expect_well_formed(const Sketch& sketch) {
  std::set<std::string> names;
  for (const Point& d : sketch.points()) {
    EXPECT_TRUE(names.insert(d.name).second) << sketch.name() << " has two decisions " << d.name;
    ASSERT_FALSE(d.values.empty()) << d.name;
    EXPECT_TRUE(d.labels.empty() || d.labels.size() == d.values.size()) << d.name;
    EXPECT_GE(d.preferred, 0) << d.name;
    EXPECT_LT(d.preferred, static_cast<std::int32_t>(d.values.size())) << d.name;
    for (const auto& v : d.values) EXPECT_EQ(v.size(), d.values[0].size()) << d.name;
    std::set<std::vector<std::int64_t>> distinct(d.values.begin(), d.values.end());
    EXPECT_EQ(distinct.size(), d.values.size()) << d.name << " lists a value twice";
  }
  const auto preferred = sketch.check(preferred_choice(sketch));
  EXPECT_TRUE(preferred.ok()) << sketch.name() << ": " << preferred.error().message;
}

fuzz::RandomDag with_inputs(const te::Dag& dag, double slack) {
  fuzz::RandomDag out{.dag = dag, .inputs = {}, .tolerance = slack * allowed_error(dag)};
  Rng rng(11);
  for (const te::Input& in : dag.inputs) {
    HostTensor t(in.buffer->dtype, in.buffer->shape);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      if (is_float(t.dtype())) {
        t.set_float(i, 2 * rng.uniform() - 1);
      } else {
        t.set_int(i, rng.below(2));
      }
    }
    out.inputs.push_back(std::move(t));
  }
  return out;
}

}  // namespace

std::vector<std::int32_t> preferred_choice(const decide::Sketch& sketch) {
  std::vector<std::int32_t> out;
  for (const Point& d : sketch.points()) out.push_back(d.preferred);
  return out;
}

std::vector<std::int32_t> legal_choice(const decide::Sketch& sketch, Rng& rng) {
  decide::Walk walk(sketch);
  while (!walk.done())
    walk.take(walk.legal()[static_cast<std::size_t>(rng.below(std::ssize(walk.legal())))]);
  return walk.choice();
}

void expect_sketches_correct(const te::Dag& dag, const Sketches& sketches, int samples,
                             double slack) {
  const fuzz::RandomDag checked = with_inputs(dag, slack);
  Rng rng(5);
  for (const auto& sketch : sketches) {
    expect_well_formed(*sketch);
    for (int i = 0; i <= samples; ++i) {
      const auto choice = i == 0 ? preferred_choice(*sketch) : legal_choice(*sketch, rng);
      ASSERT_EQ(choice.size(), sketch->points().size()) << sketch->name();
      const auto schedule = sketch->write(choice);
      ASSERT_TRUE(schedule.ok()) << sketch->name() << ": " << schedule.error().message;
      ASSERT_EQ(fuzz::check_case(checked, *schedule, {.compile = false}), "")
          << sketch->name() << "\n"
          << te::to_text(dag) << schedule::to_text(*schedule);
    }
  }
}

void expect_sketches_lower(const te::Dag& dag, const target::Target& target,
                           const Sketches& sketches, int samples) {
  Rng rng(7);
  for (const auto& sketch : sketches) {
    expect_well_formed(*sketch);
    for (int i = 0; i < samples; ++i) {
      const auto choice = legal_choice(*sketch, rng);
      ASSERT_EQ(choice.size(), sketch->points().size()) << sketch->name();
      const auto schedule = sketch->write(choice);
      ASSERT_TRUE(schedule.ok()) << sketch->name() << ": " << schedule.error().message;
      const auto lowered = lower::lower(dag, *schedule, target);
      ASSERT_TRUE(lowered.ok()) << sketch->name() << ": " << lowered.error().message << "\n"
                                << schedule::to_text(*schedule);
    }
  }
}

}  // namespace tessera::space
