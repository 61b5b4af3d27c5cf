// Which agents work for which tunings.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/trials/fleet/roster.h"

namespace tessera::fleet {

using Labels = std::map<std::string, std::string>;

// "rack=3 quiet=yes", spaces or commas between them. kInvalidArgument names the one that is wrong.
Result<Labels> labels_from_text(std::string_view text);
std::string to_text(const Labels& labels);

// Which agents a tuning asks for: "any", a number (so many at most), or "label=NAME=VALUE".
struct AgentChoice {
  Labels labels;
  std::int64_t most = 0;
};
Result<AgentChoice> choice_from_text(const std::string& text);

// Why the agent does not work for the tuning, in a few words; empty: it does. Times of a group of
// machines alone are compared (target::same_group).
std::string why_unfit(const AgentRow& agent, const TuningRow& tuning);

// "no agent fits: a (2 threads, wanted 4), b (...)", for people.
std::string why_none_fits(const std::vector<AgentRow>& agents, const TuningRow& tuning,
                          const std::vector<HelperRow>& helpers);

}  // namespace tessera::fleet
