#include "tessera/learn/train/graph_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/train/args.h"
#include "tessera/learn/train/exit_code.h"
#include "tessera/learn/train/graph_trainer.h"
#include "tessera/support/json.h"

namespace tessera::train {
namespace {

struct GraphFlags {
  std::vector<std::string> files;
  std::string hyper, loss = "hinge", output;
  std::vector<std::string> left_out;
  bool json = false, leave_one_out = false;
  GraphTrainOptions train;
};

std::string network_names() {
  std::vector<std::string> names;
  for (const nn::GraphNetworkEntry& entry : nn::graph_network_table()) {
    names.emplace_back(entry.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_graph_flags(CLI::App& app, GraphFlags& f) {
  GraphTrainOptions& t = f.train;
  const auto share = CLI::Range(0.0, 1.0);
  app.add_option("--graphs", f.files, "npz files in TpuGraphs' schema (see `tessera dataset show`)")
      ->required();
  app.add_option("--model", t.network, network_names())->capture_default_str();
  app.add_option("--hyper", f.hyper, "Sizes of the network: hidden=64,layers=2,hops=1");
  app.add_option("--loss", f.loss, "hinge, listmle, mse, rank or lambdarank")
      ->capture_default_str();
  app.add_option("--share", t.share,
                 "Learn from this share of the configurations; the rest is judged at the end")
      ->check(share)
      ->capture_default_str();
  app.add_option("--validation", t.validation, "Share of those that choose the best epoch")
      ->check(share)
      ->capture_default_str();
  app.add_option("--epochs", t.epochs, "Passes over the graphs")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--list", t.list, "Configurations of one graph per step")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  app.add_option("--lr", t.lr, "Largest learning rate (default: 1e-3, additive 2e-2)");
  app.add_option("--warmup", t.warmup, "Share of the steps that warm up")
      ->check(share)
      ->capture_default_str();
  app.add_option("--weight-decay", t.weight_decay, "Weight decay of AdamW")->capture_default_str();
  app.add_option("--clip", t.clip, "Largest norm of a gradient; 0: any")->capture_default_str();
  app.add_option(
         "--keep", t.keep,
         "For graphs in segments: probability that the last score of another segment is used")
      ->check(share)
      ->capture_default_str();
  app.add_option("--patience", t.patience, "Epochs without a better tau; 0: all")
      ->capture_default_str();
  app.add_option("--seed", t.seed, "Seed of all random choices")->capture_default_str();
  app.add_option("--device", t.device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", t.threads, "Threads on the host; 0: all cores")
      ->capture_default_str();
  app.add_flag("--leave-one-out", f.leave_one_out,
               "Judge each graph by a network trained on the others; writes no file");
  app.add_option("--leave-out", f.left_out,
                 "Judge graphs whose names begin so, and learn from the others: resnet,vgg")
      ->delimiter(',');
  app.add_option("-o,--output", f.output, "File to write");
  app.add_flag("--json", f.json, "Print the final numbers as JSON");
}

void print_epoch(const GraphEpoch& e) {
  if (!e.finished) {
    fmt::print(stderr, "epoch {:>3}/{} step {}/{} loss {:.4f}, {:.0f} s\n", e.epoch, e.epochs,
               e.step, e.steps, e.loss, e.seconds);
    return;
  }
  fmt::print(stderr, "epoch {:>3}/{} loss {:.4f} tau {:.4f}{} {:.0f} s\n", e.epoch, e.epochs,
             e.loss, e.tau, e.best ? " best," : ",", e.seconds);
}

// Of this process so far, in bytes.
double peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void print_result(const GraphFlags& f, const GraphTrained& r) {
  if (f.json) {
    Json unseen = Json::array();
    for (const graphset::Ranking& ranking : r.unseen) unseen.push_back(to_json(ranking));
    const Json all = {{"model", r.network.spec.network},
                      {"hyper", r.network.spec.hyper},
                      {"loss", f.loss},
                      {"seed", f.train.seed},
                      {"share", f.train.share},
                      {"output", f.output},
                      {"epochs", r.epochs},
                      {"validation_tau", r.tau},
                      {"segments", r.segments},
                      {"largest_segment", r.largest},
                      {"peak_bytes", peak_memory()},
                      {"unseen", unseen}};
    fmt::print("{}\n", all.dump(2));
    return;
  }
  fmt::print(
      "{}: {} epochs, {} segments of at most {} nodes, validation tau {:.4f}, at most {:.2f} GB\n",
      r.network.spec.network, r.epochs, r.segments, r.largest, r.tau, peak_memory() / 1e9);
  for (const graphset::Ranking& u : r.unseen) {
    fmt::print(
        "{}: tau {:.4f} pairwise {:.4f} slowdown@1 {:.4f} @5 {:.4f} on {} that it did not see\n",
        u.name, u.tau, u.pairwise, u.slowdown.at(1), u.slowdown.at(5), u.configs);
  }
}

Result<std::vector<graphset::ConfigGraph>> read_all(const GraphFlags& f) {
  std::vector<graphset::ConfigGraph> graphs;
  for (const std::string& file : f.files) {
    TESSERA_TRY(graphs.emplace_back(), graphset::read_graph(file));
  }
  return graphs;
}

// One network a graph; the result is the last one's, with what each said of its graph.
Result<GraphTrained> leave_one_out(const GraphFlags& f,
                                   const std::vector<graphset::ConfigGraph>& graphs,
                                   const std::atomic<bool>& stop) {
  if (graphs.size() < 2) {
    return make_error(ErrorCode::kInvalidArgument, "--leave-one-out needs at least two graphs");
  }
  GraphTrained out;
  std::vector<graphset::Ranking> rankings;
  for (std::size_t i = 0; i < graphs.size() && !stop; ++i) {
    std::vector<graphset::ConfigGraph> others = graphs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    fmt::print(stderr, "without {}\n", graphs[i].name);
    TESSERA_TRY(out, train_graphs(others, f.train, print_epoch, stop, {graphs[i]}));
    rankings.push_back(out.unseen.back());
  }
  out.unseen = std::move(rankings);
  return out;
}

using Sides = std::pair<std::vector<graphset::ConfigGraph>, std::vector<graphset::ConfigGraph>>;

// What is learned from, and what is judged.
Result<Sides> leave_out(const GraphFlags& f, const std::vector<graphset::ConfigGraph>& graphs) {
  Sides out;
  for (const graphset::ConfigGraph& g : graphs) {
    const bool left = std::any_of(f.left_out.begin(), f.left_out.end(),
                                  [&](const auto& prefix) { return g.name.starts_with(prefix); });
    (left ? out.second : out.first).push_back(g);
  }
  if (out.first.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--leave-out {}: nothing is left to learn from",
                      fmt::join(f.left_out, ","));
  }
  if (out.second.empty() && !f.left_out.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--leave-out {}: no graph is called so",
                      fmt::join(f.left_out, ","));
  }
  return out;
}

Result<GraphTrained> train_and_save(GraphFlags& f, const std::atomic<bool>& stop) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(f.output).parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return make_error(ErrorCode::kIo, "{}: there is no folder {}", f.output, folder.string());
  }
  TESSERA_TRY(f.train.hyper, parse_hyper(f.hyper));
  TESSERA_TRY(f.train.loss, loss_from_text(f.loss));
  TESSERA_TRY(const std::vector<graphset::ConfigGraph> graphs, read_all(f));
  if (f.leave_one_out) return leave_one_out(f, graphs, stop);
  TESSERA_TRY(const auto sides, leave_out(f, graphs));
  TESSERA_TRY(GraphTrained trained,
              train_graphs(sides.first, f.train, print_epoch, stop, sides.second));
  if (!f.output.empty()) TESSERA_DO(nn::save_graph_network(trained.network, f.output));
  return trained;
}

}  // namespace

bool asks_for_graphs(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "--graphs" || word.starts_with("--graphs=");
  });
}

int run_graphs(std::vector<std::string> words, const std::atomic<bool>& stop) {
  GraphFlags flags;
  CLI::App app("Train a network that orders the configurations of graphs", "tessera train");
  app.footer(
      "Examples:\n  tessera train --model graphsage --graphs train/*.npz -o w.safetensors\n"
      "  tessera train --model additive --graphs net.npz --share 0.5 --json");
  add_graph_flags(app, flags);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  const Result<GraphTrained> trained = train_and_save(flags, stop);
  if (!trained) return report("tessera train", trained.error());
  print_result(flags, *trained);
  std::fflush(stdout);
  return trained->interrupted ? kInterrupted : kOk;
}

}  // namespace tessera::train
