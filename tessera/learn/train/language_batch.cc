#include "tessera/learn/train/language_batch.h"

#include <algorithm>
#include <numeric>

namespace tessera::train {
namespace {

// Groups are sorted by length among so many steps' worth of them.
constexpr std::size_t kWindow = 64;

template <class T>
void shuffle(std::vector<T>& v, Rng& rng) {
  for (std::size_t i = v.size(); i > 1; --i) {
    std::swap(v[i - 1], v[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
}

std::int64_t up(std::size_t n, std::int64_t step) {
  return std::max<std::int64_t>(step, (static_cast<std::int64_t>(n) + step - 1) / step * step);
}

// Numbers that a group fills.
std::size_t length(const Sentences& sentences, const SentenceGroup& group) {
  const lm::Subject& subject = sentences.subject(group.subject);
  std::size_t answers = 0, values = 0;
  for (const std::uint32_t i : group.entries) {
    answers = std::max<std::size_t>(answers, sentences[i].count);
  }
  for (const lm::Question& q : subject.questions) values = std::max(values, q.values.size());
  return answers * group.entries.size() * lm::kWordNumbers +
         subject.prompt.size() * lm::kWordNumbers +
         subject.questions.size() * values * lm::kValueNumbers;
}

lm::LanguageShape shape_of(const Sentences& sentences, const lm::LanguageSpec& spec,
                           const LanguageStep& step, std::int64_t group) {
  std::size_t prompt = 1, answers = 1, questions = 1, values = 1;
  for (const SentenceGroup& g : step) {
    const lm::Subject& subject = sentences.subject(g.subject);
    prompt = std::max(prompt, subject.prompt.size());
    questions = std::max(questions, subject.questions.size());
    for (const lm::Question& q : subject.questions) values = std::max(values, q.values.size());
    for (const std::uint32_t i : g.entries) {
      answers = std::max<std::size_t>(answers, sentences[i].count);
    }
  }
  // Every further shape is a graph to build.
  return {.subjects = static_cast<std::int64_t>(step.size()),
          .prompt = std::min(up(prompt, 8), spec.hyper.at("max_prompt")),
          .sentences = group,
          .answers = std::min(up(answers, 4), spec.hyper.at("max_answers")),
          .questions = up(questions, 4),
          .values = up(values, 16)};
}

class Filler {
 public:
  Filler(const Sentences& sentences, const lm::LanguageSpec& spec, const lm::LanguageShape& shape)
      : sentences_(sentences), spec_(spec), columns_(lm::answer_columns(spec)) {
    out.shape = shape;
    const auto [s, p, g, t, q, n] = shape;
    const auto sized = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    out.prompt.resize(sized(s * p * spec.word));
    out.prompt_mask.resize(sized(s * p));
    out.words.resize(sized(s * g * t * columns_));
    out.questions.resize(sized(s * q * spec.word));
    out.values.resize(sized(s * q * n * spec.value));
    out.asked.resize(sized(s * g * t));
    out.taken.resize(sized(s * g * t));
    out.answered.resize(sized(s * g * t));
    out.legal.resize(sized(s * g * t * n));
    out.quality.assign(sized(s * g), lm::kUnknownQuality);
  }

  void add_subject(std::int64_t at, const lm::Subject& subject) {
    const auto [s, p, g, t, q, n] = out.shape;
    const auto words = std::min<std::int64_t>(p, static_cast<std::int64_t>(subject.prompt.size()));
    for (std::int64_t i = 0; i < words; ++i) {
      put(subject.prompt[static_cast<std::size_t>(i)], out.prompt, (at * p + i) * spec_.word);
      out.prompt_mask[static_cast<std::size_t>(at * p + i)] = 1;
    }
    for (std::size_t i = 0; i < subject.questions.size(); ++i) {
      const std::int64_t row = at * q + static_cast<std::int64_t>(i);
      put(subject.questions[i].word, out.questions, row * spec_.word);
      const std::vector<lm::Value>& values = subject.questions[i].values;
      for (std::size_t v = 0; v < values.size(); ++v) {
        put(values[v], out.values, (row * n + static_cast<std::int64_t>(v)) * spec_.value);
      }
    }
  }

  void add_sentence(std::int64_t at, std::int64_t place, const Sentences::Entry& entry,
                    float told) {
    const auto [s, p, g, t, q, n] = out.shape;
    const lm::Subject& subject = sentences_.subject(entry.subject);
    const std::int64_t row = at * g + place;
    out.quality[static_cast<std::size_t>(row)] = entry.quality;
    ++out.sentences;
    const lm::Question* before = nullptr;
    const lm::Value* value = nullptr;
    std::int64_t i = row * t;
    for (const Sentences::Answer& answer : sentences_.answers(entry)) {
      const lm::Question& question = subject.questions[answer.question];
      lm::write_answer_word(
          spec_, question.word.data(), before != nullptr ? before->word.data() : nullptr,
          value != nullptr ? value->data() : nullptr, told, out.words.data() + i * columns_);
      const auto slot = static_cast<std::size_t>(i);
      out.asked[slot] = at * q + answer.question;
      out.taken[slot] = answer.taken;
      out.answered[slot] = 1;
      for (const std::uint16_t v : sentences_.legal(answer)) {
        out.legal[static_cast<std::size_t>(i * n + v)] = 1;
      }
      before = &question;
      value = &question.values[answer.taken];
      ++i;
    }
  }

  LanguageBatch out;

 private:
  template <class Numbers>
  static void put(const Numbers& numbers, std::vector<float>& to, std::int64_t at) {
    std::copy(numbers.begin(), numbers.end(), to.begin() + at);
  }

  const Sentences& sentences_;
  const lm::LanguageSpec& spec_;
  std::int64_t columns_;
};

}  // namespace

std::vector<LanguageStep> plan_sentences(const Sentences& sentences,
                                         std::span<const std::uint32_t> entries,
                                         std::int64_t subjects, std::int64_t group, Rng& rng) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_subject;
  for (const std::uint32_t i : entries) by_subject[sentences[i].subject].push_back(i);
  const auto most = static_cast<std::size_t>(group), together = static_cast<std::size_t>(subjects);
  std::vector<SentenceGroup> groups;
  for (auto& [subject, list] : by_subject) {
    shuffle(list, rng);
    for (std::size_t at = 0; at < list.size(); at += most) {
      const auto end = std::min(at + most, list.size());
      groups.push_back({subject,
                        {list.begin() + static_cast<std::ptrdiff_t>(at),
                         list.begin() + static_cast<std::ptrdiff_t>(end)}});
    }
  }
  shuffle(groups, rng);
  for (std::size_t at = 0; at < groups.size(); at += kWindow * together) {
    const auto end = std::min(at + kWindow * together, groups.size());
    std::stable_sort(groups.begin() + static_cast<std::ptrdiff_t>(at),
                     groups.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const SentenceGroup& a, const SentenceGroup& b) {
                       return length(sentences, a) < length(sentences, b);
                     });
  }
  std::vector<LanguageStep> steps;
  for (std::size_t at = 0; at < groups.size(); at += together) {
    const auto end = std::min(at + together, groups.size());
    steps.emplace_back(groups.begin() + static_cast<std::ptrdiff_t>(at),
                       groups.begin() + static_cast<std::ptrdiff_t>(end));
  }
  shuffle(steps, rng);
  return steps;
}

LanguageBatch fill_sentences(const Sentences& sentences, const lm::LanguageSpec& spec,
                             const LanguageStep& step, std::int64_t group, Told told, double hidden,
                             std::uint64_t seed) {
  Filler filler(sentences, spec, shape_of(sentences, spec, step, group));
  Rng rng(seed);
  for (std::size_t s = 0; s < step.size(); ++s) {
    const auto at = static_cast<std::int64_t>(s);
    filler.add_subject(at, sentences.subject(step[s].subject));
    for (std::size_t g = 0; g < step[s].entries.size(); ++g) {
      const Sentences::Entry& entry = sentences[step[s].entries[g]];
      const bool hide = rng.chance(hidden) || told == Told::kNothing;
      const float quality = told == Told::kBest ? 1.0F : entry.quality;
      filler.add_sentence(at, static_cast<std::int64_t>(g), entry,
                          hide ? lm::kUnknownQuality : quality);
    }
  }
  return std::move(filler.out);
}

}  // namespace tessera::train
