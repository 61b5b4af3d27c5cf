#include "tessera/support/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/support/float_format.h"

namespace tessera {
namespace {

struct Row {
  DType type;
  // Roundings that one step may cost. Wide floats are summed in blocks, in another order and
  // through Winograd's transforms; an error of a schedule is larger by orders of magnitude. Narrow
  // types have no room for it.
  double slack;
  double most;  // of a whole network
};

constexpr std::array<Row, 8> kRows = {{
    {DType::kF64, 128, 1e-4},
    {DType::kF32, 128, 1e-4},
    {DType::kF16, 8, 5e-2},
    // In SqueezeNet 1.1 with random weights, OpenVINO's bf16 differs from its f32 by up to 7.4e-2.
    {DType::kBF16, 8, 1e-1},
    {DType::kF8E4M3, 2, 0.25},
    {DType::kF8E5M2, 2, 0.5},
    // A value on the border between two integers may fall to either side: one step, two roundings.
    // Several such steps meet in one sum of the next layer. That does not grow with the network:
    // there is nothing to be said of single numbers behind many of them.
    {DType::kI16, 8, 4.0 / 65535},
    {DType::kI8, 8, 4.0 / 255},
}};

// No type of its own: only tensor cores take it. As f16, whose fraction is as long.
constexpr Row kTf32 = {DType::kF16, 8, 5e-2};

double allowed(const Row& r, double count) {
  return std::min(r.most, r.slack * unit_roundoff(r.type) * std::sqrt(count));
}

// Signed and unsigned integers have the same number of steps.
DType row_type(DType t) {
  return t == DType::kU8 ? DType::kI8 : t == DType::kU16 ? DType::kI16 : t;
}

std::size_t row_of(DType t) {
  const auto it =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.type == row_type(t); });
  return static_cast<std::size_t>(it - kRows.begin());
}

}  // namespace

double unit_roundoff(DType t) {
  if (is_float(t)) return float_format(t).unit_roundoff();
  const bool quantises = is_int(t) && size_bytes(t) <= 2;
  return quantises ? 0.5 / (std::ldexp(1.0, 8 * size_bytes(t)) - 1) : 0;
}

void Roundings::add(DType to, double length) {
  const std::size_t row = row_of(to);
  if (row < kRows.size()) counts_[row] += length;
}

void Roundings::add(const Roundings& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  tf32_ += other.tf32_;
}

void Roundings::add_tf32(double count) { tf32_ += count; }

double Roundings::count(DType to) const {
  const std::size_t row = row_of(to);
  return row < kRows.size() ? counts_[row] : 0;
}

bool Roundings::any() const {
  return tf32_ > 0 || std::any_of(counts_.begin(), counts_.end(), [](double c) { return c > 0; });
}

double tolerance(const Roundings& roundings) {
  double sum = allowed(kTf32, roundings.tf32_);
  for (const Row& r : kRows) sum += allowed(r, roundings.count(r.type));
  return sum;
}

double rounding_of_terms(DType t, double magnitude) { return 4 * unit_roundoff(t) * magnitude; }

double over_tolerance(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : std::numeric_limits<double>::infinity();
}

}  // namespace tessera
