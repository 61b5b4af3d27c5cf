#include "tessera/trials/record/server_grant.h"

#include <fmt/format.h>

namespace tessera::record {

std::string role_name(const std::string& role) {
  std::string name = "\"";
  for (const char c : role) name += c == '"' ? "\"\"" : std::string(1, c);
  return name + '"';
}

std::string grant_sql(const std::string& role) {
  return fmt::format(
      "GRANT USAGE ON SCHEMA tessera TO {0};\n"
      "GRANT SELECT ON ALL TABLES IN SCHEMA tessera TO {0};\n"
      "GRANT INSERT ON tessera.sessions, tessera.tasks, tessera.texts, tessera.schedules,\n"
      "  tessera.records, tessera.session_summaries TO {0};\n"
      "GRANT UPDATE (state, ended) ON tessera.sessions TO {0};\n"
      "GRANT UPDATE (text) ON tessera.session_summaries TO {0};\n"
      "GRANT USAGE ON ALL SEQUENCES IN SCHEMA tessera TO {0};\n",
      role_name(role));
}

}  // namespace tessera::record
