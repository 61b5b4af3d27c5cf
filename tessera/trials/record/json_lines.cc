#include "tessera/trials/record/json_lines.h"

#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"

namespace tessera::record {

Result<std::int64_t> export_lines(const Database& database, LogFormat format,
                                  const std::function<Result<void>(const std::string&)>& write) {
  if (format == LogFormat::kTessera) {
    TESSERA_TRY(const auto sessions, database.sessions());
    for (const SessionRow& session : sessions) TESSERA_DO(write(to_json_line(session)));
    TESSERA_TRY(const auto tasks, database.tasks());
    for (const TaskRow& task : tasks) TESSERA_DO(write(to_json_line(task)));
  }
  Filter filter{.subject = std::nullopt};
  if (format != LogFormat::kTessera) filter.format = to_text(format);
  std::int64_t count = 0;
  Result<void> written;
  TESSERA_DO(database.visit(filter, [&](const Record& record) {
    Result<std::string> line = format == LogFormat::kTessera
                                   ? Result<std::string>(to_json_line(record))
                               : format == LogFormat::kAnsor ? to_ansor_line(record)
                                                             : to_autotvm_line(record);
    written = line.ok() ? write(*line) : Result<void>(line.error());
    count += written.ok() ? 1 : 0;
    return written.ok();
  }));
  if (!written.ok()) return written.error();
  return count;
}

}  // namespace tessera::record
