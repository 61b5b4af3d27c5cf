// The text of schedules that rules and templates write, so that a change is seen.
#include <string>

#include <gtest/gtest.h>

#include "tessera/scheduling/space/rules/rules.h"
#include "tests/space/sketch_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

target::Target machine() {
  target::Target target = target::find_target("neoverse-v1").value();
  target.cores = 2;
  return target;
}

// `choices`: values by the name of their decision, as labels; others preferred.
std::string text_of(const te::Dag& dag, const std::string& sketch_name,
                    const std::vector<std::pair<std::string, std::string>>& choices) {
  const auto sketches = rule_sketches(dag, machine());
  EXPECT_TRUE(sketches.ok());
  for (const auto& sketch : *sketches) {
    if (sketch->name() != sketch_name) continue;
    auto choice = preferred_choice(*sketch);
    for (const auto& [name, label] : choices) {
      bool found = false;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        const Point& d = sketch->points()[i];
        for (std::size_t v = 0; d.name == name && v < d.values.size(); ++v) {
          if (d.label(static_cast<std::int32_t>(v)) != label) continue;
          choice[i] = static_cast<std::int32_t>(v);
          found = true;
        }
      }
      EXPECT_TRUE(found) << name << "=" << label;
    }
    const auto schedule = sketch->write(choice);
    EXPECT_TRUE(schedule.ok()) << schedule.error().message;
    return schedule.ok() ? schedule::to_text(*schedule) : "";
  }
  ADD_FAILURE() << "no sketch " << sketch_name;
  return "";
}

TEST(RulesGolden, ProductWithEpilogue) {
  EXPECT_EQ(text_of(dag_of("dense:M=64,N=96,K=128"), "rules.ssrsrs.fused2",
                    {{"C.i", "2x2x4"}, {"C.j", "1x3x16"}, {"C.k", "32"}, {"C.unroll", "4"}}),
            R"(layout W d0/48 d1/32 d0/16%3 d1%32 d0%16
split Y i 2 8 tail=peel
split Y j 1 3 16 tail=peel
reorder Y i.0 j.0 i.1 j.1 i.2 j.2 j.3
annotate Y j.3 vectorize
annotate Y i.0 parallel
compute_at C Y j.1
split C i 4 tail=peel
split C j 16 tail=peel
split C k 4 tail=peel
split C k.0 8
reorder C k.0.0 i.0 j.0 k.0.1 k.1 i.1 j.1
annotate C k.1 unroll
annotate C i.1 unroll
annotate C j.1 vectorize
)");
}

TEST(RulesGolden, ConvolutionWithOddTiles) {
  EXPECT_EQ(text_of(dag_of("conv2d:N=1,H=14,W=14,CI=32,CO=64,KH=3,KW=3,P=1"), "rules.ssrs",
                    {{"Y.oh", "1x2"}, {"Y.ow", "2x4"}, {"Y.co", "2x8"}}),
            R"(layout W d0/8 d2 d3 d1 d0%8
split Y oh 1 2 tail=peel
split Y ow 2 4 tail=peel
split Y co 2 8 tail=peel
reorder Y n oh.0 ow.0 co.0 oh.1 ow.1 co.1 kh kw ci oh.2 ow.2 co.2
annotate Y oh.2 unroll
annotate Y ow.2 unroll
annotate Y co.2 vectorize
annotate Y oh.0 parallel
split pad c 16 tail=peel
reorder pad n h w c.0 c.1
annotate pad c.1 vectorize
)");
}

}  // namespace
}  // namespace tessera::space
