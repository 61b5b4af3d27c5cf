#include "tessera/trials/record/postgres_session.h"

#include <algorithm>

#include <poll.h>

#include "tessera/trials/record/database_name.h"

namespace tessera::record {
namespace {

constexpr int kOldestServer = 130'000;      // pg_current_xact_id()
constexpr std::size_t kMostPrepared = 200;  // statements of one connection
constexpr const char* kSchema = "tessera";

// Each session has these, whatever the role or the database is set to: what append() returned for
// is on the server's disk.
constexpr const char* kSettings =
    "SET search_path TO tessera; SET synchronous_commit = on; SET bytea_output = hex; "
    "SET extra_float_digits = 3; SET standard_conforming_strings = on";

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  std::erase(text, '\t');
  return text;
}

// The server lacks disk, memory or connections, or an administrator ended the statement: it may go
// well later.
bool is_passing(const std::string& state) { return state.starts_with("53") || state == "57014"; }

Error server_error(const std::string& name, const std::string& state, const std::string& said) {
  if (state == "25006") return make_error(ErrorCode::kIo, "{}: is read-only", name);
  if (state == "53100") {
    return make_error(ErrorCode::kUnavailable,
                      "{}: no space is left on the server ({}); nothing of this batch was written, "
                      "what was recorded before is kept",
                      name, said);
  }
  if (is_passing(state)) return make_error(ErrorCode::kUnavailable, "{}: {}", name, said);
  if (state == "42501") {
    return make_error(ErrorCode::kIo, "{}: {}; `tessera db grant` prints what a role needs", name,
                      said);
  }
  return make_error(ErrorCode::kIo, "{}: {}", name, said);
}

bool has(const Error& error, const char* words) {
  return error.message.find(words) != std::string::npos;
}

}  // namespace

bool is_refusal(const Error& error) {
  return has(error, "authentication failed") || has(error, "no password supplied") ||
         has(error, "no pg_hba.conf entry") || has(error, "invalid ") ||
         (has(error, "database \"") && has(error, "does not exist")) ||
         (has(error, "role \"") && has(error, "does not exist")) || has(error, "is needed");
}

bool is_starting(const Error& error) {
  return has(error, "starting up") || has(error, "not yet accepting") ||
         has(error, "too many clients");
}

void PostgresParameters::set(int parameter, std::string value, int format) {
  const auto at = static_cast<std::size_t>(parameter);
  if (values.size() <= at) {
    values.resize(at + 1);
    formats.resize(at + 1, -1);
  }
  values[at] = std::move(value);
  formats[at] = format;
}

Result<std::unique_ptr<PostgresSession>> PostgresSession::connect(const PostgresLibrary& library,
                                                                  const std::string& url,
                                                                  OpenMode mode) {
  // What stands before "dbname" can be set in the URL, too. A host that vanishes is noticed: by
  // what it does not acknowledge and, where its answer is waited for, by probes of a silent line.
  constexpr std::pair<const char*, const char*> kUsual[] = {
      {"connect_timeout", "10"},     {"fallback_application_name", "tessera"},
      {"tcp_user_timeout", "30000"}, {"keepalives", "1"},
      {"keepalives_idle", "10"},     {"keepalives_interval", "5"},
      {"keepalives_count", "3"}};
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : kUsual) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  keywords.insert(keywords.end(), {"dbname", "client_encoding", nullptr});
  values.insert(values.end(), {url.c_str(), "UTF8", nullptr});
  const std::string name = shown_name(url);
  std::unique_ptr<PostgresSession> out(
      new PostgresSession(library, library.connect(keywords.data(), values.data(), 1), name));
  if (out->lost()) {
    return make_error(ErrorCode::kUnavailable, "{}: cannot be reached: {}", name,
                      one_line(library.connection_error(out->connection_)));
  }
  library.set_notice_processor(
      out->connection_, [](void*, const char*) {}, nullptr);
  const int version = library.server_version(out->connection_);
  if (version < kOldestServer) {
    return make_error(ErrorCode::kUnsupported, "{}: PostgreSQL 13 or newer is needed, this is {}",
                      name, version / 10'000);
  }
  const char* encoding = library.parameter(out->connection_, "server_encoding");
  if (encoding == nullptr || std::string(encoding) != "UTF8") {
    return make_error(ErrorCode::kUnsupported,
                      "{}: a database in UTF8 is needed, this one is in {}; make one with "
                      "createdb -E UTF8 -T template0",
                      name, encoding == nullptr ? "an unknown encoding" : encoding);
  }
  std::string settings = kSettings;
  if (mode != OpenMode::kCreate) settings += "; SET default_transaction_read_only = on";
  const PostgresResult set = out->execute(settings);
  if (!out->succeeded(set)) return out->failure_of(set).error;
  return out;
}

PostgresResult PostgresSession::execute(const std::string& sql) {
  return own(library_.execute(connection_, sql.c_str()));
}

PostgresResult PostgresSession::prepare(const std::string& sql, std::size_t parameters,
                                        std::string* name) {
  if (const auto it = prepared_.find(sql); it != prepared_.end()) {
    *name = it->second;
    return own(nullptr);
  }
  if (prepared_.size() >= kMostPrepared && succeeded(execute("DEALLOCATE ALL"))) prepared_.clear();
  *name = fmt::format("s{}", ++next_name_);
  PostgresResult done = own(library_.prepare(connection_, name->c_str(), sql.c_str(),
                                             static_cast<int>(parameters), nullptr));
  if (!succeeded(done)) return done;
  prepared_[sql] = *name;
  return own(nullptr);
}

namespace {

struct PostgresArguments {
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
};

PostgresArguments arguments_of(const PostgresParameters& p) {
  PostgresArguments out;
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    out.values.push_back(p.formats[i] < 0 ? nullptr : p.values[i].c_str());
    out.lengths.push_back(static_cast<int>(p.values[i].size()));
    out.formats.push_back(std::max(p.formats[i], 0));
  }
  return out;
}

}  // namespace

PostgresResult PostgresSession::run(const std::string& sql, const PostgresParameters& parameters) {
  std::string name;
  PostgresResult failed = prepare(sql, parameters.values.size(), &name);
  if (failed) return failed;
  const PostgresArguments a = arguments_of(parameters);
  return own(library_.execute_prepared(connection_, name.c_str(), static_cast<int>(a.values.size()),
                                       a.values.data(), a.lengths.data(), a.formats.data(), 0));
}

PostgresResult PostgresSession::start(const std::string& sql,
                                      const PostgresParameters& parameters) {
  std::string name;
  PostgresResult failed = prepare(sql, parameters.values.size(), &name);
  if (failed) return failed;
  const PostgresArguments a = arguments_of(parameters);
  if (library_.send_prepared(connection_, name.c_str(), static_cast<int>(a.values.size()),
                             a.values.data(), a.lengths.data(), a.formats.data(), 0) == 0) {
    return own(nullptr);
  }
  library_.one_row_at_a_time(connection_);
  return next();
}

PostgresResult PostgresSession::next() { return own(library_.next_result(connection_)); }

bool PostgresSession::wait_for_notification(std::chrono::milliseconds timeout) {
  pollfd ready{library_.socket(connection_), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return true;
  if (library_.consume_input(connection_) == 0) return false;
  while (void* one = library_.notification(connection_)) library_.free_memory(one);
  return !lost();
}

bool PostgresSession::succeeded(const PostgresResult& result) const {
  if (!result) return false;
  const int status = library_.result_status(result.get());
  return status == kPgCommandOk || status == kPgTuplesOk || status == kPgSingleTuple;
}

std::string PostgresSession::error_text(const PostgresResult& result, int which) const {
  const char* text = result ? library_.error_field(result.get(), which) : nullptr;
  return text == nullptr ? "" : text;
}

std::string PostgresSession::state_of(const PostgresResult& result) const {
  return error_text(result, kPgSqlState);
}

PostgresFailure PostgresSession::failure_of(const PostgresResult& result) const {
  const std::string state = state_of(result);
  // No state: libpq itself found the connection gone, which status() may not know yet. 57P01 to
  // 57P03: the server shuts down or starts. 08: the connection. 40: of two transactions that waited
  // for each other one was ended. 55P03: a lock was not to be had.
  if (state.empty() || state.starts_with("57P0") || state.starts_with("08")) {
    const std::string said =
        state.empty() ? library_.connection_error(connection_) : error_text(result, kPgMessage);
    return {make_error(ErrorCode::kUnavailable, "{}: the connection was lost: {}", name_,
                       one_line(said)),
            true};
  }
  Error error = server_error(name_, state, one_line(error_text(result, kPgMessage)));
  return {std::move(error), state.starts_with("40") || state == "55P03"};
}

}  // namespace tessera::record
