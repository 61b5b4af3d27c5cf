// What --db and TESSERA_DB name: a file, or a database of a PostgreSQL server by its URL.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::record {

// "postgresql://..." or "postgres://...".
bool is_server_url(const std::string& place);

// For messages, logs and notes: a URL without anything secret in it, any other text as it is.
std::string shown_name(const std::string& place);
// A command line for the notes of a session, each URL in it as shown_name() has it.
std::string without_secrets(const std::string& command);

// kInvalidArgument where a URL has a password in it: arguments can be read by every user of the
// machine. The message says where libpq takes it from, and does not repeat it.
Result<void> check_server_url(const std::string& url);

}  // namespace tessera::record
