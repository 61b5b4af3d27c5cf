#include "tessera/learn/train/trainer.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/train/memory_store.h"

namespace tessera::train {
namespace {

std::string scratch(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "tessera_train_" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

TrainOptions small_options() {
  TrainOptions options;
  options.network = "mlp";
  options.hyper = {{"hidden", 16}};
  options.trainee.threads = 1;
  options.epochs = 8;
  options.batch = 128;
  options.list = 32;
  options.lr = 5e-3;
  return options;
}

// The first tasks train, the last three validate.
std::vector<std::uint8_t> by_task(const MemoryStore& store, std::int32_t tasks) {
  std::vector<std::uint8_t> part;
  for (const MemoryStore::Item& item : store.items) part.push_back(item.task >= tasks - 3 ? 1 : 0);
  return part;
}

bool same_bytes(const nn::TrainedNetwork& a, const nn::TrainedNetwork& b) {
  if (a.weights.size() != b.weights.size()) return false;
  for (const auto& [name, tensor] : a.weights) {
    const auto it = b.weights.find(name);
    if (it == b.weights.end() || it->second.bytes() != tensor.bytes()) return false;
    if (std::memcmp(tensor.data(), it->second.data(), tensor.bytes()) != 0) return false;
  }
  return true;
}

class TrainerTest : public ::testing::Test {
 protected:
  const MemoryStore store_ = MemoryStore::make(feature::Rows::kStatement, 15, 60, 6, 21);
  const std::vector<std::uint8_t> part_ = by_task(store_, 15);
};

TEST_F(TrainerTest, EveryLossLearnsToOrderCandidatesOfOtherTasks) {
  for (const Loss loss : {Loss::kSquared, Loss::kRank, Loss::kLambdaRank, Loss::kListMle}) {
    TrainOptions options = small_options();
    options.trainee.loss = loss;
    options.epochs = 25;
    const Trained trained = train(store_, part_, options).value();
    EXPECT_GT(trained.validation.pairwise, 0.9) << to_text(loss);
    EXPECT_GT(trained.validation.peak1, 0.8) << to_text(loss);
    EXPECT_LT(trained.history.back().loss, trained.history.front().loss) << to_text(loss);
  }
}

TEST_F(TrainerTest, ValidityAndTimeAreLearnedBesides) {
  TrainOptions options = small_options();
  options.epochs = 40;
  options.trainee.time_weight = 0.1;
  const Trained trained = train(store_, part_, options).value();
  const Predictions predictions = predict(store_, trained.network, options.trainee).value();
  std::size_t right = 0;
  double squares = 0, total = 0;
  for (std::size_t i = 0; i < store_.size(); ++i) {
    const bool timed = store_.items[i].seconds > 0;
    if ((predictions.validity[i] > 0) == timed) ++right;
    if (!timed || part_[i] != 0) continue;
    squares += std::pow(std::log2(store_.items[i].seconds) - predictions.log_time[i], 2);
    total += 1;
  }
  EXPECT_GT(static_cast<double>(right), 0.98 * static_cast<double>(store_.size()));
  EXPECT_LT(std::sqrt(squares / total), 1.2);  // they spread over six binary orders of magnitude
  EXPECT_LT(trained.network.residual_low, trained.network.residual_mid);
  EXPECT_LT(trained.network.residual_mid, trained.network.residual_high);
}

TEST_F(TrainerTest, TheSameSeedGivesTheSameBytes) {
  TrainOptions options = small_options();
  options.fillers = 2;
  const Trained a = train(store_, part_, options).value();
  const Trained b = train(store_, part_, options).value();
  EXPECT_TRUE(same_bytes(a.network, b.network));
  options.seed = 2;
  EXPECT_FALSE(same_bytes(a.network, train(store_, part_, options).value().network));
}

TEST_F(TrainerTest, AResumedRunEndsAsAnUninterruptedOne) {
  TrainOptions options = small_options();
  const Trained whole = train(store_, part_, options).value();
  options.checkpoint = scratch("resume");
  options.resume = true;
  std::atomic<bool> stop = false;
  const Trained half =
      train(
          store_, part_, options, [&](const EpochReport& r) { stop = r.epoch == 3; }, &stop)
          .value();
  EXPECT_TRUE(half.interrupted);
  EXPECT_EQ(half.history.size(), 3);
  const Trained rest = train(store_, part_, options).value();
  EXPECT_EQ(rest.history.size(), 5);
  EXPECT_TRUE(same_bytes(rest.network, whole.network));
}

TEST_F(TrainerTest, ResumingWithOtherValuesIsRefusedByName) {
  TrainOptions options = small_options();
  options.epochs = 1;
  options.checkpoint = scratch("identity");
  options.resume = true;
  options.dataset = "d1";
  ASSERT_TRUE(train(store_, part_, options).ok());
  ASSERT_TRUE(train(store_, part_, options).ok());
  const auto refusal = [&](void (*change)(TrainOptions&)) {
    TrainOptions changed = options;
    change(changed);
    const auto trained = train(store_, part_, changed);
    if (trained.ok()) return std::string("resumed");
    const std::string& message = trained.error().message;
    return message.substr(message.find("another run: ") + 13);
  };
  EXPECT_EQ(refusal([](TrainOptions& o) { o.seed = 9; }), "seed 1, not 9");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.epochs = 2; }), "epochs 1, not 2");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.lr = 1; }), "lr 0.005, not 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.decay = Decay::kExponential; }),
            "decay cosine, not exponential");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.dataset = "d2"; }), "dataset d1, not d2");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.trainee.weight_decay = 0; }),
            "weight decay 0.01, not 0");
  EXPECT_EQ(refusal([](TrainOptions& o) {
              o.trainee.clip = 2;
              o.trainee.time_weight = 1;
            }),
            "clip 1, not 2; time weight 0.02, not 1");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.context = false; }).substr(0, 24),
            "context read, not hidden");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.patience = 5; }), "resumed");
  std::vector<std::uint8_t> part = part_;
  std::swap(part.front(), part.back());
  const auto other = train(store_, part, options);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("split "), std::string::npos) << other.error().message;
}

TEST_F(TrainerTest, StoppedAtOnceItReturnsWhatItHas) {
  const std::atomic<bool> stop = true;
  const Trained trained = train(store_, part_, small_options(), {}, &stop).value();
  EXPECT_TRUE(trained.interrupted);
  EXPECT_FALSE(trained.network.weights.empty());
}

TEST_F(TrainerTest, StopsEarlyAndKeepsTheBestEpoch) {
  TrainOptions options = small_options();
  options.epochs = 60;
  options.patience = 3;
  const Trained trained = train(store_, part_, options).value();
  double best = 0;
  int best_epoch = 0;
  for (const EpochReport& report : trained.history) {
    if (report.validation.metric() > best) {
      best = report.validation.metric();
      best_epoch = report.epoch;
    }
  }
  EXPECT_DOUBLE_EQ(trained.validation.metric(), best);
  EXPECT_EQ(trained.network.notes.at("epoch"), std::to_string(best_epoch));
  EXPECT_LE(trained.history.back().epoch, best_epoch + 3);
}

TEST_F(TrainerTest, FineTuningStartsFromAFileAndNeverEndsWorse) {
  TrainOptions options = small_options();
  const Trained first = train(store_, part_, options).value();
  const std::string path = scratch("init") + ".safetensors";
  ASSERT_TRUE(nn::save_network(first.network, path).ok());
  options.init = path;
  options.epochs = 2;
  options.lr = 1e-4;
  const Trained tuned = train(store_, part_, options).value();
  EXPECT_GE(tuned.validation.metric(), first.validation.metric());
  EXPECT_EQ(tuned.network.rows.shift, first.network.rows.shift);
  EXPECT_NE(tuned.network.context.scale, (std::vector<float>{0, 0}));
  options.context = false;
  EXPECT_EQ(train(store_, part_, options).value().network.context.scale,
            (std::vector<float>{0, 0}));
  options.context = true;
  options.network = "lstm";
  EXPECT_FALSE(train(store_, part_, options).ok());
}

TEST_F(TrainerTest, FineTuningThatNeverImprovesEndsEarly) {
  TrainOptions options = small_options();
  const std::string path = scratch("patience") + ".safetensors";
  ASSERT_TRUE(nn::save_network(train(store_, part_, options).value().network, path).ok());
  options.init = path;
  options.epochs = 20;
  options.patience = 3;
  options.lr = 1e-30;
  const Trained tuned = train(store_, part_, options).value();
  EXPECT_EQ(tuned.history.size(), 3);
  EXPECT_FALSE(tuned.improved);
}

TEST_F(TrainerTest, EveryNetworkTrains) {
  for (const nn::NetworkEntry& entry : nn::network_table()) {
    SCOPED_TRACE(entry.name);
    const MemoryStore store = MemoryStore::make(entry.rows, 4, 20, 5, 5);
    TrainOptions options = small_options();
    options.network = entry.name;
    options.hyper = {{"hidden", 8}};
    if (entry.defaults.count("heads") != 0) options.hyper["heads"] = 2;
    options.epochs = 2;
    const auto trained = train(store, std::vector<std::uint8_t>(store.size(), 0), options);
    ASSERT_TRUE(trained.ok()) << trained.error().message;
    EXPECT_EQ(trained->network.notes.at("records"), "80");
    EXPECT_TRUE(std::isfinite(trained->history.back().loss));
  }
}

TEST_F(TrainerTest, RefusesWhatCannotBeTrained) {
  const auto message = [&](const TrainOptions& options, const std::vector<std::uint8_t>& part) {
    const auto trained = train(store_, part, options);
    return trained.ok() ? std::string("trained") : trained.error().message;
  };
  TrainOptions options = small_options();
  EXPECT_EQ(message(options, std::vector<std::uint8_t>(store_.size(), 2)),
            "the training part has no examples");
  options.network = "treegru";
  EXPECT_EQ(message(options, part_), "treegru reads rows per loop, the features are per statement");
  options = small_options();
  options.trainee.device = "abacus";
  EXPECT_EQ(message(options, part_), "no device 'abacus'; there are cpu, cuda, auto");
  options = small_options();
  options.lr = 1e30;
  EXPECT_NE(message(options, part_).find("diverged"), std::string::npos);
}

TEST(LearningRate, WarmsUpAndDecays) {
  TrainOptions options;
  options.lr = 1;
  options.last_lr = 0.01;
  options.warmup = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(options, 0.05), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 0.1), 1);
  EXPECT_NEAR(learning_rate(options, 0.55), 0.505, 1e-12);
  EXPECT_NEAR(learning_rate(options, 1), 0.01, 1e-12);
  options.decay = Decay::kExponential;
  EXPECT_NEAR(learning_rate(options, 0.55), 0.1, 1e-12);
}

}  // namespace
}  // namespace tessera::train
