// import_file of json_lines.h.
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unordered_map>

#include "tessera/support/hash.h"
#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"
#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/json_lines.h"
#include "tessera/trials/record/session_summary.h"

namespace tessera::record {
namespace {

constexpr std::size_t kBatch = 4096;  // records of one transaction
constexpr const char* kImported = "imported";

// Of the bytes of the file: what was imported once is known again under any name.
Result<std::string> digest_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string buffer(1 << 16, '\0');
  std::uint64_t digest = 0;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    digest = hash_bytes(std::string_view(buffer).substr(0, static_cast<std::size_t>(file.gcount())),
                        digest);
  }
  if (!file.eof()) return make_error(ErrorCode::kIo, "{}: cannot be read", path);
  return to_hex(digest);
}

class Importer {
 public:
  Importer(Database& database, const std::string& path,
           const std::function<void(std::int64_t)>& progress)
      : database_(database), path_(path), progress_(progress) {}

  Result<Imported> run() {
    TESSERA_DO(check_importable(path_));
    TESSERA_TRY(earlier_, database_.sessions());
    if (is_database(path_)) return take_database();
    // What came before a bad line stays, as what came before a kill does.
    const Result<void> read =
        visit_lines(path_, [&](std::string_view line, std::int64_t) { return add_line(line); });
    TESSERA_DO(flush());
    if (!read.ok()) return read.error();
    if (lines_ == 0) return make_error(ErrorCode::kInvalidArgument, "{}: has no records", path_);
    if (done_.format != LogFormat::kTessera) {
      TESSERA_DO(database_.end_session(sessions_.at(kForeign).id, kImported));
    }
    return done_;
  }

 private:
  // A session of the file, here, and how often it has each of its trials already. Before the first
  // record comes, sessions that begin alike are candidates.
  using Trials = std::unordered_map<std::uint64_t, int>;
  struct Place {
    std::int64_t id = 0;
    Trials known;
    SessionRow row;
    std::vector<SessionRow> candidates;
  };
  static constexpr std::int64_t kForeign = -1;  // a foreign log is one session

  Result<void> add_session(std::int64_t id_in_file, const SessionRow& session);
  Result<void> settle(Place& place, const Record& first);
  Result<void> count_trials(std::int64_t session, Trials* all, Trials* timed) const;
  Result<void> begin_foreign();
  Result<Imported> take_database();
  Result<void> add_line(std::string_view line);
  Result<void> add_row(const Row& row);
  Result<void> add_record(Record record);
  Result<void> flush();

  Database& database_;
  const std::string& path_;
  const std::function<void(std::int64_t)>& progress_;
  std::vector<SessionRow> earlier_;
  std::map<std::int64_t, Place> sessions_;  // by id in the file
  Trials of_none_;                          // of no session; looked up where a database has such
  bool from_database_ = false, of_none_known_ = false;
  std::int64_t lines_ = 0;
  std::set<std::string> tasks_;
  std::vector<Record> batch_;
  Imported done_;
};

bool same_session(const SessionRow& a, const SessionRow& b) {
  return a.model == b.model && a.target == b.target && a.options == b.options &&
         a.version == b.version && a.threads == b.threads && a.seed == b.seed &&
         a.started == b.started;
}

// Of what no program changes later.
std::uint64_t digest_of_trial(const Record& r) {
  std::string text =
      fmt::format("{} {} {} {} {}", r.unix_time, r.trial, r.seed, r.outcome, r.policy);
  for (const double s : r.samples_s) text += fmt::format(" {}", s);
  return hash_bytes(text);
}

Result<void> Importer::add_session(std::int64_t id_in_file, const SessionRow& session) {
  Place& place = sessions_[id_in_file];
  place.row = session;
  for (const SessionRow& known : earlier_) {
    if (!same_session(known, session)) continue;
    if (known.records > 0) place.candidates.push_back(known);
    if (known.records == 0 && place.id == 0) place.id = known.id;
  }
  if (!place.candidates.empty()) {
    place.id = 0;
    return {};
  }
  if (place.id == 0) {
    TESSERA_TRY(place.id, database_.begin_session(session));
  }
  return {};
}

// `session` 0: records that are of none. `timed`: those that have samples.
Result<void> Importer::count_trials(std::int64_t session, Trials* all, Trials* timed) const {
  return database_.visit({.session = session, .subject = std::nullopt}, [&](const Record& r) {
    if (r.session != session) return true;
    const std::uint64_t digest = digest_of_trial(r);
    ++(*all)[digest];
    if (!r.samples_s.empty()) ++(*timed)[digest];
    return true;
  });
}

// Machines that one launcher starts begin sessions in the same second: the first record tells
// which session this is. Where it was removed, what is left of it is still not added again.
Result<void> Importer::settle(Place& place, const Record& first) {
  const std::vector<SessionRow> candidates = std::exchange(place.candidates, {});
  for (const SessionRow& session : candidates) {
    Trials all, timed;
    TESSERA_DO(count_trials(session.id, &all, &timed));
    const bool same = place.id == 0 && all.contains(digest_of_trial(first));
    if (same) place.id = session.id;
    // Samples tell the trials of several machines apart.
    for (const auto& [trial, count] : same ? all : timed) place.known[trial] += count;
  }
  if (place.id > 0) return {};
  TESSERA_TRY(place.id, database_.begin_session(place.row));
  return {};
}

Result<Imported> Importer::take_database() {
  if (is_same_place(path_, database_.name())) {
    return make_error(ErrorCode::kInvalidArgument, "{}: is the database that it would go to",
                      database_.name());
  }
  TESSERA_TRY(const Database source, Database::open_read_only(path_));
  TESSERA_TRY(const std::vector<SessionRow> sessions, source.sessions());
  for (const SessionRow& session : sessions) TESSERA_DO(add_session(session.id, session));
  TESSERA_TRY(const std::vector<TaskRow> tasks, source.tasks());
  TESSERA_DO(database_.add_tasks(tasks));
  from_database_ = true;
  Result<void> added;
  TESSERA_DO(source.visit({.subject = std::nullopt}, [&](const Record& record) {
    added = add_record(record);
    return added.ok();
  }));
  TESSERA_DO(flush());
  if (!added.ok()) return added.error();
  TESSERA_TRY(const auto summaries, session_summaries(path_));
  for (const auto& [session, text] : summaries) {
    const auto it = sessions_.find(session);
    if (it != sessions_.end() && it->second.id > 0) {
      TESSERA_DO(keep_session_summary(database_.name(), it->second.id, text));
    }
  }
  TESSERA_TRY(done_.outdated, source.is_outdated());
  return done_;
}

Result<void> Importer::begin_foreign() {
  TESSERA_TRY(const std::string digest, digest_of(path_));
  SessionRow session{.model = std::filesystem::path(path_).filename().string(),
                     .options = "import " + digest,
                     .version = to_text(done_.format)};
  session.state = kImported;
  return add_session(kForeign, session);
}

Result<void> Importer::add_line(std::string_view line) {
  if (lines_++ == 0) {
    TESSERA_TRY(done_.format, detect_format(line));
    if (done_.format != LogFormat::kTessera) TESSERA_DO(begin_foreign());
  }
  if (done_.format == LogFormat::kTessera) {
    TESSERA_TRY(const Row row, row_from_json_line(line));
    return add_row(row);
  }
  const bool ansor = done_.format == LogFormat::kAnsor;
  TESSERA_TRY(Record record, ansor ? parse_ansor_line(line) : parse_autotvm_line(line));
  record.session = kForeign;
  return add_record(std::move(record));
}

Result<void> Importer::add_row(const Row& row) {
  if (const auto* task = std::get_if<TaskRow>(&row)) return database_.add_tasks({*task});
  if (const auto* session = std::get_if<SessionRow>(&row)) {
    return add_session(session->id, *session);
  }
  return add_record(std::get<Record>(row));
}

Result<void> Importer::add_record(Record record) {
  done_.tasks += tasks_.insert(record.task).second ? 1 : 0;
  Place& place = sessions_[record.session];  // a session that the file does not tell of is none
  if (!place.candidates.empty()) TESSERA_DO(settle(place, record));
  if (place.id == 0 && from_database_ && !std::exchange(of_none_known_, true)) {
    Trials timed;
    TESSERA_DO(count_trials(0, &of_none_, &timed));
  }
  Trials& known = place.id == 0 ? of_none_ : place.known;
  const auto there = known.find(digest_of_trial(record));
  if (there != known.end() && there->second > 0) {
    --there->second;
    ++done_.skipped;
    return {};
  }
  record.session = place.id;
  ++done_.records;
  done_.good += record.outcome == "ok" ? 1 : 0;
  batch_.push_back(std::move(record));
  return batch_.size() < kBatch ? Result<void>() : flush();
}

Result<void> Importer::flush() {
  if (!batch_.empty()) TESSERA_DO(database_.append(batch_));
  batch_.clear();
  if (progress_) progress_(done_.records);
  return {};
}

}  // namespace

bool is_database(const std::string& place) {
  if (is_server_url(place)) return true;
  constexpr std::string_view kMagic = "SQLite format 3";
  std::array<char, kMagic.size()> begin{};
  std::ifstream file(place, std::ios::binary);
  return file.read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kMagic;
}

bool is_same_place(const std::string& a, const std::string& b) {
  if (is_server_url(a) || is_server_url(b)) return a == b;
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

Result<void> check_database(const std::string& place) {
  const Result<Database> database = Database::open_read_only(place);
  return database.ok() ? Result<void>() : database.error();
}

// The first line tells what a text is.
Result<void> check_importable(const std::string& path) {
  if (is_server_url(path)) return check_database(path);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return make_error(ErrorCode::kUnavailable, "{}: there is no such file", path);
  }
  if (std::filesystem::is_directory(path, error)) {
    return make_error(ErrorCode::kIo, "{}: is a folder", path);
  }
  return is_database(path) ? check_database(path) : Result<void>();
}

Result<Imported> import_file(Database& database, const std::string& path,
                             const std::function<void(std::int64_t)>& progress) {
  return Importer(database, path, progress).run();
}

}  // namespace tessera::record
