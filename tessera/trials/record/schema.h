// The tables of a database of records, and how a file becomes one.
#pragma once

#include "tessera/trials/record/statement.h"

namespace tessera::record {

// Of the tables. A change raises it; a newer file is refused, an older one is brought up to date.
inline constexpr std::int64_t kSchemaVersion = 3;

// Of what the rows mean: 1 since keys of tasks are canonical and records have
// their steps.
inline constexpr std::int64_t kContentVersion = 1;

// Ids in `texts` that every file has: conditions of indices must be constants.
inline constexpr std::int64_t kTextOk = 1, kTextCensored = 2;

// Makes an empty place a database of records and brings an older one up to date. kIo when it is a
// database of another program, kUnsupported when a newer version wrote it.
Result<void> prepare_schema(const Connection& connection);
// The same checks without writing; an empty place is not a database of records. Returns the version
// of the tables: 1 has neither schedules nor what was quiet, 2 has no subjects and keeps what
// take_marks() knows in `extra`.
Result<std::int64_t> check_schema(const Connection& connection);

// Of what the rows mean: PRAGMA user_version of a file, a table of a server.
Result<std::int64_t> content_version(const Connection& connection);
Result<void> keep_content_version(const Connection& connection,
                                  std::int64_t version = kContentVersion);

}  // namespace tessera::record
