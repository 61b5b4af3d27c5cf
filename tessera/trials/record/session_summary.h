// What came of a session, as its program tells it. In a table of its own, which older programs do
// not know and need not: the version of the tables stays.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/support/result.h"
#include "tessera/trials/record/statement.h"

namespace tessera::record {

// Of a session of the database at `path`; again: the later one counts. kInvalidArgument: there is
// no such session.
Result<void> keep_session_summary(const std::string& path, std::int64_t session,
                                  const std::string& summary);

// By session, of those that have one.
Result<std::map<std::int64_t, std::string>> session_summaries(const std::string& path);

// The same where a connection is there. In a transaction; the session is not looked for.
Result<void> put_session_summary(const Connection& connection, std::int64_t session,
                                 const std::string& summary);
Result<std::map<std::int64_t, std::string>> session_summaries_of(const Connection& connection);

}  // namespace tessera::record
