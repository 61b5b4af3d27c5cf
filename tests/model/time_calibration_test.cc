#include "tessera/model/time_calibration.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tessera::model {
namespace {

// Networks whose errors are as the calibration assumes.
std::vector<NetworkErrors> drawn(int count, double bias, double sigma, double rho) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<NetworkErrors> out;
  for (int n = 0; n < count; ++n) {
    const double common = std::sqrt(rho) * normal(engine);
    NetworkErrors network;
    for (int t = 0; t < 12; ++t) {
      const double own = std::sqrt(1 - rho) * normal(engine);
      network.push_back({"t" + std::to_string(n) + "." + std::to_string(t),
                         std::exp(2 * uniform(engine)), bias + sigma * (common + own)});
    }
    out.push_back(std::move(network));
  }
  return out;
}

TEST(TimeCalibration, FindsWhatTheErrorsWereDrawnFrom) {
  for (const double rho : {0.1, 0.5, 0.9}) {
    const TimeCalibration c = fit_calibration(drawn(400, 0.3, 0.5, rho));
    EXPECT_NEAR(c.bias, 0.3, 0.06) << rho;
    EXPECT_NEAR(c.sigma, 0.5, 0.04) << rho;
    EXPECT_NEAR(c.rho, rho, 0.12) << rho;
    EXPECT_NEAR(c.low, -1.28, 0.2) << rho;
    EXPECT_NEAR(c.high, 1.28, 0.2) << rho;
    EXPECT_EQ(c.networks, 400);
  }
}

TEST(TimeCalibration, IntervalsHoldAsOftenAsTheySay) {
  for (const double rho : {0.0, 0.3, 1.0}) {
    for (const int count : {40, 200}) {
      const Coverage c = leave_one_out(drawn(count, -0.2, 0.6, rho));
      EXPECT_EQ(c.networks, count);
      EXPECT_GE(c.share(), 0.75) << rho << " " << count;
      EXPECT_LE(c.share(), 0.85) << rho << " " << count;
    }
  }
}

TEST(TimeCalibration, ErrorsThatAreNotSharedCancel) {
  TimeCalibration c;
  c.sigma = 0.5;
  c.rho = 0;
  const auto width = [&](std::size_t n) {
    const TimeInterval i = predict_total(std::vector<double>(n, 1.0), c);
    EXPECT_LT(i.low_s, i.seconds);
    EXPECT_LT(i.seconds, i.high_s);
    return std::log2(i.high_s / i.low_s);
  };
  EXPECT_NEAR(width(16), width(1) / 4, 1e-9);
  c.rho = 1;
  EXPECT_NEAR(width(16), width(1), 1e-9);
  EXPECT_NEAR(predict_total({1, 3}, c).seconds, 4, 1e-9);
  EXPECT_EQ(predict_total({}, c).seconds, 0);
}

// Tasks that the one left out shares with others may not vouch for it.
TEST(TimeCalibration, LeavingANetworkOutLeavesItsTasksOut) {
  std::vector<NetworkErrors> same(4, {{"a", 1, 0.5}, {"b", 1, 0.5}, {"c", 1, 0.5}});
  EXPECT_EQ(leave_one_out(same).networks, 0) << "nothing is left to estimate from";
  EXPECT_EQ(leave_one_out({}).share(), 0);
}

TEST(TimeCalibration, GainsGoByKindAndPromise) {
  TimeCalibration c;
  EXPECT_EQ(c.expected_gain("conv", 1), 0);
  c.gains = {{"", {0.2, 0.1}}, {"conv", {0.4, 0.3}}};
  c.gain_slope = 0.5;
  c.most_gain = 0.6;
  EXPECT_DOUBLE_EQ(c.expected_gain("conv", 0.3), 0.4);
  EXPECT_DOUBLE_EQ(c.expected_gain("conv", 0.5), 0.5);
  EXPECT_DOUBLE_EQ(c.expected_gain("softmax", 0.1), 0.2);
  EXPECT_DOUBLE_EQ(c.expected_gain("conv", 9), 0.6);
  EXPECT_DOUBLE_EQ(c.expected_gain("conv", -9), 0);
  EXPECT_EQ(kind_of_task("conv+add+max"), "conv");
  EXPECT_EQ(kind_of_task("softmax"), "softmax");
}

TEST(TimeCalibration, NotesAreReadBack) {
  TimeCalibration c;
  c.bias = -0.25;
  c.sigma = 0.5;
  c.rho = 0.125;
  c.low = -1.5;
  c.high = 1.25;
  c.networks = 40;
  c.gains = {{"", {0.25, 0.5}}, {"conv", {0.75, 0}}};
  c.gain_slope = 0.5;
  c.most_gain = 1;
  std::map<std::string, std::string> notes;
  EXPECT_FALSE(calibration_of(notes).has_value());
  note_calibration(c, &notes);
  EXPECT_EQ(calibration_of(notes), c);
  const std::string good = notes["time_calibration"];
  for (const std::string& bad :
       {std::string(), std::string("bias=1"), good + " odd", good + " conv=x", good + " pool=1",
        "sigma=-1 " + good.substr(good.find("rho")) + " bias=0", good + " rho=2"}) {
    notes["time_calibration"] = bad;
    EXPECT_FALSE(calibration_of(notes).has_value()) << bad;
  }
}

}  // namespace
}  // namespace tessera::model
