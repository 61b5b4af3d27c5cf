// What a role of a server may do that only adds measurements.
#pragma once

#include <string>

namespace tessera::record {

// A role as SQL names it.
std::string role_name(const std::string& role);

// SQL for the owner of the tables: `role` may read everything and add sessions, tasks and records,
// but neither change nor remove what is there; of sessions it may note their end.
std::string grant_sql(const std::string& role);

}  // namespace tessera::record
