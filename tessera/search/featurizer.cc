#include "tessera/search/featurizer.h"

#include <algorithm>
#include <thread>

#include "tessera/learn/model/row_schema.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::search {
namespace {

// Fewer candidates than this for each thread are not worth starting one: features of one take
// milliseconds, a thread some ten microseconds.
constexpr std::size_t kChunk = 8;

}  // namespace

Result<std::unique_ptr<Featurizer>> Featurizer::make(const model::Needs& needs,
                                                     const space::Space& space, int code_threads,
                                                     int threads) {
  std::unique_ptr<Featurizer> out(new Featurizer(needs, space));
  out->target_ = space.target();
  if (code_threads > 0) out->target_ = target::code_target(out->target_, code_threads);
  out->threads_ = static_cast<std::size_t>(std::max(1, threads));
  if (needs.rows == "decisions") return out;
  TESSERA_TRY(const model::RowSchema schema, model::row_schema(needs.rows));
  out->columns_ = static_cast<std::size_t>(schema.columns);
  const Result<feature::Rows> kind = feature::rows_from_text(needs.rows);
  if (!kind.ok()) {
    for (std::size_t t = 0; t < out->threads_; ++t) out->extractors_.emplace_back(out->target_);
    return out;
  }
  for (std::size_t t = 0; t < out->threads_; ++t) {
    out->rows_.emplace_back(out->target_, out->target_.code_threads(), *kind);
  }
  if (needs.context) out->rows_.front().append_context(space.dag(), &out->context_);
  return out;
}

bool Featurizer::compute_rows(const decide::Candidate& candidate, std::size_t thread,
                              std::vector<float>* rows, std::vector<std::int16_t>* parents) {
  if (needs_.rows == "decisions") {
    *rows = space_.vector_of(candidate);
    return true;
  }
  if (!rows_.empty()) return rows_[thread].append(space_, candidate, rows, parents).ok();
  const Result<schedule::Schedule> schedule = space_.schedule(candidate);
  if (!schedule.ok()) return false;
  const Result<schedule::State> state = schedule::apply(space_.dag(), *schedule);
  if (!state.ok()) return false;
  const auto kind = needs_.rows == feature::to_text(feature::FeatureKind::kLaunch)
                        ? feature::FeatureKind::kLaunch
                        : feature::FeatureKind::kCurve;
  return extractors_[thread].extract(*state, kind, rows).ok();
}

void Featurizer::add(const decide::Candidate& candidate, std::size_t index, std::size_t thread,
                     Part* part) {
  feature::FeatureSet& set = part->set;
  std::vector<float> rows;
  std::vector<std::int16_t> parents;
  if (!compute_rows(candidate, thread, &rows, &parents) || rows.empty()) return;
  set.columns = columns_ > 0 ? columns_ : rows.size();
  set.add(rows);
  if (needs_.parents) set.parents.insert(set.parents.end(), parents.begin(), parents.end());
  set.context_columns = context_.size();
  set.context.insert(set.context.end(), context_.begin(), context_.end());
  part->kept.push_back(index);
}

feature::FeatureSet Featurizer::compute(std::span<const decide::Candidate* const> candidates,
                                        std::vector<std::size_t>* kept) {
  const std::size_t chunks = std::clamp<std::size_t>(candidates.size() / kChunk, 1, threads_);
  std::vector<Part> parts(chunks);
  const auto work = [&](std::size_t chunk) {
    for (std::size_t i = candidates.size() * chunk / chunks;
         i < candidates.size() * (chunk + 1) / chunks; ++i) {
      add(*candidates[i], i, chunk, &parts[chunk]);
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < chunks; ++i) threads.emplace_back(work, i);
  work(0);
  threads.clear();
  kept->clear();
  feature::FeatureSet all = std::move(parts[0].set);
  for (std::size_t i = 0; i < chunks; ++i) {
    if (i > 0) all.append(parts[i].set);
    kept->insert(kept->end(), parts[i].kept.begin(), parts[i].kept.end());
  }
  return all;
}

}  // namespace tessera::search
