#include "tessera/model/time_calibration.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace tessera::model {
namespace {

constexpr const char* kNote = "time_calibration";
constexpr int kRounds = 20;  // rho and the centre depend on each other; they settle within a few
const double kLn2 = std::log(2.0);

struct Moments {
  double total = 0;
  double concentration = 0;  // sum of squared shares: 1 for one task, 1 / n for n equal ones
};

Moments moments_of(const std::vector<double>& seconds) {
  Moments m;
  for (const double s : seconds) m.total += s;
  for (const double s : seconds) m.concentration += s * s / (m.total * m.total);
  return m;
}

// log2 of the median of a sum over its prediction: errors that cancel each other raise the sum,
// for those upward weigh more.
double centre(const TimeCalibration& c, double concentration) {
  const double own = (1 - c.rho) * c.sigma * c.sigma;
  return c.bias + 0.5 * kLn2 * own * (1 - concentration);
}

double deviation(const TimeCalibration& c, double concentration) {
  return c.sigma * std::sqrt(c.rho + (1 - c.rho) * concentration);
}

std::vector<double> seconds_of(const NetworkErrors& network) {
  std::vector<double> out;
  for (const TaskError& t : network) out.push_back(t.seconds);
  return out;
}

double error_of(const NetworkErrors& network) {
  double predicted = 0, measured = 0;
  for (const TaskError& t : network) {
    predicted += t.seconds;
    measured += t.seconds * std::exp2(t.error);
  }
  return std::log2(measured / predicted);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return std::lerp(values[low], values[high], at - static_cast<double>(low));
}

// Every network counts alike, its tasks by their share of its time.
void fit_tasks(const std::vector<NetworkErrors>& networks, TimeCalibration* c) {
  double sum = 0, squares = 0;
  for (const NetworkErrors& n : networks) {
    const double total = moments_of(seconds_of(n)).total;
    for (const TaskError& t : n) {
      sum += t.seconds / total * t.error;
      squares += t.seconds / total * t.error * t.error;
    }
  }
  const auto count = static_cast<double>(networks.size());
  c->bias = sum / count;
  c->sigma = std::sqrt(std::max(0.0, squares / count - c->bias * c->bias));
}

// Errors of whole networks spread as much as rho says they do.
void fit_rho(const std::vector<NetworkErrors>& networks, TimeCalibration* c) {
  if (c->sigma <= 0) return;
  c->rho = 0.5;
  for (int round = 0; round < kRounds; ++round) {
    double excess = 0, room = 0;
    for (const NetworkErrors& n : networks) {
      const double h = moments_of(seconds_of(n)).concentration;
      const double d = error_of(n) - centre(*c, h);
      excess += d * d / (c->sigma * c->sigma) - h;
      room += 1 - h;
    }
    c->rho = room > 0 ? std::clamp(excess / room, 0.0, 1.0) : 1;
  }
}

std::vector<double> standardised(const std::vector<NetworkErrors>& networks,
                                 const TimeCalibration& c) {
  std::vector<double> out;
  for (const NetworkErrors& n : networks) {
    const double h = moments_of(seconds_of(n)).concentration;
    const double spread = deviation(c, h);
    out.push_back(spread > 0 ? (error_of(n) - centre(c, h)) / spread : 0);
  }
  return out;
}

}  // namespace

double TimeCalibration::expected_gain(const std::string& kind, double promised) const {
  auto found = gains.find(kind);
  if (found == gains.end()) found = gains.find("");
  if (found == gains.end()) return 0;
  const Gain& g = found->second;
  return std::clamp(g.gained + gain_slope * (promised - g.promised), 0.0, most_gain);
}

TimeInterval predict_total(const std::vector<double>& task_seconds, const TimeCalibration& c) {
  const Moments m = moments_of(task_seconds);
  if (!(m.total > 0)) return {};
  const double middle = std::log2(m.total) + centre(c, m.concentration);
  const double spread = deviation(c, m.concentration);
  return {std::exp2(middle + c.low * spread), std::exp2(middle),
          std::exp2(middle + c.high * spread)};
}

TimeCalibration fit_calibration(const std::vector<NetworkErrors>& networks) {
  TimeCalibration c;
  c.networks = static_cast<int>(networks.size());
  if (networks.size() < 2) return c;
  fit_tasks(networks, &c);
  fit_rho(networks, &c);
  const std::vector<double> z = standardised(networks, c);
  // A further network has n + 1 places between and beside n sorted values, all equally likely.
  const double n = static_cast<double>(z.size());
  const double outer = std::max(0.0, (0.1 * (n + 1) - 1) / (n - 1));
  c.low = quantile(z, outer);
  c.high = quantile(z, 1 - outer);
  return c;
}

Coverage leave_one_out(const std::vector<NetworkErrors>& networks) {
  Coverage out;
  for (const NetworkErrors& left_out : networks) {
    std::set<std::string> shared;
    for (const TaskError& t : left_out) shared.insert(t.task);
    std::vector<NetworkErrors> others;
    for (const NetworkErrors& n : networks) {
      if (&n == &left_out) continue;
      NetworkErrors rest;
      for (const TaskError& t : n) {
        if (!shared.contains(t.task)) rest.push_back(t);
      }
      if (!rest.empty()) others.push_back(std::move(rest));
    }
    if (others.size() < 2) continue;
    const TimeInterval i = predict_total(seconds_of(left_out), fit_calibration(others));
    double measured = 0;
    for (const TaskError& t : left_out) measured += t.seconds * std::exp2(t.error);
    ++out.networks;
    out.covered += measured >= i.low_s && measured <= i.high_s ? 1 : 0;
  }
  return out;
}

std::string kind_of_task(const std::string& name) { return name.substr(0, name.find('+')); }

// "bias=0.1 sigma=0.3 rho=0.5 low=-1.2 high=1.3 networks=40 slope=0.1 most=0.9 conv=0.2,0.3 ..."
void note_calibration(const TimeCalibration& c, std::map<std::string, std::string>* notes) {
  std::string text = fmt::format(
      "bias={:.5f} sigma={:.5f} rho={:.5f} low={:.5f} high={:.5f} networks={} "
      "slope={:.5f} most={:.5f}",
      c.bias, c.sigma, c.rho, c.low, c.high, c.networks, c.gain_slope, c.most_gain);
  for (const auto& [kind, g] : c.gains) {
    text += fmt::format(" {}={:.5f},{:.5f}", kind.empty() ? "*" : kind, g.gained, g.promised);
  }
  (*notes)[kNote] = text;
}

std::optional<TimeCalibration> calibration_of(const std::map<std::string, std::string>& notes) {
  const auto found = notes.find(kNote);
  if (found == notes.end()) return std::nullopt;
  TimeCalibration c;
  double networks = 0;
  const std::map<std::string, double*> fields = {
      {"bias", &c.bias}, {"sigma", &c.sigma},     {"rho", &c.rho},          {"low", &c.low},
      {"high", &c.high}, {"networks", &networks}, {"slope", &c.gain_slope}, {"most", &c.most_gain}};
  std::istringstream words(found->second);
  std::size_t read = 0;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string name = word.substr(0, equals);
    std::istringstream numbers(word.substr(equals + 1));
    double first = 0, second = 0;
    char comma = 0;
    if (!(numbers >> first) || !std::isfinite(first)) return std::nullopt;
    if (const auto field = fields.find(name); field != fields.end()) {
      *field->second = first;
      ++read;
    } else if (numbers >> comma >> second && comma == ',' && std::isfinite(second)) {
      c.gains[name == "*" ? "" : name] = {first, second};
    } else {
      return std::nullopt;
    }
  }
  if (read < fields.size() || c.sigma < 0 || c.rho < 0 || c.rho > 1) return std::nullopt;
  c.networks = static_cast<int>(networks);
  return c;
}

}  // namespace tessera::model
