// The notes of every file of weights/ are about the data that ships beside it: whoever changes one
// of the two without the other learns of it here.
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/lm/language_file.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/machine/target/match.h"
#include "tessera/scheduling/space/kind.h"
#include "tessera/support/safetensors.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

using Notes = nn::Notes;

std::string data_folder() { return shipped_folder("data", "dataset.json"); }

// What the datasets of data/ were measured on, and of which kinds their candidates are.
class ShippedData {
 public:
  static const ShippedData& get() {
    static const ShippedData data;
    return data;
  }

  bool has_machine(const target::Target& target, int threads) const {
    return std::ranges::any_of(machines_, [&](const auto& m) {
      return m.second == threads && target::same_group(m.first, target);
    });
  }
  bool has_kind(const std::string& kind) const { return kinds_.contains(kind); }

 private:
  ShippedData() {
    add(data_folder());
    for (const auto& entry : fs::directory_iterator(data_folder())) {
      if (fs::exists(entry.path() / "dataset.json")) add(entry.path().string());
    }
  }

  void add(const std::string& folder) {
    const auto reader = dataset::DatasetReader::open(folder);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    const dataset::Dataset& d = reader->header();
    std::vector<target::Target> targets;
    for (const dataset::MachineInfo& m : d.machines) {
      const auto target = target::target_from_text(m.target);
      ASSERT_TRUE(target.ok()) << m.target;
      targets.push_back(*target);
      machines_.emplace_back(*target, m.threads);
    }
    std::set<std::tuple<std::int32_t, std::int32_t, std::string>> seen;
    Result<te::Dag> dag = Error{};
    std::int32_t task = -1;
    const auto read = reader->visit([&](dataset::Example& e) -> Result<void> {
      const std::string sketch = e.candidate.substr(0, e.candidate.find(':') + 1);
      if (!(e.seconds > 0) || !seen.insert({e.task, e.machine, sketch}).second) return {};
      if (e.task != task) {
        const dataset::TaskInfo& info = d.tasks[static_cast<std::size_t>(e.task)];
        dag = te::dag_from_text(info.format == "tessera" ? info.definition : "");
        task = e.task;
      }
      if (!dag.ok()) return {};
      const auto machine = static_cast<std::size_t>(e.machine);
      kinds_.insert(
          space::candidate_kind(*dag, targets[machine], d.machines[machine].threads, e.candidate));
      return {};
    });
    ASSERT_TRUE(read.ok()) << read.error().message;
  }

  std::vector<std::pair<target::Target, int>> machines_;
  std::set<std::string> kinds_;
};

// "TARGET threads=N; ...": the numbers of threads.
std::set<int> expect_known_targets(const std::string& note) {
  std::set<int> out;
  constexpr std::string_view kThreads = " threads=";
  for (std::size_t at = 0; at < note.size();) {
    const std::size_t end = std::min(note.find("; ", at), note.size());
    const std::string entry = note.substr(at, end - at);
    at = end + 2;
    const std::size_t last = entry.rfind(kThreads);
    if (last == std::string::npos) {
      ADD_FAILURE() << entry;
      continue;
    }
    int threads = 0;
    std::from_chars(entry.data() + last + kThreads.size(), entry.data() + entry.size(), threads);
    const auto target = target::target_from_text(entry.substr(0, last));
    EXPECT_TRUE(target.ok() && ShippedData::get().has_machine(*target, threads)) << entry;
    out.insert(threads);
  }
  return out;
}

// Of code with these numbers of threads.
void expect_known_kinds(const Notes& notes, const std::set<int>& of_targets) {
  const nn::KindCounts kinds = nn::kinds_of(notes);
  EXPECT_FALSE(kinds.empty());
  for (const auto& [kind, count] : kinds) {
    EXPECT_TRUE(ShippedData::get().has_kind(kind)) << kind;
    EXPECT_GT(count, 0) << kind;
    EXPECT_TRUE(of_targets.contains(std::stoi(kind.substr(kind.find(' '))))) << kind;
  }
}

// Graphs of networks, by the files that they were read from.
void expect_known_graphs(const std::string& note) {
  std::set<std::string> known;
  for (const auto& entry : fs::recursive_directory_iterator(data_folder() + "/plans"))
    known.insert(entry.path().stem().string());
  for (const std::string& name : split_commas(note)) EXPECT_TRUE(known.contains(name)) << name;
}

TEST(ShippedWeights, NotesAreThoseOfTheDataThatShips) {
  if (weights_folder().empty() || data_folder().empty()) GTEST_SKIP() << "built without sources";
  std::map<std::string, int> loaded;  // by format
  for (const auto& entry : fs::directory_iterator(weights_folder())) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const auto file = read_safetensors(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const std::string format = file->metadata.at("format");
    ++loaded[format];
    if (format == "tessera.network") {
      const auto network = nn::load_network(path);
      ASSERT_TRUE(network.ok()) << network.error().message;
      ASSERT_TRUE(network->notes.contains("targets"));
      expect_known_kinds(network->notes, expect_known_targets(network->notes.at("targets")));
    } else if (format == "tessera.graph_network") {
      const auto network = nn::load_graph_network(path);
      ASSERT_TRUE(network.ok()) << network.error().message;
      expect_known_graphs(network->notes.at("graphs"));
    } else {
      // Sentences are drawn; what they are drawn from is not noted.
      EXPECT_EQ(format, "tessera.language");
      const auto language = lm::load_language(path);
      EXPECT_TRUE(language.ok()) << language.error().message;
    }
  }
  EXPECT_EQ(loaded.size(), 3u);
}

TEST(ShippedWeights, OtherMachinesAndKindsAreNotOfTheData) {
  if (data_folder().empty()) GTEST_SKIP() << "built without sources";
  const ShippedData& data = ShippedData::get();
  const auto h200 = target::find_target("h200"), old = target::find_target("haswell");
  ASSERT_TRUE(h200.ok() && old.ok());
  EXPECT_FALSE(data.has_machine(*old, 1));
  EXPECT_FALSE(data.has_machine(*h200, 7));
  EXPECT_FALSE(data.has_kind("x86_64:32x64:fma 1 f32 contract reasoned"));
}

}  // namespace
}  // namespace tessera::app
