#include "tessera/learn/train/sentences.h"

#include <algorithm>
#include <limits>

#include "tessera/learn/lm/shard.h"
#include "tessera/support/hash.h"

namespace tessera::train {
namespace {

constexpr std::size_t kMostValues = std::numeric_limits<std::uint16_t>::max();

template <class T>
std::uint64_t hash_of(const std::vector<T>& values, std::uint64_t hash) {
  return hash_bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)},
                    hash);
}

}  // namespace

std::uint32_t Sentences::add(const lm::Subject& subject) {
  const std::string name = fmt::format("{}\n{}\n{}", subject.task, subject.machine, subject.sketch);
  // Names do not say all: spaces for other numbers of threads ask for other values.
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (subjects_[it->second] == subject) return it->second;
  }
  by_name_.emplace(name, static_cast<std::uint32_t>(subjects_.size()));
  subjects_.push_back(subject);
  return static_cast<std::uint32_t>(subjects_.size() - 1);
}

Result<void> Sentences::add(std::uint32_t subject, const lm::Sentence& sentence,
                            std::int64_t most_answers) {
  Entry entry{.subject = subject, .quality = sentence.quality, .first = answers_.size()};
  const std::vector<lm::Question>& questions = subjects_.at(subject).questions;
  std::vector<std::uint16_t> list;
  for (const lm::Answer& answer : sentence.answers) {
    const auto question = static_cast<std::size_t>(answer.question);
    const bool known =
        answer.question >= 0 && question < questions.size() && questions.size() <= kMostValues;
    const std::size_t values = known ? questions[question].values.size() : 0;
    const auto fits = [&](std::int32_t v) {
      return v >= 0 && static_cast<std::size_t>(v) < std::min(values, kMostValues);
    };
    if (!known || !std::all_of(answer.legal.begin(), answer.legal.end(), fits) ||
        std::find(answer.legal.begin(), answer.legal.end(), answer.taken) == answer.legal.end()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a sentence about {} answers what its subject does not ask",
                        subjects_[subject].task);
    }
    if (answer.legal.size() < 2 || entry.count == most_answers) continue;
    list.assign(1, static_cast<std::uint16_t>(answer.legal.size()));
    for (const std::int32_t v : answer.legal) list.push_back(static_cast<std::uint16_t>(v));
    const auto [it, fresh] = legal_lists_.emplace(
        std::string(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0])),
        static_cast<std::uint32_t>(legal_.size()));
    if (fresh) legal_.insert(legal_.end(), list.begin(), list.end());
    answers_.push_back({static_cast<std::uint16_t>(question),
                        static_cast<std::uint16_t>(answer.taken), it->second});
    ++entry.count;
  }
  if (entry.count > 0) entries_.push_back(entry);
  return {};
}

std::string Sentences::digest() const {
  std::uint64_t hash = 0;
  for (const auto& [name, number] : by_name_) hash = hash_bytes(name, hash + number);
  for (const Entry& e : entries_) {
    hash = hash_bytes(fmt::format("{} {} {}", e.subject, e.quality, e.count), hash);
  }
  return to_hex(hash_of(legal_, hash_of(answers_, hash)));
}

Result<Sentences> load_sentences(const std::vector<std::string>& folders,
                                 std::int64_t most_answers) {
  Sentences out;
  for (const std::string& folder : folders) {
    TESSERA_TRY(const std::vector<std::string> paths, lm::shards_of(folder));
    for (const std::string& path : paths) {
      TESSERA_TRY(lm::ShardReader reader, lm::ShardReader::open(path));
      std::vector<std::uint32_t> numbers;  // of the shard's subjects
      lm::Sentence sentence;
      for (;;) {
        TESSERA_TRY(const bool more, reader.next(&sentence));
        if (!more) break;
        for (std::size_t i = numbers.size(); i < reader.subjects().size(); ++i) {
          numbers.push_back(out.add(reader.subjects()[i]));
        }
        const std::uint32_t subject = numbers.at(static_cast<std::size_t>(sentence.subject));
        if (auto added = out.add(subject, sentence, most_answers); !added.ok()) {
          return added.error().with_context(path);
        }
      }
    }
  }
  return out;
}

bool held_out(const lm::Subject& subject, double share) {
  const std::uint64_t hash = hash_bytes("held out " + subject.reduction);
  return static_cast<double>(hash % 10007) < share * 10007;
}

std::vector<std::uint32_t> best_of_tasks(const Sentences& sentences,
                                         std::span<const std::uint32_t> among, double quality) {
  const auto task_of = [&](const Sentences::Entry& e) {
    const lm::Subject& s = sentences.subject(e.subject);
    return s.task + "\n" + s.machine;
  };
  std::map<std::string, float> best;
  for (const std::uint32_t i : among) {
    float& most = best.emplace(task_of(sentences[i]), 0.0F).first->second;
    most = std::max(most, sentences[i].quality);
  }
  std::vector<std::uint32_t> out;
  for (const std::uint32_t i : among) {
    const Sentences::Entry& e = sentences[i];
    if (e.quality < 0) continue;
    if (static_cast<double>(e.quality) >= quality || e.quality == best.at(task_of(e))) {
      out.push_back(i);
    }
  }
  return out;
}

}  // namespace tessera::train
