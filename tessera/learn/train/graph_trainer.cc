#include "tessera/learn/train/graph_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <ATen/ATen.h>

#include "tessera/learn/train/graph_trainee.h"
#include "tessera/learn/train/losses.h"
#include "tessera/support/clock.h"

namespace tessera::train {
namespace {

using at::Tensor;
using graphset::ConfigGraph;

constexpr double kTableRate = 0.02, kNetworkRate = 1e-3;
constexpr std::chrono::seconds kTellAfter{10};

// 1 for the fastest of the given configurations, 0 for the slowest; equal times are equal.
std::vector<float> percentiles(const ConfigGraph& graph, const std::vector<std::int64_t>& configs) {
  std::vector<double> sorted;
  for (const std::int64_t i : configs) sorted.push_back(graph.cost(i));
  std::sort(sorted.begin(), sorted.end());
  std::vector<float> out(static_cast<std::size_t>(graph.size()), 0);
  const auto last = static_cast<double>(std::max<std::size_t>(2, sorted.size()) - 1);
  for (const std::int64_t i : configs) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), graph.cost(i));
    out[static_cast<std::size_t>(i)] =
        static_cast<float>(1 - static_cast<double>(at - sorted.begin()) / last);
  }
  return out;
}

// Networks of weights by place, which take larger steps.
bool is_table(const std::string& network) { return network == "additive" || network == "pairs"; }

struct Subject {
  LoadedGraph loaded;
  std::vector<std::int64_t> learned, validation, unseen;  // configurations with a time
  std::vector<float> labels;                              // by configuration, of those learned
  // Scores of segments when they were last run: [configuration, segment]; NaN: never.
  std::vector<float> remembered;
};

struct Step {
  std::size_t subject = 0, first = 0;  // of the subject's shuffled configurations
};

void shuffle(std::vector<std::int64_t>& list, Rng& rng) {
  for (std::size_t i = list.size(); i > 1; --i) {
    std::swap(list[i - 1], list[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
}

class GraphTrainer {
 public:
  GraphTrainer(const GraphTrainOptions& options, GraphTrainee& trainee)
      : options_(options), trainee_(trainee), rng_(options.seed) {}

  void add(const ConfigGraph& graph) {
    Subject s{.loaded = trainee_.load(graph)};
    for (std::int64_t i = 0; i < graph.size(); ++i) {
      if (graph.cost(i) <= 0) continue;
      // The rest of those learned from, so that both sides are the same in every run.
      const double training = options_.share * (1 - options_.validation);
      const bool learned = graphset::is_learned(graph, i, training);
      const bool seen = graphset::is_learned(graph, i, options_.share);
      (learned ? s.learned : seen ? s.validation : s.unseen).push_back(i);
    }
    s.labels = percentiles(graph, s.learned);
    s.remembered.assign(static_cast<std::size_t>(graph.size()) * s.loaded.segments.size(),
                        std::numeric_limits<float>::quiet_NaN());
    subjects_.push_back(std::move(s));
  }

  bool can_learn() const {
    return std::any_of(subjects_.begin(), subjects_.end(), [](const Subject& s) {
      return s.learned.size() > 1 && !s.loaded.segments.empty();
    });
  }

  const std::vector<Subject>& subjects() const { return subjects_; }

  // A pass over all configurations; `line` gets the mean loss. `report` is told now and then.
  Result<void> epoch(GraphEpoch* line, const std::function<void()>& report,
                     const std::atomic<bool>& stop) {
    std::vector<Step> steps;
    for (std::size_t s = 0; s < subjects_.size(); ++s) {
      Subject& subject = subjects_[s];
      if (subject.learned.size() < 2 || subject.loaded.segments.empty()) continue;
      shuffle(subject.learned, rng_);
      const auto list = static_cast<std::size_t>(trainee_.configs());
      for (std::size_t first = 0; first + 1 < subject.learned.size(); first += list) {
        steps.push_back({s, first});
      }
    }
    for (std::size_t i = steps.size(); i > 1; --i) {
      std::swap(steps[i - 1],
                steps[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(i)))]);
    }
    line->steps = static_cast<std::int64_t>(steps.size());
    const double total = static_cast<double>(steps.size()) * options_.epochs;
    Tensor sum;  // on the device: reading every loss would wait for every step
    for (std::size_t i = 0; i < steps.size() && !stop; ++i) {
      const double done =
          static_cast<double>(steps.size()) * (line->epoch - 1) + static_cast<double>(i);
      TESSERA_TRY(const Tensor loss, step(steps[i], rate(done / total)));
      sum = sum.defined() ? sum + loss : loss;
      line->step = static_cast<std::int64_t>(i) + 1;
      if (Clock::now() - told_ < kTellAfter) continue;
      told_ = Clock::now();
      line->loss = sum.item<double>() / static_cast<double>(line->step);
      report();
    }
    if (sum.defined()) line->loss = sum.item<double>() / static_cast<double>(line->step);
    return {};
  }

  // Mean tau over the graphs' parts that have two times to compare.
  Result<double> validate() {
    double sum = 0, count = 0;
    for (Subject& s : subjects_) {
      const std::vector<std::int64_t>& part = s.validation.size() > 1 ? s.validation : s.learned;
      if (part.size() < 2) continue;
      TESSERA_TRY(const graphset::Ranking ranking, rank_part(s, part));
      sum += ranking.tau;
      count += 1;
    }
    return count > 0 ? sum / count : 0;
  }

  // Graphs of which nothing was learned come behind those that were.
  Result<std::vector<graphset::Ranking>> rank_unseen(const std::vector<ConfigGraph>& others) {
    std::vector<graphset::Ranking> out;
    for (Subject& s : subjects_) {
      if (s.unseen.empty()) continue;
      TESSERA_TRY(out.emplace_back(), rank_part(s, s.unseen));
    }
    for (const ConfigGraph& graph : others) {
      LoadedGraph loaded = trainee_.load(graph);
      const std::vector<std::int64_t> all = graphset::round_order(graph.size(), 0);
      TESSERA_TRY(const std::vector<float> scores, trainee_.predict(loaded, all));
      out.push_back(graphset::rank(graph, scores));
    }
    return out;
  }

 private:
  double rate(double done) const {
    const bool table = is_table(options_.network);
    const double most = options_.lr > 0 ? options_.lr : (table ? kTableRate : kNetworkRate);
    if (done < options_.warmup) return most * (0.01 + done / options_.warmup);
    const double rest = (done - options_.warmup) / std::max(1e-9, 1 - options_.warmup);
    return most * (0.01 + 0.99 * (1 + std::cos(std::numbers::pi * rest)) / 2);
  }

  Result<graphset::Ranking> rank_part(Subject& s, const std::vector<std::int64_t>& part) {
    TESSERA_TRY(const std::vector<float> scores, trainee_.predict(s.loaded, part));
    return graphset::rank(graphset::take_configs(*s.loaded.graph, part), scores);
  }

  // What the other segments add: their remembered scores, some dropped.
  Tensor others(const Subject& s, std::span<const std::int64_t> configs, std::size_t segment) {
    const std::size_t count = s.loaded.segments.size();
    Tensor sum = at::zeros({trainee_.configs()}, at::kFloat);
    auto* to = sum.data_ptr<float>();
    for (std::size_t i = 0; i < configs.size(); ++i) {
      for (std::size_t other = 0; other < count; ++other) {
        if (other == segment || !rng_.chance(options_.keep)) continue;
        const float score = s.remembered[static_cast<std::size_t>(configs[i]) * count + other];
        if (!std::isnan(score)) to[i] += score;
      }
    }
    return sum;
  }

  Result<Tensor> step(const Step& at_step, double lr) {
    Subject& s = subjects_[at_step.subject];
    const auto list = static_cast<std::size_t>(trainee_.configs());
    const std::size_t size = std::min(list, s.learned.size() - at_step.first);
    const std::span<const std::int64_t> configs(s.learned.data() + at_step.first, size);
    const std::size_t count = s.loaded.segments.size();
    const auto segment = static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(count)));
    TESSERA_TRY(const Tensor fresh, trainee_.run(s.loaded, segment, configs));
    Tensor scores = fresh;
    if (count > 1) {
      const double weight = 1 + static_cast<double>(count - 1) * (1 - options_.keep);
      scores = fresh * weight + others(s, configs, segment).to(fresh.device());
    }
    Tensor labels = at::zeros({1, trainee_.configs()}, at::kFloat);
    Tensor member = at::zeros({1, trainee_.configs()}, at::kFloat);
    for (std::size_t i = 0; i < configs.size(); ++i) {
      labels.data_ptr<float>()[i] = s.labels[static_cast<std::size_t>(configs[i])];
      member.data_ptr<float>()[i] = 1;
    }
    const Tensor loss = list_loss(options_.loss, scores.reshape({1, -1}), labels.to(fresh.device()),
                                  member.to(fresh.device()))
                            .sum();
    trainee_.adam().step(loss, lr, options_.weight_decay, options_.clip);
    if (count > 1) {
      const Tensor host = fresh.detach().to(at::kCPU).contiguous();
      for (std::size_t i = 0; i < configs.size(); ++i) {
        s.remembered[static_cast<std::size_t>(configs[i]) * count + segment] =
            host.data_ptr<float>()[i];
      }
    }
    return loss.detach();
  }

  const GraphTrainOptions& options_;
  GraphTrainee& trainee_;
  Rng rng_;
  std::vector<Subject> subjects_;
  Clock::time_point told_ = Clock::now();
};

// Tables of one graph have weights of its places.
nn::Hyper hyper_for(const GraphTrainOptions& options, const std::vector<ConfigGraph>& graphs) {
  nn::Hyper hyper = options.hyper;
  constexpr std::int64_t kMostPlaces = 4096;
  if (is_table(options.network) && graphs.size() == 1 && hyper.count("places") == 0 &&
      graphs.front().places() <= kMostPlaces) {
    hyper["places"] = graphs.front().places();
  }
  return hyper;
}

std::vector<ConfigGraph> merge_all(const std::vector<ConfigGraph>& graphs) {
  std::vector<ConfigGraph> out;
  out.reserve(graphs.size());
  for (const ConfigGraph& g : graphs) out.push_back(graphset::merge_equal(g));
  return out;
}

GraphTrained describe(const GraphTrainer& trainer, const nn::GraphNetworkSpec& spec,
                      const graphset::Encoding& encoding, const GraphTrainOptions& options) {
  GraphTrained out;
  out.network.spec = spec;
  out.network.kind = graphset::to_text(encoding.kind);
  out.network.nodes = encoding.nodes;
  out.network.configs = encoding.configs;
  out.network.share = options.share;
  std::string names;
  for (const Subject& s : trainer.subjects()) {
    out.segments += static_cast<std::int64_t>(s.loaded.segments.size());
    for (const graphset::Segment& part : s.loaded.segments) {
      out.largest = std::max(out.largest, static_cast<std::int64_t>(part.nodes.size()));
    }
    names += (names.empty() ? "" : ",") + s.loaded.graph->name;
  }
  out.network.notes = {{"graphs", names},
                       {"loss", to_text(options.loss)},
                       {"seed", std::to_string(options.seed)},
                       {"list", std::to_string(options.list)}};
  return out;
}

Result<GraphTrained> run_epochs(GraphTrainer& trainer, GraphTrainee& trainee, GraphTrained out,
                                const GraphTrainOptions& options,
                                const std::vector<ConfigGraph>& judged,
                                const std::function<void(const GraphEpoch&)>& report,
                                const std::atomic<bool>& stop) {
  const auto start = Clock::now();
  const auto seconds = [&] { return seconds_since(start); };
  out.network.weights = trainee.adam().weights();
  for (int e = 0, best = 0; e < options.epochs && !stop; ++e) {
    GraphEpoch line{.epoch = e + 1, .epochs = options.epochs};
    const auto tell = [&] {
      line.seconds = seconds();
      if (report) report(line);
    };
    TESSERA_DO(trainer.epoch(&line, tell, stop));
    if (!std::isfinite(line.loss)) {
      return make_error(ErrorCode::kRunFailed, "training diverged: try a smaller --lr");
    }
    TESSERA_TRY(line.tau, trainer.validate());
    line.finished = true;
    line.best = line.tau > out.tau || e == 0;
    if (line.best) {
      out.tau = line.tau;
      out.network.weights = trainee.adam().weights();
      best = e;
    }
    out.epochs = e + 1;
    tell();
    if (options.patience > 0 && e - best >= options.patience) break;
  }
  out.interrupted = stop;
  out.network.notes["tau"] = fmt::format("{:.4f}", out.tau);
  TESSERA_DO(trainee.adam().set_weights(out.network.weights));
  TESSERA_TRY(out.unseen, trainer.rank_unseen(judged));
  return out;
}

}  // namespace

Result<GraphTrained> train_graphs(const std::vector<ConfigGraph>& graphs,
                                  const GraphTrainOptions& options,
                                  const std::function<void(const GraphEpoch&)>& report,
                                  const std::atomic<bool>& stop,
                                  const std::vector<ConfigGraph>& judged) {
  const std::vector<ConfigGraph> merged = merge_all(graphs), others = merge_all(judged);
  TESSERA_TRY(graphset::Encoding encoding, graphset::fit_encoding(merged));
  TESSERA_TRY(const nn::GraphNetworkSpec spec,
              nn::make_graph_spec(options.network, hyper_for(options, merged), encoding.columns,
                                  encoding.config_columns));
  encoding.places = spec.hyper.at("places");
  for (const auto* list : {&merged, &others}) {
    for (const ConfigGraph& g : *list) TESSERA_DO(graphset::check_fits(encoding, g));
  }
  try {
    TESSERA_TRY(const at::Device device, prepare_device(options.device, options.threads));
    TESSERA_TRY(const std::unique_ptr<GraphTrainee> trainee,
                GraphTrainee::make(spec, encoding, options.list, device, options.seed));
    GraphTrainer trainer(options, *trainee);
    for (const ConfigGraph& g : merged) trainer.add(g);
    if (!trainer.can_learn()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no graph has two configurations with times to learn from");
    }
    return run_epochs(trainer, *trainee, describe(trainer, spec, encoding, options), options,
                      others, report, stop);
  } catch (const std::exception& e) {  // what torch throws
    return make_error(ErrorCode::kRunFailed, "training failed: {}", e.what());
  }
}

}  // namespace tessera::train
