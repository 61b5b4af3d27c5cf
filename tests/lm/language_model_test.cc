#include "tessera/learn/lm/language_model.h"

#include <cmath>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/learn/lm/columns.h"
#include "tessera/learn/lm/generate.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/scheduling/space/space.h"
#include "tests/testing/devices.h"

namespace tessera::lm {
namespace {

struct Said {
  std::int32_t question, taken;
  std::vector<std::int32_t> legal;
};

template <class Numbers>
Numbers random_numbers(Rng& rng) {
  Numbers out{};
  for (float& x : out) x = rng.chance(0.2) ? static_cast<float>(2 * rng.uniform() - 1) : 0.0F;
  return out;
}

Subject random_subject(std::size_t words, const std::vector<int>& values, Rng& rng) {
  Subject subject;
  for (std::size_t i = 0; i < words; ++i) subject.prompt.push_back(random_numbers<Word>(rng));
  for (const int count : values) {
    Question question;
    question.word = random_numbers<Word>(rng);
    for (int v = 0; v < count; ++v) question.values.push_back(random_numbers<Value>(rng));
    subject.questions.push_back(question);
  }
  return subject;
}

TrainedLanguage random_language(const nn::Hyper& hyper = {}) {
  TrainedLanguage out;
  nn::Hyper all = {{"width", 16}, {"layers", 2}, {"heads", 4},       {"key_heads", 2},
                   {"ffn", 24},   {"choice", 8}, {"max_prompt", 40}, {"max_answers", 20}};
  for (const auto& [name, value] : hyper) all[name] = value;
  out.spec = make_language_spec(all, kWordNumbers, kValueNumbers).value();
  out.weights = initial_weights(out.spec, 3).value();
  out.schema = schema();
  return out;
}

// The definition, by the interpreter: chances of the legal values at each word.
std::vector<std::vector<double>> reference(const TrainedLanguage& language, const Subject& subject,
                                           const std::vector<Said>& said, float quality) {
  const LanguageSpec& spec = language.spec;
  LanguageShape shape;
  shape.prompt = static_cast<std::int64_t>(subject.prompt.size());
  shape.answers = static_cast<std::int64_t>(said.size());
  shape.questions = static_cast<std::int64_t>(subject.questions.size());
  for (const Question& q : subject.questions) {
    shape.values = std::max(shape.values, static_cast<std::int64_t>(q.values.size()));
  }
  const nn::Network network = build_sentences(spec, shape).value();
  std::vector<HostTensor> in;
  for (const graph::ValueId id : network.graph.inputs) {
    const auto weight = language.weights.find(network.graph.value(id).name);
    in.push_back(weight != language.weights.end()
                     ? weight->second
                     : HostTensor(DType::kF32, network.graph.shape(id)));
  }
  for (std::size_t i = 0; i < subject.prompt.size(); ++i) {
    std::copy(subject.prompt[i].begin(), subject.prompt[i].end(),
              in[0].as<float>() + i * kWordNumbers);
    in[1].as<float>()[i] = 1;
  }
  for (std::size_t i = 0; i < said.size(); ++i) {
    const Question& now = subject.questions[static_cast<std::size_t>(said[i].question)];
    const Question* before =
        i == 0 ? nullptr : &subject.questions[static_cast<std::size_t>(said[i - 1].question)];
    write_answer_word(
        spec, now.word.data(), i == 0 ? nullptr : before->word.data(),
        i == 0 ? nullptr : before->values[static_cast<std::size_t>(said[i - 1].taken)].data(),
        quality, in[2].as<float>() + static_cast<std::int64_t>(i) * answer_columns(spec));
  }
  for (std::size_t q = 0; q < subject.questions.size(); ++q) {
    const Question& question = subject.questions[q];
    std::copy(question.word.begin(), question.word.end(), in[3].as<float>() + q * kWordNumbers);
    for (std::size_t v = 0; v < question.values.size(); ++v) {
      std::copy(
          question.values[v].begin(), question.values[v].end(),
          in[4].as<float>() + (q * static_cast<std::size_t>(shape.values) + v) * kValueNumbers);
    }
  }
  const auto out = graph::evaluate(network.graph, in);
  EXPECT_TRUE(out.ok());
  const std::int64_t choice = spec.hyper.at("choice");
  std::vector<std::vector<double>> chances;
  for (std::size_t i = 0; i < said.size(); ++i) {
    std::vector<double> scores;
    double sum = 0;
    for (const std::int32_t value : said[i].legal) {
      const float* query = (*out)[0].as<float>() + static_cast<std::int64_t>(i) * choice;
      const float* embedding =
          (*out)[1].as<float>() + (said[i].question * shape.values + value) * choice;
      scores.push_back(std::inner_product(query, query + choice, embedding, 0.0));
      sum += std::exp(scores.back());
    }
    for (double& s : scores) s -= std::log(sum);
    chances.push_back(scores);
  }
  return chances;
}

// What the model says for one row, question by question.
std::vector<std::vector<float>> read(LanguageModel& model, std::int32_t row,
                                     const std::vector<Said>& said, std::int32_t previous = -1) {
  std::vector<std::vector<float>> out;
  for (const Said& s : said) {
    const Step step{row, s.question, previous, s.legal};
    out.push_back(model.step({&step, 1}).value());
    previous = s.taken;
  }
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4);
}

const std::vector<int> kCounts = {3, 2, 4, 3};
// The second question leaves no choice.
const std::vector<Said> kSaid = {{0, 2, {0, 2}}, {1, 1, {1}}, {2, 3, {0, 1, 3}}, {3, 0, {0, 1, 2}}};
const std::vector<Said> kChoices = {kSaid[0], kSaid[2], kSaid[3]};

void expect_definition(const nn::Hyper& hyper, runtime::Device* device = nullptr) {
  Rng rng(5);
  const TrainedLanguage language = random_language(hyper);
  const auto model = LanguageModel::make(language, {.threads = 2, .device = device}).value();
  const Subject subject = random_subject(5, kCounts, rng);
  const auto want = reference(language, subject, kChoices, 0.9F);
  // Alone, and as one of more rows than a block of this process has.
  for (const int rows : device != nullptr ? std::vector<int>{5} : std::vector<int>{1, 70}) {
    ASSERT_TRUE(model->begin(subject, rows, 0.9F).ok());
    const auto got = read(*model, rows - 1, kSaid);
    ASSERT_EQ(got.size(), 4u);
    EXPECT_EQ(got[1], std::vector<float>{0});
    expect_near(got[0], want[0]);
    expect_near(got[2], want[1]);
    expect_near(got[3], want[2]);
  }
}

TEST(LanguageModel, ReadsAsItsDefinitionSays) { expect_definition({}); }
TEST(LanguageModel, ReadsAsItsDefinitionSaysWithRotaryPositions) {
  expect_definition({{"rotary", 1}});
}

void expect_rows_apart(const nn::Hyper& hyper, runtime::Device* device) {
  Rng rng(6);
  const TrainedLanguage language = random_language(hyper);
  const auto model = LanguageModel::make(language, {.threads = 1, .device = device}).value();
  const Subject subject = random_subject(3, kCounts, rng);
  const std::vector<Said> other = {{2, 0, {0, 1, 2, 3}}, {0, 1, {0, 1}}, {3, 2, {1, 2}}};
  ASSERT_TRUE(model->begin(subject, 3, kUnknownQuality).ok());
  (void)read(*model, 0, {kChoices[0], kChoices[1]});
  (void)read(*model, 1, {other[0], other[1]});
  const std::int32_t sources[] = {1, 0, 1};
  ASSERT_TRUE(model->copy_rows(sources).ok());
  const auto first = reference(language, subject, kChoices, kUnknownQuality);
  const auto second = reference(language, subject, other, kUnknownQuality);
  // All at once, and in any order.
  const Step steps[] = {{2, 3, other[1].taken, other[2].legal},
                        {1, 3, kChoices[1].taken, kChoices[2].legal}};
  const std::vector<float> got = model->step(steps).value();
  expect_near({got.begin(), got.begin() + 2}, second[2]);
  expect_near({got.begin() + 2, got.end()}, first[2]);
  expect_near(read(*model, 0, {other[2]}, other[1].taken)[0], second[2]);
}

TEST(LanguageModel, RowsAreApartAndMayBeCopied) { expect_rows_apart({}, nullptr); }

// The same on the GPU of the machine, and on what OpenCL has.
class LanguageOnGpu : public ::testing::TestWithParam<target::Kind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<runtime::Device>> device = runtime::open_device(GetParam());
    if (!testing::has_device(to_text(GetParam()), device)) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
  }

  std::unique_ptr<runtime::Device> device_;
};

TEST_P(LanguageOnGpu, ReadsAsItsDefinitionSays) {
  expect_definition({{"layers", 1}}, device_.get());
}
TEST_P(LanguageOnGpu, RowsAreApartAndMayBeCopied) {
  expect_rows_apart({{"layers", 1}}, device_.get());
}

// Sentences of real spaces, drawn by both.
TEST_P(LanguageOnGpu, WritesWhatThisProcessWrites) {
  const TrainedLanguage language = random_language({{"layers", 1}});
  const auto here = LanguageModel::make(language, {.threads = 2}).value();
  const auto there = LanguageModel::make(language, {.threads = 2, .device = device_.get()}).value();
  const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=64,N=48,K=32").value()).value();
  const space::Space space =
      space::make_space(dag, target::code_target(target::find_target("neoverse-v1").value(), 1))
          .value();
  const auto write = [&](Reader& reader, int rows) {
    Generator generator(space, reader, {.rows = rows, .threads = 2});
    Rng rng(3);
    return generator.sample(40, rng, [](const decide::Candidate&) { return true; }).value();
  };
  // How many are written side by side changes nothing either.
  const std::vector<Generated> want = write(*here, 24), got = write(*there, 16);
  ASSERT_EQ(want.size(), 40u);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(space.to_text(got[i].candidate), space.to_text(want[i].candidate)) << i;
    EXPECT_NEAR(got[i].log_prob, want[i].log_prob, 1e-3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LanguageOnGpu,
                         ::testing::Values(target::Kind::kCuda, target::Kind::kOpenCl),
                         [](const auto& kind) { return std::string(target::to_text(kind.param)); });

TEST(LanguageModel, LongPromptsAndSentencesAreCutOff) {
  Rng rng(7);
  const TrainedLanguage language = random_language({{"max_prompt", 4}, {"max_answers", 2}});
  const auto model = LanguageModel::make(language, {.threads = 1}).value();
  Subject subject = random_subject(6, kCounts, rng);
  ASSERT_TRUE(model->begin(subject, 1, 1).ok());
  const auto got = read(*model, 0, kChoices);
  subject.prompt.resize(4);
  const auto want = reference(language, subject, {kChoices[0], kChoices[1]}, 1);
  expect_near(got[1], want[1]);
  expect_near(got[2], std::vector<double>(3, -std::log(3.0)));
}

TEST(LanguageModel, RefusesWordsOfAnotherSchema) {
  TrainedLanguage language = random_language();
  language.schema = "another";
  const std::string path = ::testing::TempDir() + "tessera_language_model.safetensors";
  ASSERT_TRUE(save_language(language, WeightStorage::kF16, path).ok());
  const auto model = LanguageModel::load(path, {.threads = 1});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("words of schema another"), std::string::npos);
  EXPECT_FALSE(LanguageModel::load(path + ".absent", {.threads = 1}).ok());
  language.schema = schema();
  const auto good = LanguageModel::make(language, {.threads = 1}).value();
  EXPECT_FALSE(good->begin(Subject{}, 0, 1).ok());
}

}  // namespace
}  // namespace tessera::lm
