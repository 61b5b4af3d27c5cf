#include "tessera/learn/dataset/candidate_rows.h"

#include <algorithm>
#include <numeric>

#include "tessera/scheduling/feature/machine_columns.h"
#include "tessera/scheduling/feature/operator_embedding.h"
#include "tessera/scheduling/feature/schema.h"
#include "tessera/scheduling/feature/step_rows.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/hash.h"

namespace tessera::dataset {
namespace {

using feature::Rows;

// Raise when a column of a context keeps its name but changes its meaning.
constexpr int kContextVersion = 1;

std::vector<std::string> make_context_names(Rows kind) {
  std::vector<std::string> names = feature::operator_embedding_names();
  if (kind == Rows::kStatement) return names;
  for (const feature::MachineColumn& c : feature::machine_columns()) names.push_back(c.name);
  if (kind == Rows::kLoop) return names;
  for (std::size_t i = 0; i < kExtents; ++i) names.push_back(fmt::format("extent_{}", i));
  for (std::size_t i = 0; i < kTaskBits; ++i) names.push_back(fmt::format("task_bit_{}", i));
  for (std::size_t i = 0; i < kTargetBits; ++i) names.push_back(fmt::format("target_bit_{}", i));
  return names;
}

double points_of(const te::Op& op) {
  double points = 1;
  for (const auto* axes : {&op.axes, &op.reduce_axes}) {
    for (const te::Axis& a : *axes) points *= static_cast<double>(a.extent);
  }
  return points;
}

// Extents of all axes, those of the largest operation first.
void append_extents(const te::Dag& dag, std::vector<float>* out) {
  std::vector<std::size_t> order(dag.ops.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points_of(dag.ops[a]) > points_of(dag.ops[b]);
  });
  const std::size_t end = out->size() + kExtents;
  for (const std::size_t n : order) {
    for (const auto* axes : {&dag.ops[n].axes, &dag.ops[n].reduce_axes}) {
      for (const te::Axis& a : *axes) {
        if (out->size() < end) out->push_back(feature::slog(static_cast<double>(a.extent)));
      }
    }
  }
  out->resize(end);
}

}  // namespace

const std::vector<std::string>& row_names(Rows kind) {
  switch (kind) {
    case Rows::kStatement:
      return feature::feature_names(feature::FeatureKind::kStatement);
    case Rows::kLoop:
      return feature::feature_names(feature::FeatureKind::kLoop);
    case Rows::kStep:
      break;
  }
  return feature::step_names();
}

const std::vector<std::string>& context_names(Rows kind) {
  static const std::vector<std::string> statement = make_context_names(Rows::kStatement);
  static const std::vector<std::string> loop = make_context_names(Rows::kLoop);
  static const std::vector<std::string> step = make_context_names(Rows::kStep);
  return kind == Rows::kStatement ? statement : kind == Rows::kLoop ? loop : step;
}

std::string row_schema(Rows kind) {
  switch (kind) {
    case Rows::kStatement:
      return feature::schema_digest(feature::FeatureKind::kStatement);
    case Rows::kLoop:
      return feature::schema_digest(feature::FeatureKind::kLoop);
    case Rows::kStep:
      break;
  }
  return feature::step_schema_digest();
}

std::string context_schema(Rows kind) {
  std::string text = fmt::format("context {}", kContextVersion);
  for (const std::string& name : context_names(kind)) text += " " + name;
  return to_hex(hash_bytes(text));
}

CandidateRows::CandidateRows(const target::Target& target, int threads, Rows kind)
    : target_(target::code_target(target, threads)), kind_(kind), extractor_(target_) {}

Result<std::size_t> CandidateRows::append(const space::Space& space,
                                          const decide::Candidate& candidate,
                                          std::vector<float>* rows,
                                          std::vector<std::int16_t>* parents) {
  TESSERA_TRY(const schedule::Schedule steps, space.schedule(candidate));
  return append(space.dag(), steps, rows, parents);
}

Result<std::size_t> CandidateRows::append(const te::Dag& dag, const schedule::Schedule& steps,
                                          std::vector<float>* rows,
                                          std::vector<std::int16_t>* parents) {
  const std::size_t before = rows->size();
  if (kind_ == Rows::kStep) {
    TESSERA_TRY(const feature::StepRows done, feature::append_step_rows(dag, steps, rows));
    cut_ += done.cut;
    return done.rows;
  }
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, steps));
  extractor_.remember(dag);
  if (kind_ == Rows::kLoop) {
    TESSERA_DO(extractor_.extract_loops(state, rows, parents));
  } else {
    TESSERA_DO(extractor_.extract(state, feature::FeatureKind::kStatement, rows));
  }
  return (rows->size() - before) / row_names(kind_).size();
}

void CandidateRows::append_context(const te::Dag& dag, std::vector<float>* out) const {
  const std::size_t end = out->size() + context_names(kind_).size();
  feature::append_operator_embedding(dag, out);
  if (kind_ != Rows::kStatement) feature::append_machine(target_, out);
  if (kind_ == Rows::kStep) append_extents(dag, out);
  out->resize(end);
}

}  // namespace tessera::dataset
