#include "feature_case.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::feature {

te::Dag product_dag(std::int64_t i, std::int64_t j, std::int64_t k) {
  te::DagBuilder b("product");
  const ir::Buffer x = b.input("A", DType::kF32, {i, k});
  const ir::Buffer w = b.constant("B", DType::kF32, {k, j});
  return b.build({b.reduce("C", te::Reducer::kSum, {{"i", i}, {"j", j}}, {{"k", k}},
                           [&](const te::Indices& s, const te::Indices& r) {
                             return te::at(x, {s[0], r[0]}) * te::at(w, {r[0], s[1]});
                           })});
}

te::Dag dag_of(const std::string& spec) {
  const auto parsed = te::parse_op_spec(spec);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  const auto dag = te::make_dag(*parsed);
  EXPECT_TRUE(dag.ok()) << dag.error().message;
  return *dag;
}

schedule::State state_of(const te::Dag& dag, const std::string& text) {
  const auto parsed = schedule::schedule_from_text(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  auto state = schedule::apply(dag, *parsed);
  EXPECT_TRUE(state.ok()) << state.error().message;
  return std::move(state).value();
}

target::Target test_target() {
  target::Target t;
  t.name = "test";
  t.cores = 2;
  t.l1_bytes = 32 << 10;
  t.l2_bytes = 1 << 20;
  t.l3_bytes = 32 << 20;
  return t;
}

std::vector<NamedRow> rows_of(const schedule::State& state, FeatureKind kind) {
  std::vector<float> values;
  const auto result = extract(state, test_target(), kind, &values);
  EXPECT_TRUE(result.ok()) << result.error().message;
  const std::vector<std::string>& names = feature_names(kind);
  EXPECT_EQ(values.size() % names.size(), 0u);
  std::vector<NamedRow> rows;
  for (std::size_t at = 0; at + names.size() <= values.size(); at += names.size()) {
    NamedRow& row = rows.emplace_back();
    for (std::size_t c = 0; c < names.size(); ++c) row[names[c]] = values[at + c];
  }
  return rows;
}

int slot_with(const NamedRow& row, const std::string& name, double value) {
  for (int slot = 0; slot < 5; ++slot) {
    const auto it = row.find(fmt::format("B{}.{}", slot, name));
    if (it != row.end() && std::abs(it->second - value) < 1e-3) return slot;
  }
  return -1;
}

double log_of(double value) { return std::log2(value + 1); }

}  // namespace tessera::feature
