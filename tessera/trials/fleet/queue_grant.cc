#include "tessera/trials/fleet/queue_grant.h"

#include <fmt/format.h>

#include "tessera/trials/record/server_grant.h"

namespace tessera::fleet {

std::string queue_grant_sql(const std::string& role, GrantFor who) {
  const std::string name = record::role_name(role);
  std::string sql = fmt::format(
      "GRANT USAGE ON SCHEMA tessera TO {0};\n"
      "GRANT SELECT ON ALL TABLES IN SCHEMA tessera TO {0};\n"
      "GRANT INSERT, UPDATE ON tessera.agents, tessera.helpers, tessera.attempts TO {0};\n"
      "GRANT UPDATE (state) ON tessera.tunings TO {0};\n"
      "GRANT UPDATE (state, attempt, agent, leased_until, reported, reporter, taken, result)\n"
      "  ON tessera.trials TO {0};\n"
      "GRANT USAGE ON ALL SEQUENCES IN SCHEMA tessera TO {0};\n",
      name);
  if (who == GrantFor::kAgent) return sql;
  sql += fmt::format(
      "GRANT INSERT ON tessera.tunings, tessera.trials TO {0};\n"
      "GRANT UPDATE (seen, work) ON tessera.tunings TO {0};\n",
      name);
  return sql + record::grant_sql(role);
}

}  // namespace tessera::fleet
