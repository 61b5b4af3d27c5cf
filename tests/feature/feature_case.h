// Small Dags and named values of their features.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/schedule/state.h"

namespace tessera::feature {

using NamedRow = std::map<std::string, float>;

// C[i,j] = sum over k of A[i,k] * B[k,j]; B is constant.
te::Dag product_dag(std::int64_t i, std::int64_t j, std::int64_t k);
te::Dag dag_of(const std::string& spec);

// Fails the test when the text does not apply.
schedule::State state_of(const te::Dag& dag, const std::string& schedule);

// Two cores of four-lane vectors, caches of 32 KiB, 1 MiB and 32 MiB: no test depends on the host.
target::Target test_target();

std::vector<NamedRow> rows_of(const schedule::State& state, FeatureKind kind);

// The number of the slot "B<n>" of which `name` has that value; -1: none.
int slot_with(const NamedRow& row, const std::string& name, double value);

double log_of(double value);  // log2(value + 1)

}  // namespace tessera::feature
