#include "tests/testing/testing.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tessera/support/tolerance.h"

namespace tessera::testing {
namespace {

bool close(double got, double want, double tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= tolerance * std::fmax(1.0, std::fabs(want));
}

Shape index_of(std::int64_t flat, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool update_golden() {
  if (std::getenv("TESSERA_UPDATE_GOLDEN")) return true;
  const std::string command = read_file("/proc/self/cmdline");
  return command.find("--update-golden") != std::string::npos;
}

std::size_t first_difference_line(const std::string& a, const std::string& b) {
  std::size_t line = 1;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) line += a[i] == '\n';
  return line;
}

}  // namespace

double tolerance(DType t, std::int64_t reduction_length) {
  if (!is_float(t)) return 0;
  const double n = static_cast<double>(reduction_length);
  return 2 * (unit_roundoff(t) * (4 + std::sqrt(n)) + unit_roundoff(compute_type(t)) * n);
}

std::string mismatch(const HostTensor& got, const HostTensor& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return fmt::format("got {} {}, want {} {}", to_text(got.dtype()), to_text(got.shape()),
                       to_text(want.dtype()), to_text(want.shape()));
  }
  std::int64_t first = -1;
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const bool ok = is_float(got.dtype()) ? close(got.get_float(i), want.get_float(i), tolerance)
                                          : got.get_int(i) == want.get_int(i);
    if (ok) continue;
    if (bad++ == 0) first = i;
  }
  if (bad == 0) return "";
  const auto index = fmt::format("[{}]", fmt::join(index_of(first, got.shape()), ", "));
  const auto rest = fmt::format("{} of {} elements differ", bad, got.size());
  if (!is_float(got.dtype())) {
    return fmt::format("at {}: got {}, want {}; {}", index, got.get_int(first), want.get_int(first),
                       rest);
  }
  return fmt::format("at {}: got {}, want {}, tolerance {:.3g}; {}", index, got.get_float(first),
                     want.get_float(first), tolerance, rest);
}

void expect_golden(const std::string& path, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(TESSERA_GOLDEN_DIR) / path;
  if (update_golden()) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  if (!std::filesystem::exists(file)) {
    ADD_FAILURE() << "golden file " << path << " does not exist; create it with --update-golden:\n"
                  << text;
    return;
  }
  const std::string want = read_file(file);
  EXPECT_TRUE(text == want) << path << " differs from line " << first_difference_line(text, want)
                            << "; review and refresh with --update-golden. Got:\n"
                            << text;
}

}  // namespace tessera::testing
