// tessera dataset show, and import of TpuGraphs' protobufs.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/learn/graphset/ranking.h"
#include "tessera/learn/graphset/tuning_data.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using graphset::ConfigGraph;

struct ShowArgs {
  std::vector<std::string> files;
  bool json = false;
};

// How many configurable nodes each operation has.
std::map<std::string, std::int64_t> configurable(const ConfigGraph& g) {
  std::map<std::string, std::int64_t> out;
  for (const std::int32_t node : g.config_nodes) {
    ++out[std::string(graphset::opcode_name(g.opcode[static_cast<std::size_t>(node)]))];
  }
  return out;
}

struct Summary {
  std::int64_t least_ns = 0, most_ns = 0;
  graphset::Repeats repeats;
};

Summary summarize(const ConfigGraph& g) {
  Summary out;
  out.repeats = graphset::study_repeats(g);
  if (!g.labelled()) return out;
  const auto [least, most] = std::minmax_element(g.runtime_ns.begin(), g.runtime_ns.end());
  out.least_ns = *least;
  out.most_ns = *most;
  return out;
}

Json json_of(const ConfigGraph& g) {
  const Summary s = summarize(g);
  return {{"name", g.name},
          {"kind", graphset::to_text(g.kind)},
          {"nodes", g.nodes()},
          {"columns", g.columns()},
          {"edges", g.edges.size()},
          {"configurable", configurable(g)},
          {"splits", g.splits},
          {"configs", g.size()},
          {"config_columns", g.config_columns()},
          {"distinct", s.repeats.distinct},
          {"repeated", s.repeats.repeated},
          {"labelled", g.labelled()},
          {"least_ns", s.least_ns},
          {"most_ns", s.most_ns},
          {"median_noise", s.repeats.median_noise},
          {"p95_noise", s.repeats.p95_noise},
          {"tau_again", s.repeats.agreement},
          {"tau_summed", s.repeats.summed},
          {"tau_ceiling", s.repeats.ceiling}};
}

void print_text(const ConfigGraph& g) {
  const Summary s = summarize(g);
  fmt::print("{}: {} set, {} nodes of {} numbers, {} edges\n", g.name, graphset::to_text(g.kind),
             g.nodes(), g.columns(), g.edges.size());
  if (g.kind == graphset::Kind::kLayout) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : configurable(g)) {
      parts.push_back(fmt::format("{} {}", count, name));
    }
    fmt::print("  {} nodes can be configured ({}), {} major parts\n", g.places(),
               fmt::join(parts, ", "), g.splits.size() - 1);
  }
  fmt::print("  {} configurations of {} numbers, {} distinct\n", g.size(), g.config_columns(),
             s.repeats.distinct);
  if (!g.labelled()) {
    fmt::print("  no times\n");
    return;
  }
  fmt::print("  {:.4f} to {:.4f} ms\n", static_cast<double>(s.least_ns) * 1e-6,
             static_cast<double>(s.most_ns) * 1e-6);
  if (s.repeats.repeated == 0) return;
  fmt::print(
      "  {} measured again: noise {:.1e} (median), {:.1e} (95 %); tau at most about {:.3f}\n",
      s.repeats.repeated, s.repeats.median_noise, s.repeats.p95_noise, s.repeats.ceiling);
  if (s.repeats.summed == 0) return;
  fmt::print(
      "  tau of one measurement with the others of its configuration {:.3f}, with sums over places "
      "that did not know it {:.3f}\n",
      s.repeats.agreement, s.repeats.summed);
}

int run_show(const ShowArgs& args) {
  Json list = Json::array();
  for (const std::string& file : args.files) {
    const Result<ConfigGraph> graph = graphset::read_graph(file);
    if (!graph) return report(graph.error());
    if (args.json) {
      list.push_back(json_of(*graph));
    } else {
      print_text(*graph);
    }
  }
  if (args.json) print_json({{"graphs", list}});
  return kOk;
}

std::string file_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npz";
}

}  // namespace

Result<void> write_graphs(const std::vector<ConfigGraph>& graphs, const std::string& output) {
  namespace fs = std::filesystem;
  if (output.ends_with(".npz")) {
    if (graphs.size() == 1) return graphset::write_graph(output, graphs.front());
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is one file, there are {} graphs: name a folder", output, graphs.size());
  }
  std::error_code error;
  fs::create_directories(output, error);
  for (const ConfigGraph& g : graphs) {
    TESSERA_DO(graphset::write_graph((fs::path(output) / file_name(g.name)).string(), g));
  }
  return {};
}

int import_graphs(const std::vector<std::string>& files, const std::string& output) {
  graphset::Converted all;
  for (const std::string& file : files) {
    Result<graphset::Converted> read = graphset::read_tuning_data(file);
    if (!read) return report(read.error());
    all.runs += read->runs;
    all.failed += read->failed;
    std::move(read->graphs.begin(), read->graphs.end(), std::back_inserter(all.graphs));
    std::move(read->dropped.begin(), read->dropped.end(), std::back_inserter(all.dropped));
  }
  if (const Result<void> written = write_graphs(all.graphs, output); !written) {
    return report(written.error());
  }
  for (const std::string& line : all.dropped) fmt::print("left out: {}\n", line);
  fmt::print("{}: {} graphs; {} runs, {} of them without a time\n", output, all.graphs.size(),
             all.runs, all.failed);
  return kOk;
}

void add_dataset_show(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("show", "What npz files of graphs in TpuGraphs' schema hold");
  const auto args = std::make_shared<ShowArgs>();
  sub->add_option("FILE", args->files, "Layout or tile sets")->required();
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer("Examples:\n  tessera dataset show layout.npz tile.npz --json");
  sub->callback([args, run] { *run = [args] { return run_show(*args); }; });
}

}  // namespace tessera::cli
