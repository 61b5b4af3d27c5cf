// What roles of a server may do with a queue.
#pragma once

#include <string>

namespace tessera::fleet {

enum class GrantFor { kAgent, kTuner };

// SQL for the owner of the tables, which must be there (`tessera fleet status` makes them). An
// agent may claim and report, but adds no trials or records and deletes nothing; a tuner may add
// both.
std::string queue_grant_sql(const std::string& role, GrantFor who);

}  // namespace tessera::fleet
