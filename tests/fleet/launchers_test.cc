#include "tessera/trials/fleet/launchers.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/record/temp_folder.h"

namespace tessera::fleet {
namespace {

class Launchers : public record::TempFolder {
 protected:
  static LaunchOptions options() {
    return {.program = "/bin/true",
            .database = "postgresql:///tuning?options=it's%20\"$HOME\"",
            .labels = "rack=3",
            .threads = 4,
            .count = 8,
            .image = "registry.example/tessera:0.1"};
  }
  std::string written(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  static int shell(const std::string& command) {
    return std::system((command + " > /dev/null 2>&1").c_str());
  }
  static bool has(const std::string& program) { return shell("command -v " + program) == 0; }
};

TEST_F(Launchers, SystemdReadsTheUnit) {
  const std::string unit = systemd_unit(options()).value();
  EXPECT_NE(unit.find("it's%%20\\\"$$HOME\\\""), std::string::npos) << unit;
  EXPECT_NE(unit.find("\"--threads\" \"4\""), std::string::npos);
  if (!has("systemd-analyze")) GTEST_SKIP() << "systemd-analyze is not installed";
  const std::string file = written("tessera-agent@.service", unit);
  EXPECT_EQ(shell("systemd-analyze verify --man=no " + file), 0) << unit;
  const std::string broken = written("broken@.service", unit.substr(0, unit.find("/bin/sh")));
  EXPECT_NE(shell("systemd-analyze verify --man=no " + broken), 0);
}

// The script runs what it quotes.
TEST_F(Launchers, SlurmGetsAScriptOfTheShell) {
  LaunchOptions o = options();
  const std::string output = path("words");
  o.program = written("agent", "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + output + "\n");
  written("srun", "#!/bin/sh\nshift\nexec \"$@\"\n");
  const std::string script = slurm_script(o).value();
  EXPECT_NE(script.find("#SBATCH --array=0-7\n"), std::string::npos);
  EXPECT_NE(script.find("#SBATCH --cpus-per-task=4\n"), std::string::npos);
  const std::string file = written("script", script);
  ASSERT_EQ(shell("chmod +x " + o.program + " " + path("srun")), 0);
  ASSERT_EQ(
      shell("PATH=" + std::filesystem::path(file).parent_path().string() + ":$PATH sh " + file), 0);
  std::ifstream in(output);
  const std::string words{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(words, "agent\n--db\n" + o.database + "\n--threads\n4\n--labels\nrack=3\n");
}

TEST_F(Launchers, KubernetesGetsAJob) {
  const std::string text = kubernetes_manifest(options()).value();
  const auto job = nlohmann::json::parse(text);
  EXPECT_EQ(job["kind"], "Job");
  EXPECT_EQ(job["metadata"]["name"], "tessera-agents");
  EXPECT_EQ(job["spec"]["parallelism"], 8);
  const auto& pod = job["spec"]["template"]["spec"];
  EXPECT_EQ(pod["restartPolicy"], "OnFailure");
  ASSERT_TRUE(pod["containers"].is_array()) << text;
  const auto& agent = pod["containers"][0];
  EXPECT_EQ(agent["command"][3], options().database);
  EXPECT_EQ(agent["resources"]["limits"]["cpu"], "4");
  EXPECT_EQ(agent["resources"]["limits"], agent["resources"]["requests"]);
}

// Every part of the one is in the other.
bool has_all(const nlohmann::json& part, const nlohmann::json& whole) {
  if (part.is_object() && whole.is_object()) {
    for (const auto& [name, value] : part.items()) {
      if (!whole.contains(name) || !has_all(value, whole.at(name))) return false;
    }
    return true;
  }
  if (part.is_array() && whole.is_array() && part.size() == whole.size()) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (!has_all(part[i], whole[i])) return false;
    }
    return true;
  }
  return part == whole;
}

// It reads a manifest without a cluster where it changes one; what it does not know is lost.
TEST_F(Launchers, KubernetesKnowsAllOfTheJob) {
  if (!has("kubectl")) GTEST_SKIP() << "kubectl is not installed";
  const auto is_known = [&](const std::string& manifest) {
    const std::string file = written("job.json", manifest), output = path("known.json");
    const std::string command = "kubectl set image --local -f " + file +
                                " agent=another -o json > " + output + " 2> /dev/null";
    if (std::system(command.c_str()) != 0) return false;
    std::ifstream in(output);
    auto wanted = nlohmann::json::parse(manifest);
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "another";
    return has_all(wanted, nlohmann::json::parse(in, nullptr, false));
  };
  const std::string manifest = kubernetes_manifest(options()).value();
  EXPECT_TRUE(is_known(manifest)) << manifest;
  for (const auto& [right, wrong] : std::vector<std::pair<std::string, std::string>>{
           {"\"secretName\"", "\"secret_name\""},
           {"\"mountPath\"", "\"path\""},
           {"\"completions\": 8", "\"completions\": \"8\""},
           {"\"restartPolicy\": \"OnFailure\"", "\"restartPolicy\": 1"}}) {
    std::string broken = manifest;
    ASSERT_NE(broken.find(right), std::string::npos) << right;
    broken.replace(broken.find(right), right.size(), wrong);
    EXPECT_FALSE(is_known(broken)) << wrong;
  }
}

TEST_F(Launchers, KubernetesHasPasswordsInASecret) {
  const auto job = nlohmann::json::parse(kubernetes_manifest(options()).value());
  const auto& pod = job["spec"]["template"]["spec"];
  const auto& agent = pod["containers"][0];
  EXPECT_EQ(agent["env"][0]["name"], "PGPASSFILE");
  EXPECT_EQ(agent["env"][0]["value"], "/etc/tessera/pgpass");
  EXPECT_EQ(agent["volumeMounts"][0]["mountPath"], "/etc/tessera");
  EXPECT_EQ(agent["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
  EXPECT_EQ(pod["volumes"][0]["secret"]["secretName"], "tessera-pgpass");
  EXPECT_EQ(pod["volumes"][0]["secret"]["defaultMode"], 0400) << "libpq reads no other";
  EXPECT_EQ(pod["volumes"][0]["secret"]["optional"], true);
}

TEST_F(Launchers, KubernetesExpandsNothing) {
  LaunchOptions o = options();
  o.database = "postgresql:///tuning?options=$(PATH)$(A)";
  const auto job = nlohmann::json::parse(kubernetes_manifest(o).value());
  EXPECT_EQ(job["spec"]["template"]["spec"]["containers"][0]["command"][3],
            "postgresql:///tuning?options=$$(PATH)$$(A)");
}

TEST_F(Launchers, WhatCannotBeStartedIsRefused) {
  LaunchOptions o = options();
  o.program = "tessera";
  EXPECT_FALSE(systemd_unit(o).ok());
  EXPECT_TRUE(slurm_script(o).ok());
  o = options();
  o.image = "";
  EXPECT_FALSE(kubernetes_manifest(o).ok());
  for (const auto& break_it : std::vector<void (*)(LaunchOptions*)>{
           [](LaunchOptions* l) { l->database = ""; },
           [](LaunchOptions* l) { l->database += "\nExecStartPre=/bin/evil"; },
           [](LaunchOptions* l) { l->labels = "rack"; }, [](LaunchOptions* l) { l->count = 0; },
           [](LaunchOptions* l) { l->threads = 0; }}) {
    o = options();
    break_it(&o);
    EXPECT_FALSE(systemd_unit(o).ok());
    EXPECT_FALSE(slurm_script(o).ok());
    EXPECT_FALSE(kubernetes_manifest(o).ok());
  }
}

}  // namespace
}  // namespace tessera::fleet
