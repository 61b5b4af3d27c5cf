// What Prometheus reads from an agent.
#include "tessera/trials/fleet/metrics.h"

#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/fleet/fleet_case.h"
#include "tests/record/temp_folder.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;

// The value of a sample; -1: it is not there.
double value_of(const std::string& page, const std::string& name) {
  const std::size_t at = page.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atof(page.c_str() + at + name.size() + 2);
}

TEST(Metrics, NameTheMachineWhateverItIsCalled) {
  AgentOptions agent;
  agent.name = "a\\b\"c\nd";
  agent.version = "0.1.0";
  agent.threads = 3;
  agent.target.cpu = "znver4";
  const std::string page = metrics_text(agent, {});
  EXPECT_NE(page.find("\ntessera_agent_info{agent=\"a\\\\b\\\"c\\nd\",machine=\"znver4\","
                      "version=\"0.1.0\",threads=\"3\"} 1\n"),
            std::string::npos)
      << page;
}

using Json = nlohmann::json;

// The values of "expr", at any depth.
void add_queries(const Json& json, std::string* out) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if (key == "expr" && value.is_string()) *out += value.get<std::string>() + "\n";
    add_queries(value, out);
  }
}

std::set<std::string> names_in(const std::string& text, const char* form) {
  const std::regex name(form);
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
    out.insert((*it)[1]);
  return out;
}

TEST(Metrics, TheDashboardShowsAllThatAnAgentPrintsAndNothingElse) {
  std::ifstream file(TESSERA_ROOT "/examples/fleet/grafana.json");
  const Json dashboard = Json::parse(file, nullptr, false);
  ASSERT_TRUE(dashboard.is_object());
  std::string queries;
  add_queries(dashboard, &queries);
  const std::set<std::string> printed =
      names_in(metrics_text({}, {}), "# TYPE (tessera_\\w+) (?:counter|gauge)\n");
  EXPECT_GE(printed.size(), 10u);
  EXPECT_EQ(names_in(queries, "(tessera_\\w+)"), printed) << queries;
  EXPECT_EQ(dashboard["title"], "Tessera agents");
}

class MetricsOfAnAgent : public record::TempFolder {};

TEST_F(MetricsOfAnAgent, CountWhatItDid) {
  std::atomic<int> answered = 0;
  const AgentOptions options =
      agent_at(path("a.db"), "one", [&](const auto& t, bool together, measure::Measurement* m) {
        std::this_thread::sleep_for(2ms);
        answer_quickly(t, together, m);
        if (++answered != 3) return;
        m->outcome = measure::Outcome::kBuildError;
        m->samples_s.clear();
      });
  ThreadAgent agent(options);
  {
    auto tuning = tuning_at(fleet_at(path("a.db")));
    ASSERT_TRUE(tuning.ok()) << tuning.error().message;
    (*tuning)->submit(trials_of(0, 20));
    EXPECT_EQ(collect_all(**tuning).size(), 20u);
  }
  ASSERT_TRUE(agent.end().ok()) << agent.end().error().message;
  const std::string page = metrics_text(options, agent.progress());
  EXPECT_GE(value_of(page, "tessera_agent_claimed_total"), 20) << page;
  EXPECT_GE(value_of(page, "tessera_agent_measured_total"), 20);
  EXPECT_EQ(value_of(page, "tessera_agent_failed_total"), 1);
  EXPECT_EQ(value_of(page, "tessera_agent_given_back_total"), 0);
  EXPECT_EQ(value_of(page, "tessera_agent_late_total"), agent.end()->late);
  EXPECT_EQ(value_of(page, "tessera_agent_in_hand"), 0);
  EXPECT_GE(value_of(page, "tessera_agent_measuring_seconds_total"), 0.04);
  EXPECT_GE(value_of(page, "tessera_agent_batch_size"), 1);
  EXPECT_LE(value_of(page, "tessera_agent_batch_size"), kMostClaimed);
  EXPECT_GT(value_of(page, "tessera_agent_last_heartbeat_timestamp_seconds"), 1.7e9);
}

}  // namespace
}  // namespace tessera::fleet
