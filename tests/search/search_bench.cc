// Candidates a second of a processor that the evolutionary policy makes, computes features of and
// scores, after 256 trials: search_bench [NETWORK], a file of trained weights.
#include <cstdio>
#include <ctime>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/search/model_scorer.h"

namespace tessera::search {
namespace {

struct Workload {
  const char *name, *spec;
};

constexpr Workload kWorkloads[] = {
    {"product 1024", "matmul:M=1024,N=1024,K=1024"},
    {"conv 28x28x128", "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1"},
    {"softmax 64x1000", "softmax:R=64,C=1000"},
    {"winograd 4", "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4"},
};
constexpr int kTrials = 256, kRounds = 12;
constexpr std::size_t kBatch = 32;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Any times will do, if they follow from the candidate.
double seconds_of(const space::Space& space, const decide::Candidate& c) {
  double sum = 1;
  for (const float v : space.vector_of(c)) sum += static_cast<double>(v);
  return 1e-4 * sum;
}

// Passes candidates on to the scorer of a learner, and counts them.
class CountingScorer final : public Scorer {
 public:
  explicit CountingScorer(Scorer& scorer) : scorer_(scorer) {}
  bool ready() const override { return scorer_.ready(); }
  std::vector<float> score(std::span<const decide::Candidate> candidates) override {
    count += std::ssize(candidates);
    return scorer_.score(candidates);
  }
  std::vector<float> spread(std::span<const decide::Candidate> candidates) override {
    return scorer_.spread(candidates);
  }
  const Scorer& inner() const { return scorer_; }
  std::int64_t count = 0;

 private:
  Scorer& scorer_;
};

Result<void> run(const Workload& w, const std::vector<std::string>& network) {
  TESSERA_TRY(const te::OpSpec spec, te::parse_op_spec(w.spec));
  TESSERA_TRY(const te::Dag dag, te::make_dag(spec));
  const target::Target one = target::code_target(target::host(), 1);
  TESSERA_TRY(const space::Space space, space::make_space(dag, one));
  LearnerOptions options;
  options.background = false;
  options.pretrained = network;
  options.code_threads = 1;
  TESSERA_TRY(const std::unique_ptr<Learner> learner, Learner::make(options));
  TESSERA_TRY(const PolicyEntry* entry, find_policy("evolutionary"));
  CountingScorer scorer(learner->add_task(space));
  const std::unique_ptr<Policy> policy = entry->make(space, scorer, {});
  const auto observe = [&](std::size_t n) {
    std::vector<Observation> results;
    for (const decide::Candidate& c : policy->propose(n))
      results.push_back({c, seconds_of(space, c), false});
    policy->observe(results);
    learner->observe(scorer.inner(), results);
  };
  for (int t = 0; t < kTrials; t += static_cast<int>(kBatch)) observe(kBatch);
  learner->update();
  learner->wait();
  const std::int64_t before = scorer.count, scored_before = learner->state().scored;
  const double begin = cpu_seconds();
  for (int r = 0; r < kRounds; ++r) observe(kBatch);
  const double took = cpu_seconds() - begin;
  const auto count = static_cast<double>(scorer.count - before);
  const auto scored = static_cast<double>(learner->state().scored - scored_before);
  std::printf("%-16s %8.0f candidates/s, %3.0f %% of them new, %8.1f ms a round\n", w.name,
              count / took, 100 * scored / count, 1e3 * took / kRounds);
  return {};
}

int main_of(int argc, char** argv) {
  const std::vector<std::string> network(argv + 1, argv + argc);
  for (const Workload& w : kWorkloads) {
    if (const Result<void> done = run(w, network); !done) {
      std::fprintf(stderr, "%s: %s\n", w.name, done.error().message.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace tessera::search

int main(int argc, char** argv) { return tessera::search::main_of(argc, argv); }
