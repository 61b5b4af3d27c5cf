#include "tessera/learn/lm/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/learn/lm/columns.h"

namespace tessera::lm {
namespace {

// Kinds of questions, by what their words say but for sizes; two that share one learn together.
constexpr std::size_t kKinds = 32;
constexpr std::size_t kWeights = kKinds * kValueNumbers;
constexpr std::size_t kMostSentences = 384;
constexpr double kRidge = 0.3;  // of the mean square of a sentence's numbers
// Speed, as a logarithm, that makes a value e times as likely.
constexpr double kTilt = 0.05;

std::size_t kind_of(const Question& question) {
  return static_cast<std::size_t>(question_kind(question.word) % kKinds);
}

// Of the exponentials of numbers, as a logarithm.
double log_sum(std::span<const float> numbers) {
  const auto most = static_cast<double>(*std::max_element(numbers.begin(), numbers.end()));
  double sum = 0;
  for (const float x : numbers) sum += std::exp(static_cast<double>(x) - most);
  return most + std::log(sum);
}

// Lower triangle in place; the matrix is positive definite by its ridge.
void factor(std::vector<double>* matrix, std::size_t n) {
  std::vector<double>& m = *matrix;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = m[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= m[i * n + k] * m[j * n + k];
      m[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / m[j * n + j];
    }
  }
}

std::vector<double> solve(const std::vector<double>& factor, std::vector<double> x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= factor[i * n + k] * x[k];
    x[i] /= factor[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= factor[k * n + i] * x[k];
    x[i] /= factor[i * n + i];
  }
  return x;
}

}  // namespace

void Adapter::add(const std::string& task, const Subject& subject, std::span<const Answer> answers,
                  double log_speed) {
  Example e{.task = task, .numbers = std::vector<float>(kWeights), .log_speed = log_speed};
  for (const Answer& answer : answers) {
    if (answer.legal.size() < 2) continue;
    const Question& question = subject.questions[static_cast<std::size_t>(answer.question)];
    float* const to = e.numbers.data() + kind_of(question) * kValueNumbers;
    // Against the mean of what was legal: a choice among many is worth what it is better.
    const auto each = 1.0F / static_cast<float>(answer.legal.size());
    for (const std::int32_t v : answer.legal) {
      const Value& value = question.values[static_cast<std::size_t>(v)];
      const float weight = (v == answer.taken ? 1.0F : 0.0F) - each;
      for (std::size_t i = 0; i < value.size(); ++i) to[i] += weight * value[i];
    }
  }
  if (examples_.size() == kMostSentences) examples_.erase(examples_.begin());
  examples_.push_back(std::move(e));
  stale_ = true;
}

void Adapter::fit() {
  if (!stale_) return;
  stale_ = false;
  const std::size_t n = examples_.size();
  // What a task is beside others is none of its sentences' merit.
  struct Mean {
    std::vector<double> numbers = std::vector<double>(kWeights);
    double log_speed = 0, count = 0;
  };
  std::map<std::string, Mean> means;
  for (const Example& e : examples_) {
    Mean& m = means[e.task];
    for (std::size_t i = 0; i < kWeights; ++i) m.numbers[i] += static_cast<double>(e.numbers[i]);
    m.log_speed += e.log_speed;
    m.count += 1;
  }
  std::vector<double> rows(n * kWeights), speeds(n), products(n * n);
  for (std::size_t r = 0; r < n; ++r) {
    const Mean& m = means[examples_[r].task];
    for (std::size_t i = 0; i < kWeights; ++i) {
      rows[r * kWeights + i] =
          static_cast<double>(examples_[r].numbers[i]) - m.numbers[i] / m.count;
    }
    speeds[r] = examples_[r].log_speed - m.log_speed / m.count;
  }
  double trace = 0;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < kWeights; ++i)
        sum += rows[a * kWeights + i] * rows[b * kWeights + i];
      products[a * n + b] = sum;
    }
    trace += products[a * n + a];
  }
  weights_.clear();
  if (!(trace > 0)) return;  // one sentence of each task, or equal ones
  for (std::size_t a = 0; a < n; ++a)
    products[a * n + a] += kRidge * trace / static_cast<double>(n);
  factor(&products, n);
  const std::vector<double> share = solve(products, std::move(speeds));
  std::vector<double> sums(kWeights);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < kWeights; ++i) sums[i] += share[r] * rows[r * kWeights + i];
  }
  for (const double s : sums) weights_.push_back(static_cast<float>(s / kTilt));
}

float Adapter::bonus(const Question& question, std::int32_t value) const {
  if (weights_.empty()) return 0;
  const float* const weights = weights_.data() + kind_of(question) * kValueNumbers;
  const Value& numbers = question.values[static_cast<std::size_t>(value)];
  float out = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) out += weights[i] * numbers[i];
  return out;
}

Result<void> AdaptedReader::begin(const Subject& subject, int rows, float quality) {
  subject_ = &subject;
  return reader_->begin(subject, rows, quality);
}

Result<std::vector<float>> AdaptedReader::step(std::span<const Step> steps) {
  TESSERA_TRY(std::vector<float> out, reader_->step(steps));
  std::span<float> rest = out;
  for (const Step& s : steps) {
    const std::span<float> own = rest.first(s.legal.size());
    rest = rest.subspan(s.legal.size());
    const Question& question = subject_->questions[static_cast<std::size_t>(s.question)];
    const double before = log_sum(own);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += adapter_->bonus(question, s.legal[i]);
    const auto change = static_cast<float>(log_sum(own) - before);
    for (float& x : own) x -= change;
  }
  return out;
}

}  // namespace tessera::lm
