#include "tessera/app/cli/eval/graphs.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/study/search_replay.h"
#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/ranking.h"
#include "tessera/learn/model/graph_scorer.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using app::SearchReplay;
using graphset::Ranking;

// Among weights: what files say themselves.
constexpr const char* kEstimate = "estimate";

struct Judged {
  std::vector<Ranking> rankings;
  std::vector<SearchReplay> searches;
};

// Searches go through all that was measured of a program, whatever file it is in.
Result<std::vector<graphset::ConfigGraph>> read_graphs(const EvalGraphsArgs& args) {
  std::vector<graphset::ConfigGraph> out;
  for (const std::string& file : args.files) {
    TESSERA_TRY(graphset::ConfigGraph read, graphset::read_graph(file));
    const auto same = std::find_if(out.begin(), out.end(), [&](const graphset::ConfigGraph& g) {
      return args.searches && g.name == read.name;
    });
    if (same == out.end()) {
      out.push_back(std::move(read));
      continue;
    }
    Result<graphset::ConfigGraph> joined = graphset::join_configs(*same, read);
    if (!joined) return joined.error().with_context(file);
    *same = std::move(*joined);
  }
  return out;
}

// By config_estimate.
Result<std::vector<float>> estimates_of(const graphset::ConfigGraph& graph) {
  if (graph.estimate_ns.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "{}: has no estimates", graph.name);
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(graph.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> out(all.size());
  graphset::fill_estimates(graph, all, 1, out.data());
  return out;
}

// The share that all networks learnt from.
Result<double> share_of(const std::vector<std::unique_ptr<model::GraphScorer>>& scorers) {
  std::optional<double> share;
  for (const auto& scorer : scorers) {
    if (!scorer) continue;
    const double other = scorer->network().share;
    if (share && *share != other) {
      return make_error(ErrorCode::kInvalidArgument,
                        "networks trained on different shares ({} and {}) cannot be judged on what "
                        "none of them was trained on",
                        *share, other);
    }
    share = other;
  }
  if (share) return *share;
  return make_error(ErrorCode::kInvalidArgument, "--unseen: estimates were not trained on a share");
}

Result<Judged> judge_files(const EvalGraphsArgs& args) {
  std::vector<std::unique_ptr<model::GraphScorer>> scorers;  // null: estimates
  for (const std::string& file : args.weights) {
    scorers.emplace_back();
    if (file == kEstimate) continue;
    TESSERA_TRY(nn::TrainedGraphNetwork network, nn::load_graph_network(file));
    TESSERA_TRY(scorers.back(), model::GraphScorer::make(std::move(network), args.threads));
  }
  double share = 1;
  if (args.unseen) {
    TESSERA_TRY(share, share_of(scorers));
  }
  TESSERA_TRY(const std::vector<graphset::ConfigGraph> graphs, read_graphs(args));
  Judged out;
  for (const graphset::ConfigGraph& read : graphs) {
    graphset::ConfigGraph graph = graphset::merge_equal(read);
    if (args.unseen) graph = graphset::take_side(graph, share, false);
    std::vector<float> sum;
    for (const auto& scorer : scorers) {
      TESSERA_TRY(const std::vector<float> scores,
                  scorer ? scorer->score(graph) : estimates_of(graph));
      model::add_standardized(scores, &sum);
    }
    if (args.searches) {
      TESSERA_TRY(out.searches.emplace_back(), app::replay_searches(graph, sum));
    } else {
      out.rankings.push_back(graphset::rank(graph, sum));
    }
  }
  return out;
}

void print_row(const Ranking& r) {
  const auto at = [&](int k) {
    const auto found = r.slowdown.find(k);
    return found == r.slowdown.end() ? 0 : found->second;
  };
  fmt::print("{:<40} {:>8} {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f}\n", r.name,
             r.configs, r.tau, r.pairwise, at(1), at(5), at(10), at(100));
}

void print_searches(const std::vector<SearchReplay>& searches) {
  fmt::print("{:<40} {:>8} {:>9} {:>9} {:>9}\n", "measured by", "configs", "random", "local",
             "judged");
  std::vector<double> share;  // where the first configuration is not good enough already
  for (const SearchReplay& s : searches) {
    fmt::print("{:<40} {:>8} {:>9.1f} {:>9.1f} {:>9.0f}\n", s.name, s.configs, s.random, s.local,
               s.judged);
    if (s.local > 1) share.push_back(s.judged / s.local);
  }
  if (share.empty()) return;
  std::sort(share.begin(), share.end());
  fmt::print("judged / local: {:.2f} (median of {} where the first is not fast enough)\n",
             share[share.size() / 2], share.size());
}

}  // namespace

int eval_graphs(const EvalGraphsArgs& args) {
  const Result<Judged> judged = judge_files(args);
  if (!judged) return report(judged.error());
  if (args.json) {
    Json list = Json::array();
    for (const Ranking& r : judged->rankings) list.push_back(to_json(r));
    for (const SearchReplay& s : judged->searches) {
      list.push_back({{"name", s.name},
                      {"configs", s.configs},
                      {"random", s.random},
                      {"local", s.local},
                      {"judged", s.judged}});
    }
    print_json({{"graphs", list}});
    return kOk;
  }
  if (args.searches) {
    print_searches(judged->searches);
    return kOk;
  }
  fmt::print("{:<40} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "graph", "configs", "tau",
             "pairwise", "slow@1", "slow@5", "slow@10", "slow@100");
  for (const Ranking& r : judged->rankings) print_row(r);
  return kOk;
}

}  // namespace tessera::cli
