// The tables of columns: one row a feature, its name beside how it is read.
#pragma once

#include <cmath>
#include <memory_resource>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/feature/launch_view.h"
#include "tessera/scheduling/feature/program.h"
#include "tessera/scheduling/feature/statement_view.h"

namespace tessera::feature {

// Raise when a column keeps its name but changes its meaning.
inline constexpr int kSchemaVersion = 1;

// Signed logarithm: 0 stays 0, large values come near each other.
inline float slog(double x) {
  const auto f = static_cast<float>(x);
  if (f == 0 || f == 1) return f;  // most columns of most rows
  return f >= 0 ? std::log2(f + 1) : -std::log2(1 - f);
}

struct StatementColumn {
  std::string name;
  float (*read)(const StatementView& view, std::size_t item);
  std::size_t item;  // which buffer slot or sample, where the column is one of several
};
const std::vector<StatementColumn>& statement_columns();

struct LaunchColumn {
  std::string name;
  float (*read)(const LaunchView& view, const target::Target& target);
};
const std::vector<LaunchColumn>& launch_columns();

const std::vector<std::string>& loop_names();
const std::vector<std::string>& curve_names();
// `parents`, where not null, gains the row of the loop around each, or -1.
void append_loop_rows(const Program& program, std::pmr::memory_resource* memory,
                      std::vector<float>* out, std::vector<std::int16_t>* parents);
void append_curve_row(const Program& program, std::pmr::memory_resource* memory,
                      std::vector<float>* out);

}  // namespace tessera::feature
