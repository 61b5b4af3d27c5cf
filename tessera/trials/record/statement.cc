#include "tessera/trials/record/statement.h"

#include <cstring>

#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/postgres_text.h"

namespace tessera::record {
namespace {

// A transaction that the server refused so often waits for what will not come.
constexpr int kMostAttempts = 8;

}  // namespace

void Statement::bind_samples(int parameter, const std::vector<double>& samples) {
  static_assert(sizeof(double) == 8);
  query_->bind_bytes(parameter, samples.empty()
                                    ? std::string_view()
                                    : std::string_view(reinterpret_cast<const char*>(&samples[0]),
                                                       samples.size() * sizeof(double)));
}

// Seven bits a byte, the lowest first; the highest bit says that more follow.
void Statement::bind_ids(int parameter, const std::vector<std::int64_t>& ids) {
  std::string bytes;
  for (const std::int64_t id : ids) {
    auto rest = static_cast<std::uint64_t>(id);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(0x80 | (rest & 0x7f));
    bytes += static_cast<char>(rest);
  }
  query_->bind_bytes(parameter, bytes);
}

Result<void> Statement::finish() {
  TESSERA_TRY(const bool row, step());
  if (row) reset();
  return {};
}

std::vector<double> Statement::samples(int column) const {
  const std::string bytes = query_->bytes(column);
  std::vector<double> samples(bytes.size() / sizeof(double));
  if (!samples.empty()) {
    std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(double));
  }
  return samples;
}

std::vector<std::int64_t> Statement::ids(int column) const {
  std::vector<std::int64_t> out;
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : query_->bytes(column)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (shift < 63) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    out.push_back(static_cast<std::int64_t>(value));
    value = 0;
    shift = 0;
  }
  return out;
}

Result<Connection> Connection::open(const std::string& place, Mode mode,
                                    std::chrono::milliseconds patience) {
  TESSERA_TRY(std::unique_ptr<Engine> engine, is_server_url(place)
                                                  ? open_postgres(place, mode, patience)
                                                  : open_sqlite(place, mode, patience));
  return Connection(std::move(engine));
}

Result<Statement> Connection::prepare(std::string_view sql) const {
  TESSERA_TRY(std::unique_ptr<Query> query, engine_->prepare(sql));
  return Statement(std::move(query));
}

Result<void> Connection::define(const std::string& sql) const {
  return execute(is_server() ? server_tables(sql) : sql);
}

Result<std::int64_t> Connection::query_integer(std::string_view sql) const {
  TESSERA_TRY(Statement statement, prepare(sql));
  TESSERA_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : std::int64_t{0};
}

Result<bool> Connection::has_table(const std::string& name) const {
  TESSERA_TRY(Statement select,
              prepare(is_server() ? "SELECT 1 FROM pg_tables WHERE schemaname = 'tessera' AND "
                                    "tablename = ?"
                                  : "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name "
                                    "= ?"));
  select.bind(0, name);
  TESSERA_TRY(const bool row, select.step());
  if (row) select.reset();
  return row;
}

Result<void> Connection::repeat(const std::function<Result<void>()>& work) const {
  Result<void> done = work();
  for (int i = 1; i < kMostAttempts && !done.ok() && engine_->may_try_again(); ++i) done = work();
  return done;
}

Result<void> Connection::transact(const std::function<Result<void>()>& work) const {
  const auto once = [&]() -> Result<void> {
    TESSERA_TRY(Transaction transaction, Transaction::begin(*this));
    TESSERA_DO(work());
    return transaction.commit();
  };
  return repeat(once);
}

Result<void> Connection::transact(const std::function<Result<void>()>& work,
                                  const std::function<Result<bool>()>& written) const {
  for (int i = 0; i < kMostAttempts; ++i) {
    TESSERA_DO(transact(work));
    if (!engine_->commit_in_doubt()) return {};
    TESSERA_TRY(const bool there, written());
    if (there) return {};
  }
  return make_error(ErrorCode::kUnavailable, "{}: the connection is lost at every commit", name());
}

Result<Transaction> Transaction::begin(const Connection& connection) {
  TESSERA_DO(connection.engine_->begin());
  return Transaction(connection.engine_.get());
}

Transaction::~Transaction() {
  if (engine_ != nullptr) engine_->roll_back();
}

Result<void> Transaction::commit() {
  TESSERA_DO(engine_->commit());
  engine_ = nullptr;
  return {};
}

}  // namespace tessera::record
