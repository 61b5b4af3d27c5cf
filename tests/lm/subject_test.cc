#include "tessera/learn/lm/subject.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tessera/learn/lm/columns.h"
#include "tessera/learn/lm/opaque_reader.h"
#include "tests/lm/lm_case.h"

namespace tessera::lm {
namespace {

std::size_t column(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

Subject subject_of(const std::string& spec, const std::string& target = "neoverse-v1") {
  const space::Space space = space_of(spec, target);
  return Scribe(space).subject(0);
}

TEST(Subject, EveryColumnHasAName) {
  for (const auto* names : {&word_columns(), &value_columns()}) {
    EXPECT_EQ(std::set<std::string>(names->begin(), names->end()).size(), names->size());
  }
  EXPECT_EQ(word_columns().size(), std::size_t{kWordNumbers});
  EXPECT_EQ(value_columns().size(), std::size_t{kValueNumbers});
  EXPECT_EQ(schema().size(), 16u);
}

TEST(Subject, NumbersAreFiniteAndFitFiles) {
  const auto expect_fits = [](const auto& numbers) {
    for (const float x : numbers) {
      EXPECT_TRUE(std::isfinite(x));
      EXPECT_EQ(x, rounded(x));
      EXPECT_LT(std::abs(x), 8);
    }
  };
  for (const char* target : kTargets) {
    for (const char* spec : kSpecs) {
      const space::Space space = space_of(spec, target);
      const Scribe scribe(space);
      for (std::size_t i = 0; i < space.sketches().size(); ++i) {
        const Subject s = scribe.subject(static_cast<std::int32_t>(i));
        ASSERT_EQ(s.questions.size(), space.sketches()[i]->points().size());
        EXPECT_EQ(s.sketch, space.sketches()[i]->name());
        for (const Word& w : s.prompt) expect_fits(w);
        for (std::size_t d = 0; d < s.questions.size(); ++d) {
          expect_fits(s.questions[d].word);
          ASSERT_EQ(s.questions[d].values.size(), space.sketches()[i]->points()[d].values.size());
          for (const Value& v : s.questions[d].values) expect_fits(v);
        }
      }
    }
  }
}

// Values of one question are told apart, or a model could not choose between them.
TEST(Subject, ValuesOfAQuestionDiffer) {
  for (const char* target : kTargets) {
    for (const char* spec : kSpecs) {
      const space::Space space = space_of(spec, target);
      const Scribe scribe(space);
      for (std::size_t i = 0; i < space.sketches().size(); ++i) {
        const Subject s = scribe.subject(static_cast<std::int32_t>(i));
        for (std::size_t d = 0; d < s.questions.size(); ++d) {
          const auto& values = s.questions[d].values;
          EXPECT_EQ(std::set<Value>(values.begin(), values.end()).size(), values.size())
              << spec << " " << space.sketches()[i]->points()[d].name;
        }
      }
    }
  }
}

TEST(Subject, QuestionsOfASketchDiffer) {
  for (const char* target : kTargets) {
    for (const char* spec : kSpecs) {
      const space::Space space = space_of(spec, target);
      const Subject s = Scribe(space).subject(0);
      std::set<Word> words;
      for (const Question& q : s.questions) words.insert(q.word);
      EXPECT_EQ(words.size(), s.questions.size()) << spec << " " << target;
    }
  }
}

TEST(Subject, ShapesAndMachinesAreRead) {
  const Subject a = subject_of("matmul:M=60,N=96,K=40");
  const Subject b = subject_of("matmul:M=60,N=96,K=41");
  const Subject c = subject_of("matmul:M=60,N=96,K=40", "skylake-avx512");
  EXPECT_NE(a.prompt, b.prompt);
  EXPECT_NE(a.task, b.task);
  EXPECT_NE(a.prompt, c.prompt);
  EXPECT_EQ(a.task, c.task);
  EXPECT_NE(a.machine, c.machine);
}

// Names of a model mean nothing: stages, axes and inputs are read by what they are.
TEST(Subject, NamesOfAModelAreNotRead) {
  const char* first =
      "dag m\n  input A: f32[60, 40]\n  input B: f32[40, 96]\n  stage C: f32[60, 96]\n"
      "    C[i, j] = sum(k in 40) A[i, k] * B[k, j]\n  output C\n";
  const char* second =
      "dag m\n  input left: f32[60, 40]\n  input right: f32[40, 96]\n  stage sum.1: f32[60, 96]\n"
      "    sum.1[x, y] = sum(z in 40) left[x, z] * right[z, y]\n  output sum.1\n";
  const auto dag1 = te::dag_from_text(first), dag2 = te::dag_from_text(second);
  ASSERT_TRUE(dag1.ok() && dag2.ok()) << (dag1.ok() ? dag2.error() : dag1.error()).message;
  const target::Target target = target::find_target("neoverse-v1").value();
  const space::Space one = space::make_space(*dag1, target).value();
  const space::Space two = space::make_space(*dag2, target).value();
  ASSERT_EQ(one.sketches().size(), two.sketches().size());
  for (std::size_t i = 0; i < one.sketches().size(); ++i) {
    const Subject a = Scribe(one).subject(static_cast<std::int32_t>(i));
    const Subject b = Scribe(two).subject(static_cast<std::int32_t>(i));
    EXPECT_EQ(a.prompt, b.prompt) << a.sketch;
    EXPECT_EQ(a.questions, b.questions) << a.sketch;
  }
}

TEST(Subject, ALengthIsHeldAgainstItsAxis) {
  const space::Space space = space_of("matmul:M=60,N=96,K=40");
  const auto& sketches = space.sketches();
  const auto at = std::find_if(sketches.begin(), sketches.end(),
                               [](const auto& s) { return s->name() == "rules.srs"; });
  ASSERT_NE(at, sketches.end());
  const Subject s = Scribe(space).subject(static_cast<std::int32_t>(at - sketches.begin()));
  const decide::Point& rows = (*at)->points()[0];
  ASSERT_EQ(rows.name, "C.i");
  for (std::size_t v = 0; v < rows.values.size(); ++v) {
    const std::int64_t length = rows.values[v][0];
    const Value& value = s.questions[0].values[v];
    EXPECT_EQ(value[column(value_columns(), "divides_axis")], 60 % length == 0 ? 1 : 0) << length;
    EXPECT_NEAR(value[column(value_columns(), "of_axis")],
                std::log2(static_cast<double>(length) / 60) / 4, 0.01);
  }
}

TEST(Subject, TheSketchIsAQuestionToo) {
  const space::Space space = space_of("matmul:M=60,N=96,K=40");
  const Subject s = Scribe(space).choice_of_sketch();
  ASSERT_EQ(s.questions.size(), 1u);
  const auto& values = s.questions[0].values;
  EXPECT_EQ(values.size(), space.sketches().size());
  EXPECT_EQ(std::set<Value>(values.begin(), values.end()).size(), values.size());
  EXPECT_EQ(s.sketch, "");
  EXPECT_EQ(s.prompt.size() + 1, Scribe(space).subject(0).prompt.size());
}

TEST(OpaqueWords, AreNamesAndNothingElse) {
  const space::Space space = space_of(kSpecs[0]);
  const Subject told = Scribe(space).subject(0);
  Subject hidden = told;
  hide_numbers(&hidden);
  ASSERT_EQ(hidden.questions.size(), told.questions.size());
  for (std::size_t q = 0; q < told.questions.size(); ++q) {
    const std::vector<Value>& values = hidden.questions[q].values;
    for (std::size_t v = 0; v < values.size(); ++v) {
      for (std::size_t i = 0; i + kLabelBits < values[v].size(); ++i) EXPECT_EQ(values[v][i], 0);
      if (v > 0) {
        EXPECT_NE(values[v], values[0]) << "other values are other names";
      }
    }
  }
  Subject again = told;
  hide_numbers(&again);
  EXPECT_EQ(again, hidden);
}

TEST(QuestionKind, SaysNothingOfSizes) {
  const Subject small = Scribe(space_of("matmul:M=96,N=128,K=128")).subject(0);
  const Subject large = Scribe(space_of("matmul:M=96,N=128,K=64")).subject(0);
  ASSERT_EQ(small.questions.size(), large.questions.size());
  std::set<std::uint64_t> kinds;
  for (std::size_t q = 0; q < small.questions.size(); ++q) {
    EXPECT_EQ(question_kind(small.questions[q].word), question_kind(large.questions[q].word));
    kinds.insert(question_kind(small.questions[q].word));
  }
  EXPECT_GT(kinds.size(), 3u);
}

}  // namespace
}  // namespace tessera::lm
