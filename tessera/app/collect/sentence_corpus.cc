#include "tessera/app/collect/sentence_corpus.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "tessera/app/compile/about_model.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/learn/lm/corpus.h"
#include "tessera/search/model_scorer.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

// A task on a machine: what one space is made of.
struct Unit {
  task::Task task;
  std::size_t machine = 0;
};

Result<void> make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder, error.message());
  if (!lm::shards_of(folder)) return {};
  return make_error(ErrorCode::kInvalidArgument, "{} holds sentences already: take a new folder",
                    folder);
}

// Network after network: weights of all of them at once would not fit.
class UnitCollector {
 public:
  UnitCollector(const CorpusOptions& options, const CorpusCallback& progress)
      : options_(options), progress_(progress) {}

  Result<std::vector<Unit>> collect(CorpusResult* result) {
    const std::size_t total = options_.subjects.size() + options_.without.size();
    std::size_t done = 0;
    for (std::size_t m = 0; m < options_.machines.size(); ++m) {
      for (const TuneSubject& s : options_.without) TESSERA_DO(leave_out(s, m));
    }
    done += options_.without.size();
    for (const TuneSubject& s : options_.subjects) {
      if (progress_ && !progress_({"reading networks", done++, total, 0, seconds_since(start_)})) {
        return std::vector<Unit>();
      }
      for (std::size_t m = 0; m < options_.machines.size(); ++m) {
        const Result<TuneProblem> problem = read(s, m);
        // One network of many that is not supported does not end the work.
        if (!problem) {
          const Error why = about_model(problem.error(), s.name);
          if (why.code == ErrorCode::kIo) return why;
          result->skipped.push_back(why.message);
          break;
        }
        for (const TuneTask& t : problem->tasks) add(t.task, m);
        if (m == 0) ++result->networks;
      }
    }
    std::set<std::string> keys;
    for (const Unit& u : units_) keys.insert(u.task.key);
    result->tasks = keys.size();
    result->machines = options_.machines.size();
    return std::move(units_);
  }

 private:
  Result<TuneProblem> read(const TuneSubject& subject, std::size_t machine) {
    TuneSubject s = subject;
    s.compile.target = options_.machines[machine];
    return make_tune_problem({s}, {});
  }
  Result<void> leave_out(const TuneSubject& subject, std::size_t machine) {
    TESSERA_TRY(const TuneProblem problem, read(subject, machine));
    for (const TuneTask& t : problem.tasks) left_out_.insert(te::reduction_of(t.task.dag));
    return {};
  }
  void add(const task::Task& task, std::size_t machine) {
    if (left_out_.contains(te::reduction_of(task.dag))) return;
    if (known_.emplace(task.key, machine).second) units_.push_back({task, machine});
  }

  const CorpusOptions& options_;
  const CorpusCallback& progress_;
  Clock::time_point start_ = Clock::now();
  std::set<std::pair<std::string, std::size_t>> known_;
  std::set<std::string> left_out_;  // reductions
  std::vector<Unit> units_;
};

// Scores by the cost models. One of these for each thread.
class Judges {
 public:
  static Result<std::unique_ptr<Judges>> make(const std::vector<std::string>& paths) {
    auto out = std::make_unique<Judges>();
    out->paths_ = paths;
    TESSERA_DO(out->renew());
    return out;
  }

  // A learner keeps what it knows of every task: a new one for each space.
  Result<void> renew() {
    search::LearnerOptions options;
    options.pretrained = global_ ? std::vector<std::string>() : paths_;
    options.global = global_;
    options.background = false;
    if (!global_) {
      TESSERA_TRY(global_, model::load_models(paths_, 1));
      options.pretrained.clear();
      options.global = global_;
    }
    TESSERA_TRY(learner_, search::Learner::make(options));
    return {};
  }
  std::vector<float> score(const space::Space& space,
                           std::span<const decide::Candidate> candidates) {
    if (!renew().ok()) return {};
    return learner_->add_task(space).score(candidates);
  }

 private:
  std::vector<std::string> paths_;
  std::shared_ptr<const model::CostModel> global_;
  std::unique_ptr<search::Learner> learner_;
};

// Shards in any order by several threads; what is in one follows from the options alone.
class Drawing {
 public:
  Drawing(const CorpusOptions& options, const std::vector<Unit>& units,
          const CorpusCallback& progress)
      : options_(options), units_(units), progress_(progress) {}

  Result<void> run(CorpusResult* result) {
    judges_.resize(static_cast<std::size_t>(std::max(1, options_.threads)));
    const Result<void> done = try_parallel_for(
        options_.shards, options_.threads,
        [this](std::size_t shard, std::size_t thread) { return draw_shard(shard, thread); });
    result->sentences = sentences_;
    result->draw_s = seconds_since(start_);
    result->finished = !stopped_;
    return done;
  }

 private:
  Result<void> draw_shard(std::size_t shard, std::size_t thread) {
    if (stopped_) return {};
    std::unique_ptr<Judges>& judges = judges_[thread];
    if (judges == nullptr && !options_.judges.empty()) {
      TESSERA_TRY(judges, Judges::make(options_.judges));
    }
    const Result<void> done = write_shard(shard, judges.get());
    if (!done.ok()) stopped_ = true;
    return done;
  }

  Result<void> write_shard(std::size_t shard, Judges* judges) {
    if (shard >= units_.size()) return {};
    TESSERA_TRY(lm::ShardWriter out,
                lm::ShardWriter::create(lm::shard_path(options_.folder, shard)));
    const std::size_t each = (options_.sentences + units_.size() - 1) / units_.size();
    lm::Judge judge;
    if (judges != nullptr) {
      judge = [judges](const space::Space& s, std::span<const decide::Candidate> c) {
        return judges->score(s, c);
      };
    }
    for (std::size_t u = shard; u < units_.size() && !stopped_; u += options_.shards) {
      const Unit& unit = units_[u];
      const target::Target& machine = options_.machines[unit.machine];
      Result<space::Space> space = space::make_space(unit.task.dag, machine);
      if (!space) return space.error().with_context("task " + unit.task.name);
      Rng rng(hash_bytes(
          fmt::format("{} {} {}", options_.seed, unit.task.key, target::to_text(machine))));
      TESSERA_TRY(const std::size_t drawn, lm::write_drawn(*space, each, rng, judge, &out));
      report(drawn);
    }
    return out.flush();
  }

  void report(std::size_t drawn) {
    const std::lock_guard lock(mutex_);
    sentences_ += drawn;
    ++done_;
    if (progress_ &&
        !progress_({"drawing", done_, units_.size(), sentences_, seconds_since(start_)})) {
      stopped_ = true;
    }
  }

  const CorpusOptions& options_;
  const std::vector<Unit>& units_;
  const CorpusCallback& progress_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::unique_ptr<Judges>> judges_;  // of each thread
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::size_t done_ = 0, sentences_ = 0;
};

// Larger shares have all that smaller ones have.
bool in_share(const std::string& key, double share) {
  constexpr std::uint64_t kParts = 10007;
  return static_cast<double>(hash_bytes("share " + key) % kParts) < share * kParts;
}

// As small as the study has it; its blocks are alike.
std::string reduced_llama(int batch, int seq) {
  return fmt::format("zoo:llama_block@batch={},seq={},hidden=768,heads=12,kv_heads=12,ffn=3072",
                     batch, seq);
}

}  // namespace

Result<CorpusResult> draw_sentences(const CorpusOptions& options, const CorpusCallback& progress) {
  if (options.machines.empty() || options.sentences == 0 || options.shards == 0 ||
      options.threads < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "sentences are drawn for a machine at least, into a shard at least, by a "
                      "thread at least");
  }
  TESSERA_DO(make_folder(options.folder));
  CorpusResult result;
  TESSERA_TRY(const std::vector<Unit> units, UnitCollector(options, progress).collect(&result));
  if (units.empty()) {
    if (!result.skipped.empty()) {
      return make_error(ErrorCode::kUnsupported, "{}", result.skipped.front());
    }
    return result;  // stopped while networks were read, or all was left out
  }
  TESSERA_DO(Drawing(options, units, progress).run(&result));
  return result;
}

Result<RecordedResult> tell_records(const RecordedOptions& options,
                                    const CorpusCallback& progress) {
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  std::vector<bool> wanted;
  if (!options.whole) {
    TESSERA_TRY(const dataset::Split split, dataset::split(data, options.split));
    for (const std::uint8_t part : split.part) wanted.push_back(part == options.part);
  }
  wanted.resize(data.examples.size(), options.whole);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const dataset::Example& e = data.examples[i];
    const dataset::MachineInfo& machine = data.machines[static_cast<std::size_t>(e.machine)];
    wanted[i] = wanted[i] && machine.target.find(options.machine) != std::string::npos &&
                in_share(data.tasks[static_cast<std::size_t>(e.task)].key, options.share);
  }
  TESSERA_DO(make_folder(options.folder));
  TESSERA_TRY(lm::ShardWriter out, lm::ShardWriter::create(lm::shard_path(options.folder, 0)));
  const Clock::time_point start = Clock::now();
  const auto told = [&](std::size_t done, std::size_t total) {
    return !progress ||
           progress({"writing records", done, total, out.sentences(), seconds_since(start)});
  };
  TESSERA_TRY(const lm::RecordedResult written,
              lm::write_recorded(data, wanted, told, &out, options.telling));
  TESSERA_DO(out.flush());
  return RecordedResult{out.sentences(), written.tasks, written.unreadable};
}

std::vector<std::string> study_machines() { return {"neoverse-v1", "skylake-avx512", "h200"}; }

std::vector<std::string> study_networks() {
  std::vector<std::string> out;
  const auto add = [&](std::initializer_list<const char*> names, std::initializer_list<int> batches,
                       const char* size, std::initializer_list<int> sizes) {
    for (const char* name : names) {
      for (const int b : batches) {
        for (const int s : sizes)
          out.push_back(fmt::format("zoo:{}@batch={},{}={}", name, b, size, s));
      }
    }
  };
  add({"resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "wide_resnet50_2",
       "resnext50_32x4d", "densenet121", "vgg16"},
      {1, 4, 8}, "size", {224, 240, 256});
  add({"inception_v3"}, {1, 2, 4}, "size", {299});
  add({"resnet3d_18"}, {1, 2, 4}, "size", {112, 128, 144});
  add({"bert_tiny", "bert_base", "bert_medium", "bert_large", "gpt2"}, {1, 2, 4}, "seq",
      {64, 128, 256});
  add({"dcgan"}, {1, 4, 8}, "size", {64});
  for (const int b : {2, 4}) {
    for (const int s : {64, 128, 256}) out.push_back(reduced_llama(b, s));
  }
  return out;
}

std::vector<std::string> study_holdout() {
  return {"zoo:resnet50@batch=1,size=224",
          "zoo:mobilenet_v2@batch=1,size=224",
          "zoo:resnext50_32x4d@batch=1,size=224",
          "zoo:bert_base@batch=1,seq=128",
          "zoo:bert_tiny@batch=1,seq=128",
          "zoo:gpt2@batch=1,seq=128",
          "zoo:densenet121@batch=8,size=256",
          "zoo:bert_large@batch=4,seq=256",
          "zoo:wide_resnet50_2@batch=8,size=256",
          "zoo:resnet3d_18@batch=4,size=144",
          "zoo:dcgan@batch=8,size=64",
          reduced_llama(4, 256)};
}

}  // namespace tessera::app
