// Candidates a second through cost models:
// model_bench [THREADS [FILE | NETWORK:NAME=N,... | gbt:rounds=N,depth=N]...]
#include <cstdio>
#include <cstdlib>

#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/support/clock.h"
#include "tests/infer/random_network.h"

namespace tessera::model {
namespace {

nn::TrainedNetwork from_text(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string name = text.substr(0, colon);
  nn::Hyper hyper = nn::find_network(name).value()->defaults;
  for (std::size_t at = colon + 1; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size()), eq = text.find('=', at);
    hyper[text.substr(at, eq - at)] = std::atoll(text.c_str() + eq + 1);
    at = end + 1;
  }
  const auto columns =
      static_cast<std::int64_t>(feature::feature_names(feature::FeatureKind::kStatement).size());
  return infer::testing::random_network(name, columns, 10, true, 1, hyper);
}

// "gbt:rounds=N,depth=N": trees fitted to noise, which makes them as large as they may be.
void run_trees(const std::string& text, int threads) {
  const auto number = [&](const std::string& name, int absent) {
    const std::size_t at = text.find(name + "=");
    return at == std::string::npos ? absent : std::atoi(text.c_str() + at + name.size() + 1);
  };
  const nn::TrainedNetwork like = from_text("mlp:hidden=8");
  TrainingSet data;
  data.features = infer::testing::random_features(like, 2000, 8, 3);
  Rng rng(4);
  for (std::size_t i = 0; i < data.features.candidates(); ++i) {
    data.labels.push_back(static_cast<float>(rng.uniform()));
    data.groups.push_back(static_cast<std::int32_t>(i % 8));
  }
  auto model = make_model("gbt", {});
  TESSERA_CHECK(model.ok(), "{}", model.error().message);
  FitOptions fit{0, threads, number("rounds", 400), number("depth", 8)};
  TESSERA_CHECK((*model)->fit(data, fit).ok(), "no fit");
  for (const std::int64_t most_rows : {4, 8, 16}) {
    const feature::FeatureSet set = infer::testing::random_features(like, 4096, most_rows, 2);
    std::size_t done = 0;
    const auto begin = Clock::now();
    while (seconds_since(begin) < 1.0) {
      (void)(*model)->predict(set);
      done += set.candidates();
    }
    std::printf("%-44s threads %d  rows 1..%-2d  %9.0f candidates/s\n", text.c_str(), threads,
                static_cast<int>(most_rows), static_cast<double>(done) / seconds_since(begin));
  }
}

void run(const std::string& text, int threads) {
  if (text.rfind("gbt", 0) == 0) return run_trees(text, threads);
  Result<nn::TrainedNetwork> file = nn::load_network(text);
  const nn::TrainedNetwork network = file.ok() ? std::move(*file) : from_text(text);
  const auto start = Clock::now();
  auto scorer = infer::NetworkScorer::make(network, threads);
  TESSERA_CHECK(scorer.ok(), "{}", scorer.error().message);
  const double load_s = seconds_since(start);
  for (const std::int64_t most_rows : {4, 8, 16}) {
    const feature::FeatureSet set = infer::testing::random_features(network, 4096, most_rows, 2);
    (void)(*scorer)->run(set);
    std::size_t done = 0;
    const auto begin = Clock::now();
    while (seconds_since(begin) < 1.0) {
      (void)(*scorer)->run(set);
      done += set.candidates();
    }
    std::printf("%-44s threads %d  rows 1..%-2d  %9.0f candidates/s  (first instance %.2f s)\n",
                text.c_str(), threads, static_cast<int>(most_rows),
                static_cast<double>(done) / seconds_since(begin), load_s);
  }
}

}  // namespace
}  // namespace tessera::model

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<std::string> texts(argv + std::min(argc, 2), argv + argc);
  if (texts.empty()) {
    texts = {"gbt",
             "mlp:hidden=128",
             "mlp:hidden=256",
             "atformer:hidden=64,ffn=64",
             "atformer:hidden=128,ffn=128",
             "atformer:hidden=512"};
  }
  for (const std::string& text : texts) tessera::model::run(text, threads);
}
