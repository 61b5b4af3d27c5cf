// The table of studies.
#include "tessera/app/study/paper_counts.h"
#include "tessera/app/study/paper_networks.h"
#include "tessera/app/study/paper_plans.h"
#include "tessera/app/study/paper_study.h"

namespace tessera::app {
namespace {

// Why not. Those that need something done share the words, which the page lists once.
constexpr const char* kQuiet = "needs a quiet machine for hours";
constexpr const char* kTransfer = "`bench/studies/transfer.sh`, on a quiet machine for hours";
constexpr const char* kPretrained = "`bench/studies/pretrained.sh`, on a quiet machine for hours";
constexpr const char* kSearched = "searches with networks trained three times";
constexpr const char* kGraphs = "needs graph networks trained three times on split graphs";
constexpr const char* kIterated = "the iterated optimisation is not implemented";
constexpr const char* kRoller = "its rule of aligned tiles is not implemented";

constexpr const char* kPlatforms =
    "`bench/studies/platforms.sh` on imported logs of two machines or more, with libtorch";

constexpr const char* kAutoTvm = "AutoTVM";
constexpr const char* kTenSet = "TenSet";
constexpr const char* kTlm = "TLM";
constexpr const char* kAtFormer = "ATFormer";
constexpr const char* kTpuGraphs = "TpuGraphs";

// Networks that the shipped model of GPUs was not trained on, as its notes say.
const std::vector<std::string>& gpu_holdout() {
  static const std::vector<std::string> names = {"resnet50", "mobilenet_v2", "bert_base", "gpt2"};
  return names;
}

Result<StudyResult> models_or_none(const StudyOptions& o) {
  return replay_study({.machine = "neoverse-v1",
                       .searches = {{"random", "random"},
                                    {"genetic", "genetic"},
                                    {"genetic, generations of 16", "genetic+population=16"},
                                    {"annealing on trees", "annealing+pretrained=none"},
                                    {"evolution on trees", "evolutionary+pretrained=none"}},
                       .trials = {16, 32, 48, 64}},
                      o);
}

Result<StudyResult> objectives(const StudyOptions& o) {
  return replay_study(
      {.machine = "neoverse-v1",
       .searches = {{"rank", "annealing+pretrained=none+objective=rank"},
                    {"regression", "annealing+pretrained=none+objective=regression"}},
       .trials = {32, 48, 64}},
      o);
}

Result<StudyResult> diversity(const StudyOptions& o) {
  return replay_study({.machine = "neoverse-v1",
                       .searches = {{"by score alone", "annealing+pretrained=none"},
                                    {"diversity 0.5", "annealing+pretrained=none+diversity=0.5"},
                                    {"diversity 1", "annealing+pretrained=none+diversity=1"}},
                       .trials = {32, 48, 64}},
                      o);
}

Result<StudyResult> acquisitions(const StudyOptions& o) {
  const char* mean = "annealing+pretrained=none+objective=regression";
  return replay_study(
      {.machine = "neoverse-v1",
       .searches = {{"mean", mean},
                    {"expected improvement",
                     "annealing+pretrained=none+objective=regression+acquisition=ei"},
                    {"upper confidence bound",
                     "annealing+pretrained=none+objective=regression+acquisition=ucb"}},
       .trials = {32, 48, 64},
       .most_tasks = 12},
      o);
}

Result<StudyResult> transfer(const StudyOptions& o) {
  return replay_study({.folder = "h200",
                       .networks = gpu_holdout(),
                       .searches = {{"from scratch", "evolutionary+pretrained=none"},
                                    {"with the shipped model", "evolutionary"}},
                       .trials = {4, 8, 16, 32}},
                      o);
}

Result<StudyResult> representations(const StudyOptions& o) {
  return replay_study(
      {.machine = "neoverse-v1",
       .searches = {{"configuration", "annealing+pretrained=none+features=decisions"},
                    {"statements", "annealing+pretrained=none"},
                    {"loops", "annealing+pretrained=none+features=loop"},
                    {"context relation", "annealing+pretrained=none+features=curve"}},
       .trials = {32, 48, 64}},
      o);
}

Result<StudyResult> written(const StudyOptions& o) {
  return replay_study({.folder = "h200",
                       .networks = gpu_holdout(),
                       // First what others are compared with: the search of today, at its best.
                       .searches = {{"evolution, shipped model", "evolutionary"},
                                    {"evolution, no model", "evolutionary+model=none"},
                                    {"language model", "lm+language=shipped+model=none"},
                                    {"both models", "lm+language=shipped"}},
                       .trials = {1, 10, 16, 32}},
                      o);
}

Result<StudyResult> end_to_end(const StudyOptions& o) {
  return networks_study({.networks = {"resnet18", "mobilenet_v2", "lstm_lm", "dqn", "dcgan"},
                         .columns = {{"Neoverse-V1, 1 thread", "neoverse-v1-2", "cpu", 1, "ort"}}},
                        o);
}

Result<StudyResult> beside_pytorch(const StudyOptions& o) {
  return networks_study(
      {.networks = {"resnet50", "mobilenet_v2", "resnext50", "bert_base", "bert_tiny", "gpt2",
                    "densenet121", "resnet3d_18", "dcgan"},
       .columns = {{"H200", "nvidia-h200", "cuda", 0, "torch_compile"},
                   {"Sapphire Rapids, 16 threads", "sapphirerapids-16", "cpu", 16, "torch"}}},
      o);
}

Result<StudyResult> recombined(const StudyOptions& o) {
  return draws_study({.alone = "near-defaults",
                      .inside = "in-networks",
                      .machine = "sapphirerapids",
                      .fastest = {3, 2},
                      .draws = {1, 10, 40, 80}},
                     o);
}

constexpr TreesSpec::Row kRandomRow = {"random", nullptr};
constexpr TreesSpec::Row kErrorRow = {"trees, squared error", "regression", 0, 32};
constexpr TreesSpec::Row kRankRow = {"trees, rank", "rank", 0, 32};

Result<StudyResult> metrics(const StudyOptions& o) {
  return trees_study({.machine = "neoverse-v1",
                      .rows = {kErrorRow, kRankRow, kRandomRow},
                      .columns = {"rmse", "r2", "pairwise", "top-1", "top-5"}},
                     o);
}

Result<StudyResult> models_by_network(const StudyOptions& o) {
  TreesSpec spec{
      .machine = "neoverse-v1", .rows = {kErrorRow, kRankRow, kRandomRow}, .columns = {}};
  for (const char* network :
       {"resnet50", "mobilenet_v2", "resnext50_32x4d", "bert_tiny", "bert_base"}) {
    spec.columns.push_back(std::string(network) + " top-1");
    spec.columns.push_back(std::string(network) + " top-5");
  }
  return trees_study(spec, o);
}

Result<StudyResult> data_sizes(const StudyOptions& o) {
  return trees_study({.machine = "neoverse-v1",
                      .rows = {{"100 tasks, 64 programs", "rank", 100, 64},
                               {"200 tasks, 32 programs", "rank", 200, 32},
                               {"400 tasks, 16 programs", "rank", 400, 16},
                               {"400 tasks, 64 programs", "rank", 400, 64}},
                      .columns = {"top-1", "top-5", "pairwise"}},
                     o);
}

Result<StudyResult> losses(const StudyOptions& o) {
  return trees_study({.machine = "neoverse-v1",
                      .rows = {kErrorRow, kRankRow},
                      .columns = {"pairwise", "top-1", "top-5"}},
                     o);
}

Result<StudyResult> accuracies(const StudyOptions& o) {
  return trees_study({.machine = "neoverse-v1",
                      .rows = {{"trees, 50 tasks", "rank", 50, 0},
                               {"trees, 300 tasks", "rank", 300, 0},
                               {"trees, 500 tasks", "rank", 500, 0},
                               kRandomRow},
                      .columns = {"pairwise"}},
                     o);
}

std::vector<PaperStudy> autotvm_studies() {
  const char* smaller = "A space is the 100 records of its task";
  return {
      {"autotvm-figure-4", kAutoTvm, "figure 4", "searches with and without a cost model",
       "trees and TreeGRU end twice as fast as random; GA and random x2 between",
       "Held-out tasks instead of C1 to C12; no TreeGRU", models_or_none, "32,48,64"},
      {"autotvm-figure-5", kAutoTvm, "figure 5", "rank against regression",
       "rank slightly better or equal", smaller, objectives, "48"},
      {"autotvm-figure-6", kAutoTvm, "figure 6", "diversity of batches",
       "no difference but on C6, where it helps", smaller, diversity, "48"},
      {"autotvm-figure-7", kAutoTvm, "figure 7", "uncertainty in the choice of batches",
       "no improvement by EI or UCB", smaller, acquisitions, "48"},
      {"autotvm-figure-8", kAutoTvm, "figure 8", "transfer from other workloads",
       "2 to 10 times as soon", "To four held-out networks instead of C7, C8, C9", transfer,
       "4,16"},
      {"autotvm-figure-9", kAutoTvm, "figure 9", "representations of programs",
       "within a domain all alike; across operators only context relation",
       "Within each task alone; models of configurations cannot be carried over", representations,
       "48"},
      {"autotvm-figure-10", kAutoTvm, "figure 10", "C1 to C12 against libraries by wall clock",
       "competitive with cuDNN, TFLite and ARM Compute Library", kQuiet, nullptr},
      {"autotvm-figure-11", kAutoTvm, "figure 11", "five networks end to end",
       "1.2 to 3.8 times the libraries",
       "Untuned; ONNX Runtime instead of MXNet, TensorFlow, TFLite and ARM Compute Library",
       end_to_end},
  };
}

std::vector<PaperStudy> tenset_studies() {
  const char* trees =
      "About 100 candidates of a task, half of them near the fastest; trees alone, on 32 of each";
  return {
      {"tenset-table-1", kTenSet, "table 1", "size of the dataset",
       "6 platforms, 13,848 tasks, 51,532,994 records", "What ships", dataset_counts},
      {"tenset-table-2", kTenSet, "table 2", "hardware platforms",
       "4 CPUs and 2 GPUs, about 8.6 million records each", "What ships", machine_counts},
      {"tenset-table-3", kTenSet, "table 3", "metrics of models",
       "squared error: rmse .09, r2 .77, pairwise .85, top-1 .86, top-5 .92; rank: 7.27, -1818, "
       ".89, .88, .96",
       "Five test networks instead of one, without searched latency; trees alone", metrics},
      {"tenset-table-4", kTenSet, "table 4", "top-1 and top-5 of five held-out networks",
       "best of each column, top-1/top-5: .887/.946, .745/.909, .858/.950, .804/.881, .914/.975; "
       "trees: .854/.934, .726/.909, .841/.896, .653/.852, .762/.944",
       trees, models_by_network},
      {"tenset-table-5", kTenSet, "table 5", "transfer while searching ResNet-50, ms",
       "setting 1: 6.22 with, 6.43 without; setting 2: 6.44, 7.15", kTransfer, nullptr},
      {"tenset-figure-5", kTenSet, "figure 5", "tasks against programs per task",
       "more tasks are better at equal size", "Sizes of 6,400 and 25,600 records; trees alone",
       data_sizes},
      {"tenset-figure-6", kTenSet, "figure 6", "search time to the same result",
       "up to 10 times less", kPretrained, nullptr},
      {"tenset-figure-7", kTenSet, "figure 7", "random sampling of the top 3, 80 times",
       "latency falls as samples grow",
       "Times as fast as with the fastest of every task; sums of kernels timed in place choose and "
       "judge",
       recombined},
  };
}

std::vector<PaperStudy> tlm_studies() {
  return {
      {"tlm-figure-9", kTlm, "figure 9", "convergence of demonstration data",
       "69 to 145 measurements per subgraph", kIterated, nullptr},
      {"tlm-table-2", kTlm, "table 2", "few measurements against evolution",
       "10 measurements against 64 of Ansor: 1.40; 32: 1.45",
       "Four held-out networks; against our evolution; the language model does not list its tasks",
       written, "1,10,32"},
      {"tlm-table-3", kTlm, "table 3", "the same against MetaSchedule",
       "10 measurements against 64: 1.41; against 1,000: 0.96",
       "needs MetaSchedule and a quiet machine", nullptr},
      {"tlm-figure-10", kTlm, "figure 10", "12 workloads on a GPU",
       "against Ansor with 20,000: 0.83, 0.99, 1.03 after 1, 10, 32 per subgraph", kQuiet, nullptr},
      {"tlm-figure-11", kTlm, "figure 11", "12 workloads on a CPU",
       "against Ansor with 20,000: 1.01, 1.03 after 10, 32 per subgraph", kQuiet, nullptr},
      {"tlm-figure-12", kTlm, "figure 12", "against Roller", "2.25 on average", kRoller, nullptr},
      {"tlm-figure-13", kTlm, "figure 13", "against TensorRT and PyTorch",
       "1.04 and 3.42 on average",
       "Untuned, without TensorRT; nine of the twelve networks in f32, PyTorch compiled on the GPU",
       beside_pytorch},
      {"tlm-figure-14", kTlm, "figure 14", "curves of subgraphs against Ansor",
       "below Ansor's nearly everywhere", kQuiet, nullptr},
      {"tlm-figure-15", kTlm, "figure 15", "curves of subgraphs against MetaSchedule",
       "below MetaSchedule's nearly everywhere", kQuiet, nullptr},
  };
}

std::vector<PaperStudy> atformer_studies() {
  return {
      {"atformer-table-1", kAtFormer, "table 1", "searched latency by model and transfer",
       "ResNet-18 on 2080Ti, ms: XGBoost 1.47, ATFormer 1.04; with 500 tasks 0.96, 0.84", kSearched,
       nullptr},
      {"atformer-table-2", kAtFormer, "table 2", "large Transformers with transfer",
       "BERT-base, s: 3028 to 578 (5 times)", kSearched, nullptr},
      {"atformer-table-3", kAtFormer, "table 3", "time to converged latency",
       "5.1 times less by ATFormer, 3.6 by XGBoost", kSearched, nullptr},
      {"atformer-table-4", kAtFormer, "table 4", "loss, mask, pre-training",
       "rank 1.04 ms, RMSE 1.42 ms on ResNet-18",
       "The loss alone, of trees, by metrics instead of searched latency", losses},
      {"atformer-table-5", kAtFormer, "table 5", "heads and widths",
       "4 heads of 512 best: 1.04 ms; MHA 1.24", kSearched, nullptr},
      {"atformer-table-6", kAtFormer, "table 6", "hierarchical features",
       "ATFormer 1.04 with, 1.18 without", kSearched, nullptr},
      {"atformer-table-7", kAtFormer, "table 7", "pairwise accuracy by tasks",
       "XGBoost .913, .922, .931; ATFormer .935, .938, .941 of 50, 300, 500 tasks",
       "Trees alone, held-out networks, about 100 candidates of a task", accuracies},
      {"atformer-table-8", kAtFormer, "table 8", "training time, s", "299 to 951 by ATFormer",
       kQuiet, nullptr},
      {"atformer-table-9", kAtFormer, "table 9", "batch 8",
       "ResNet-18: XGBoost 3.04, ATFormer 2.39", kSearched, nullptr},
      {"atformer-table-10", kAtFormer, "table 10", "converged latency on a CPU",
       "ResNet-50: XGBoost 19.59, ATFormer 16.90", kSearched, nullptr},
      {"atformer-table-11", kAtFormer, "table 11", "converged latency on tensor cores",
       "ResNet-50: XGBoost 16.42, ATFormer 11.62", kSearched, nullptr},
      {"atformer-figure-6", kAtFormer, "figure 6", "latency by model and network",
       "1.15 to 1.61 times XGBoost", kSearched, nullptr},
      {"atformer-figure-7", kAtFormer, "figure 7", "transfer from 50 to 500 tasks",
       "XGBoost best with 50, ATFormer from 100 on", kSearched, nullptr},
      {"atformer-figure-8", kAtFormer, "figure 8", "curves on ResNet-18",
       "ATFormer with transfer lowest", kSearched, nullptr},
      {"atformer-devices", kAtFormer, "section 4.2", "from one device to others",
       "ResNet-18 on 2080Ti, ms: 1.04 without, 0.84 with transfer", kPlatforms, nullptr},
  };
}

std::vector<PaperStudy> tpugraphs_studies() {
  return {
      {"tpugraphs-table-1", kTpuGraphs, "table 1", "size of the collections",
       "layouts: 78 and 244 graphs of 14,105 and 5,659 nodes; tiles: 6,988 of 40",
       "Own plans of whole networks for a CPU", plan_counts},
      {"tpugraphs-table-2", kTpuGraphs, "table 2", "best model on graphs not trained on",
       "layouts, test: tau .34, .21, .53, .28; top-1 error 10.9, 14.1, 4.6, 4.0 %",
       "One training; other sizes and batches of networks that it was trained on", plans_of_others},
      {"tpugraphs-table-6", kTpuGraphs, "table 6", "segments against the full graph",
       "test tau: GST .32, full .37, MSE .31, random .007", kGraphs, nullptr},
      {"tpugraphs-table-7", kTpuGraphs, "table 7", "tau of each program", "-0.34 to .52 by GST",
       "As table 2; GraphSAGE on whole graphs", plans_by_file, "tau,tau of the sum of kernels"},
      {"tpugraphs-table-8", kTpuGraphs, "table 8", "networks for tiles",
       "top-1 error: early SAGE 9.1 %, late GCN 17.4, MLP 52.9", kGraphs, nullptr},
      {"tpugraphs-table-9", kTpuGraphs, "table 9", "tiles of each program",
       "top-1 error of early SAGE 6 to 48 %", kGraphs, nullptr},
      {"tpugraphs-table-10", kTpuGraphs, "table 10", "prediction against evaluation time",
       "94 to 2,400 times less",
       "A run that was recorded, without compilation, against the processor time of a score",
       scoring_times},
      {"tpugraphs-cross-attention", kTpuGraphs, "TGraph", "attention between configurations",
       "mean tau .674", kGraphs, nullptr},
  };
}

}  // namespace

const std::vector<PaperStudy>& paper_studies() {
  static const std::vector<PaperStudy> table = [] {
    std::vector<PaperStudy> out;
    for (const auto& part : {autotvm_studies(), tenset_studies(), tlm_studies(), atformer_studies(),
                             tpugraphs_studies()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return table;
}

}  // namespace tessera::app
