#include "tessera/cli/eval_graphs.h"

#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/graphset/npz_file.h"
#include "tessera/graphset/ranking.h"
#include "tessera/model/graph_scorer.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;
using graphset::Ranking;

Result<std::vector<Ranking>> rank_files(const EvalGraphsArgs& args) {
  std::vector<std::unique_ptr<model::GraphScorer>> scorers;
  for (const std::string& file : args.weights) {
    TESSERA_TRY(nn::TrainedGraphNetwork network, nn::load_graph_network(file));
    TESSERA_TRY(scorers.emplace_back(), model::GraphScorer::make(std::move(network), args.threads));
  }
  const double share = scorers.front()->network().share;
  for (const auto& scorer : scorers) {
    if (!args.unseen || scorer->network().share == share) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "networks that learnt from different shares ({} and {}) cannot be judged "
                      "on what all did not see",
                      share, scorer->network().share);
  }
  std::vector<Ranking> out;
  for (const std::string& file : args.files) {
    TESSERA_TRY(const graphset::ConfigGraph read, graphset::read_graph(file));
    graphset::ConfigGraph graph = graphset::merge_equal(read);
    if (args.unseen) graph = graphset::take_side(graph, share, false);
    std::vector<float> sum;
    for (const auto& scorer : scorers) {
      TESSERA_TRY(const std::vector<float> scores, scorer->score(graph));
      model::add_standardized(scores, &sum);
    }
    out.push_back(graphset::rank(graph, sum));
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

}  // namespace

int eval_graphs(const EvalGraphsArgs& args) {
  const Result<std::vector<Ranking>> rankings = rank_files(args);
  if (!rankings) return report(rankings.error());
  if (args.json) {
    Json list = Json::array();
    for (const Ranking& r : *rankings) list.push_back(Json(r));
    print_json({{"graphs", list}});
    return kOk;
  }
  fmt::print("{:<40} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "graph", "configs", "tau",
             "pairwise", "slow@1", "slow@5", "slow@10", "slow@100");
  for (const Ranking& r : *rankings) print_row(r);
  return kOk;
}

}  // namespace tessera::cli
