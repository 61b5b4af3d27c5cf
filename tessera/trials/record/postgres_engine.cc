// PostgreSQL as an engine: a pool of sessions. What runs in a transaction runs in its session, and
// its rows are held as a whole; other statements take a session of their own and read row by row.
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/engine.h"
#include "tessera/trials/record/postgres_session.h"
#include "tessera/trials/record/postgres_text.h"

namespace tessera::record {
namespace {

using Clock = std::chrono::steady_clock;
using SessionHandle = std::unique_ptr<PostgresSession>;

constexpr std::size_t kMostIdle = 4;
constexpr std::chrono::milliseconds kFirstPause{20}, kLongestPause{2'000};
// What pg_xact_status() ends with for a number that was not yet given out.
constexpr const char* kNumberOfTheFuture = "22023";
// Rows that are read and dropped when nobody wants the rest; beyond, a new connection is cheaper.
constexpr int kMostDropped = 16;

// Twice as long each time, and not the same for all who lost the same server.
class Backoff {
 public:
  explicit Backoff(std::chrono::milliseconds patience) : end_(Clock::now() + patience) {}
  // False when patience has ended.
  bool wait() {
    if (Clock::now() >= end_) return false;
    const auto ticks = Clock::now().time_since_epoch().count();
    std::this_thread::sleep_for(pause_ * (50 + ticks / 100 % 50) / 100);
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }

 private:
  Clock::time_point end_;
  std::chrono::milliseconds pause_ = kFirstPause;
};

class PostgresEngine final : public Engine {
 public:
  PostgresEngine(const PostgresLibrary& library, std::string url, OpenMode mode,
                 std::chrono::milliseconds patience)
      : library_(library),
        url_(std::move(url)),
        name_(shown_name(url_)),
        mode_(mode),
        patience_(patience) {}

  const std::string& name() const override { return name_; }
  bool is_server() const override { return true; }
  Result<std::unique_ptr<Query>> prepare(std::string_view sql) override;
  Result<void> execute(const std::string& sql) override;
  Result<void> begin() override;
  Result<void> commit() override;
  void roll_back() override;
  void wait_for(const std::string& channel, std::chrono::milliseconds timeout) override;
  bool may_try_again() const override {
    const std::lock_guard lock(mutex_);
    return failed_.contains(std::this_thread::get_id());
  }
  bool commit_in_doubt() const override {
    const std::lock_guard lock(mutex_);
    return doubtful_.contains(std::this_thread::get_id());
  }

  // Fails at once where a first connection would only fail again.
  Result<void> connect_first();
  // An idle session or a new one.
  Result<SessionHandle> take();
  void give_back(SessionHandle session);
  // Of the transaction of this thread; null: there is none.
  PostgresSession* own_session();
  Error fail(PostgresFailure failure);
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  struct Running {
    SessionHandle session;
    std::string number;  // of the transaction, for its state after a lost connection
  };
  Result<void> find_out(const std::string& number, const Error& lost);

  const PostgresLibrary& library_;
  const std::string url_, name_;
  const OpenMode mode_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::vector<SessionHandle> idle_;
  std::map<std::thread::id, Running> running_;
  std::mutex listening_;
  std::map<std::string, SessionHandle> listeners_;  // by channel
  std::map<std::thread::id, bool> failed_;          // threads whose last failure may be tried again
  std::set<std::thread::id> doubtful_;              // threads whose last commit is in doubt
};

class PostgresQuery final : public Query {
 public:
  PostgresQuery(PostgresEngine& engine, std::string_view sql)
      : engine_(engine), sql_(numbered_parameters(sql)) {}
  ~PostgresQuery() override { reset(); }

  void bind(int parameter, std::int64_t value) override {
    parameters_.set(parameter, std::to_string(value), 0);
  }
  // The shortest text that reads back as the same number.
  void bind(int parameter, double value) override {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    parameters_.set(parameter, std::string(text, end), 0);
  }
  void bind_text(int parameter, std::string_view text) override {
    parameters_.set(parameter, to_server_text(text), 0);
  }
  void bind_bytes(int parameter, std::string_view bytes) override {
    parameters_.set(parameter, std::string(bytes), 1);
  }

  Result<bool> step() override;
  void reset() override;

  std::int64_t integer(int column) const override {
    const std::string_view text = cell(column);
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  double real(int column) const override {
    return std::strtod(std::string(cell(column)).c_str(), nullptr);
  }
  std::string text(int column) const override { return from_server_text(cell(column)); }
  std::string bytes(int column) const override { return bytes_of_hex(cell(column)); }

 private:
  std::string_view cell(int column) const;  // empty for NULL
  Result<void> begin_reading();
  bool has_row() const;
  Result<bool> read_on();

  PostgresEngine& engine_;
  std::string sql_;
  PostgresParameters parameters_;
  const PostgresLibrary* library_ = nullptr;
  PostgresResult result_{nullptr, {nullptr}};
  SessionHandle session_;  // that rows still come from
  int row_ = -1;
  bool started_ = false;
};

std::string_view PostgresQuery::cell(int column) const {
  return {library_->value(result_.get(), row_, column),
          static_cast<std::size_t>(library_->value_bytes(result_.get(), row_, column))};
}

Result<void> PostgresQuery::begin_reading() {
  if (PostgresSession* own = engine_.own_session()) {
    library_ = &own->library();
    result_ = own->run(sql_, parameters_);
    if (own->succeeded(result_)) return {};
    return engine_.fail(own->failure_of(result_));
  }
  for (Backoff pauses(engine_.patience());;) {
    TESSERA_TRY(session_, engine_.take());
    library_ = &session_->library();
    result_ = session_->start(sql_, parameters_);
    if (session_->succeeded(result_)) return {};
    PostgresFailure failure = session_->failure_of(result_);
    session_.reset();
    if (!failure.may_try_again || !pauses.wait()) return engine_.fail(std::move(failure));
  }
}

bool PostgresQuery::has_row() const { return row_ < library_->rows(result_.get()); }

// The next row of a session that sends them one by one; false: that was all.
Result<bool> PostgresQuery::read_on() {
  while (session_) {
    result_ = session_->next();
    row_ = 0;
    if (!result_) {
      engine_.give_back(std::move(session_));
      return false;
    }
    if (!session_->succeeded(result_)) {
      PostgresFailure failure = session_->failure_of(result_);
      session_.reset();
      return engine_.fail(std::move(failure));
    }
    if (has_row()) return true;
  }
  return false;
}

Result<bool> PostgresQuery::step() {
  if (!started_) {
    if (Result<void> begun = begin_reading(); !begun.ok()) {
      reset();
      return begun.error();
    }
    started_ = true;
    row_ = -1;
  }
  ++row_;
  if (has_row()) return true;
  Result<bool> more = read_on();
  if (!more.ok() || !*more) reset();
  return more;
}

void PostgresQuery::reset() {
  for (int i = 0; session_ && i < kMostDropped; ++i) {
    result_ = session_->next();
    if (!result_) engine_.give_back(std::move(session_));
  }
  session_.reset();
  result_.reset();
  parameters_ = {};
  started_ = false;
  row_ = -1;
}

Result<std::unique_ptr<Query>> PostgresEngine::prepare(std::string_view sql) {
  return std::unique_ptr<Query>(std::make_unique<PostgresQuery>(*this, sql));
}

Error PostgresEngine::fail(PostgresFailure failure) {
  const std::lock_guard lock(mutex_);
  if (failure.may_try_again) {
    failed_[std::this_thread::get_id()] = true;
  } else {
    failed_.erase(std::this_thread::get_id());
  }
  return std::move(failure.error);
}

PostgresSession* PostgresEngine::own_session() {
  const std::lock_guard lock(mutex_);
  const auto it = running_.find(std::this_thread::get_id());
  return it == running_.end() ? nullptr : it->second.session.get();
}

Result<void> PostgresEngine::connect_first() {
  for (Backoff pauses(patience_);;) {
    Result<SessionHandle> session = PostgresSession::connect(library_, url_, mode_);
    if (session.ok()) {
      give_back(std::move(session).value());
      return {};
    }
    if (!is_starting(session.error()) || !pauses.wait()) return session.error();
  }
}

Result<SessionHandle> PostgresEngine::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      SessionHandle session = std::move(idle_.back());
      idle_.pop_back();
      return session;
    }
  }
  for (Backoff pauses(patience_);;) {
    Result<SessionHandle> session = PostgresSession::connect(library_, url_, mode_);
    if (session.ok()) return session;
    // No flag of an earlier failure may make the caller wait as long again.
    if (is_refusal(session.error()) || !pauses.wait()) return fail({session.error(), false});
  }
}

void PostgresEngine::give_back(SessionHandle session) {
  if (session->lost() || session->in_transaction()) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(session));
}

Result<void> PostgresEngine::execute(const std::string& sql) {
  if (PostgresSession* own = own_session()) {
    const PostgresResult done = own->execute(sql);
    if (own->succeeded(done)) return {};
    return fail(own->failure_of(done));
  }
  for (Backoff pauses(patience_);;) {
    TESSERA_TRY(SessionHandle session, take());
    const PostgresResult done = session->execute(sql);
    if (session->succeeded(done)) {
      give_back(std::move(session));
      return {};
    }
    PostgresFailure failure = session->failure_of(done);
    if (!failure.may_try_again || !pauses.wait()) return fail(std::move(failure));
  }
}

Result<void> PostgresEngine::begin() {
  for (Backoff pauses(patience_);;) {
    TESSERA_TRY(SessionHandle session, take());
    const PostgresResult begun = session->execute("BEGIN; SELECT pg_current_xact_id()");
    if (session->succeeded(begun)) {
      std::string number = library_.value(begun.get(), 0, 0);
      const std::lock_guard lock(mutex_);
      failed_.erase(std::this_thread::get_id());
      doubtful_.erase(std::this_thread::get_id());
      running_[std::this_thread::get_id()] = {std::move(session), std::move(number)};
      return {};
    }
    PostgresFailure failure = session->failure_of(begun);
    if (!failure.may_try_again || !pauses.wait()) return fail(std::move(failure));
  }
}

Result<void> PostgresEngine::commit() {
  PostgresSession* session = own_session();
  const PostgresResult done = session->execute("COMMIT");
  const bool ended = session->succeeded(done);
  // A transaction that failed answers ROLLBACK; whoever did not look at the failure learns it here.
  const bool committed = ended && std::string(library_.command_tag(done.get())) == "COMMIT";
  if (ended && !committed) {
    return fail({make_error(ErrorCode::kIo, "{}: the transaction had failed before", name_)});
  }
  PostgresFailure failure;
  if (!ended) failure = session->failure_of(done);
  Running running;
  if (committed || failure.may_try_again) {
    const std::lock_guard lock(mutex_);
    running = std::move(running_.extract(std::this_thread::get_id()).mapped());
  }
  if (committed) {
    give_back(std::move(running.session));
    return {};
  }
  if (!running.session) return fail(std::move(failure));
  return find_out(running.number, failure.error);
}

// The connection went away while the server was asked to commit: it may have, or not.
Result<void> PostgresEngine::find_out(const std::string& number, const Error& lost) {
  const Error not_known = make_error(
      ErrorCode::kUnavailable, "{}; whether the last batch was written is not known", lost.message);
  for (Backoff pauses(patience_);;) {
    Result<SessionHandle> taken = take();
    if (!taken.ok()) return fail({not_known});
    SessionHandle session = std::move(taken).value();
    PostgresParameters parameters;
    parameters.set(0, number, 0);
    const PostgresResult state = session->run("SELECT pg_xact_status($1::text::xid8)", parameters);
    if (session->succeeded(state)) {
      const std::string text = library_.value(state.get(), 0, 0);
      give_back(std::move(session));
      if (text == "committed") {
        const std::lock_guard lock(mutex_);
        doubtful_.insert(std::this_thread::get_id());
        return {};
      }
      if (text != "in progress") return fail({lost, true});
    } else if (session->state_of(state) == kNumberOfTheFuture) {
      return fail({lost, true});  // the server crashed, and has no trace of the transaction
    } else if (PostgresFailure failure = session->failure_of(state); !failure.may_try_again) {
      return fail(std::move(failure));
    }
    if (!pauses.wait()) return fail({not_known});
  }
}

void PostgresEngine::wait_for(const std::string& channel, std::chrono::milliseconds timeout) {
  const std::lock_guard lock(listening_);
  SessionHandle& listener = listeners_[channel];
  if (listener && listener->wait_for_notification(timeout)) return;
  const bool first = !listener;
  Result<SessionHandle> made = PostgresSession::connect(library_, url_, mode_);
  listener = made.ok() ? std::move(made).value() : nullptr;
  if (listener && !listener->succeeded(listener->execute("LISTEN " + channel))) listener.reset();
  // Without a listener this is a poll.
  if (!first || !listener) std::this_thread::sleep_for(timeout);
}

void PostgresEngine::roll_back() {
  Running running;
  {
    const std::lock_guard lock(mutex_);
    const auto it = running_.find(std::this_thread::get_id());
    if (it == running_.end()) return;
    running = std::move(it->second);
    running_.erase(it);
  }
  if (running.session->lost()) return;
  (void)running.session->execute("ROLLBACK");
  give_back(std::move(running.session));
}

}  // namespace

Result<std::unique_ptr<Engine>> open_postgres(const std::string& url, OpenMode mode,
                                              std::chrono::milliseconds patience) {
  TESSERA_DO(check_server_url(url));
  TESSERA_TRY(const PostgresLibrary* library, postgres_library());
  auto engine = std::make_unique<PostgresEngine>(*library, url, mode, patience);
  TESSERA_DO(engine->connect_first());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tessera::record
