#include "tessera/app/cli/tune/session_report.h"

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/report/layers.h"
#include "tessera/app/report/summary.h"
#include "tessera/trials/record/session_summary.h"

namespace tessera::cli {
namespace {

using Layers = std::map<std::string, std::vector<std::string>>;

// Of the tuned models, and of the untuned ones where their kernels are others.
Result<Layers> layers_by_task(const app::TuneOptions& options, const plan::Plan& plan) {
  Layers out;
  for (const app::TuneSubject& subject : options.subjects) {
    if (subject.is_op) continue;
    app::CompileOptions how = subject.compile;
    TESSERA_TRY(how.plan, app::PlanSchedules::make(plan, options.target, false));
    Layers here;
    for (const bool tuned : {true, false}) {
      if (!tuned) how.plan.reset();
      TESSERA_TRY(graph::Graph graph, app::import_graph(subject.name, how));
      TESSERA_TRY(const task::PlannedGraph planned, app::plan_graph(std::move(graph), how));
      here.merge(report::layers_of(planned));
    }
    for (auto& [key, names] : here) out[key].insert(out[key].end(), names.begin(), names.end());
  }
  return out;
}

}  // namespace

Result<void> complete_summary(const app::TuneOptions& options, const TuneSummary& summary) {
  const app::TuneResult& r = summary.result;
  if (options.database.empty() || r.session == 0) return {};
  TESSERA_TRY(const auto texts, record::session_summaries(options.database));
  const auto text = texts.find(r.session);
  if (text == texts.end()) return {};
  TESSERA_TRY(report::Summary told, report::summary_from_json(text->second));
  TESSERA_TRY(const Layers layers, layers_by_task(options, r.plan));
  for (report::KernelUse& k : told.kernels) {
    if (const auto it = layers.find(k.key); it != layers.end()) k.layers = it->second;
  }
  for (const app::PeerComparison& p : summary.peers)
    told.peers.push_back({p.subject, p.peer, p.ours_s, p.theirs_s});
  told.unproved = summary.unproved_path;
  return record::keep_session_summary(options.database, r.session, report::to_json(told));
}

}  // namespace tessera::cli
