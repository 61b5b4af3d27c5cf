#include "tessera/trials/record/postgres_library.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <dlfcn.h>

namespace tessera::record {
namespace {

template <class F>
bool find(void* file, const char* name, F* function) {
  *function = reinterpret_cast<F>(::dlsym(file, name));
  return *function != nullptr;
}

// The first name that is missing; null: none.
const char* load(void* file, PostgresLibrary* out) {
  const char* missing = nullptr;
  const auto take = [&](const char* name, auto* function) {
    if (missing == nullptr && !find(file, name, function)) missing = name;
  };
  take("PQconnectdbParams", &out->connect);
  take("PQfinish", &out->finish);
  take("PQstatus", &out->status);
  take("PQtransactionStatus", &out->transaction_status);
  take("PQserverVersion", &out->server_version);
  take("PQsocket", &out->socket);
  take("PQparameterStatus", &out->parameter);
  take("PQerrorMessage", &out->connection_error);
  take("PQsetNoticeProcessor", &out->set_notice_processor);
  take("PQexec", &out->execute);
  take("PQprepare", &out->prepare);
  take("PQexecPrepared", &out->execute_prepared);
  take("PQsendQueryPrepared", &out->send_prepared);
  take("PQsetSingleRowMode", &out->one_row_at_a_time);
  take("PQgetResult", &out->next_result);
  take("PQresultStatus", &out->result_status);
  take("PQresultErrorField", &out->error_field);
  take("PQcmdStatus", &out->command_tag);
  take("PQntuples", &out->rows);
  take("PQgetvalue", &out->value);
  take("PQgetlength", &out->value_bytes);
  take("PQclear", &out->clear);
  take("PQconsumeInput", &out->consume_input);
  take("PQnotifies", &out->notification);
  take("PQfreemem", &out->free_memory);
  return missing;
}

}  // namespace

Result<const PostgresLibrary*> postgres_library() {
  static std::mutex opening;
  static std::map<std::string, PostgresLibrary> loaded;  // by name; never unloaded
  const char* wanted = std::getenv("TESSERA_LIBPQ");
  const std::string name = wanted != nullptr && *wanted != '\0' ? wanted : "libpq.so.5";
  const std::lock_guard lock(opening);
  if (const auto it = loaded.find(name); it != loaded.end()) return &it->second;
  void* file = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    return make_error(ErrorCode::kUnavailable,
                      "PostgreSQL needs its client library, which cannot be loaded ({}); install "
                      "the package libpq5 (Debian, Ubuntu), libpq (Fedora) or postgresql-libs "
                      "(Arch), or give --db a file",
                      ::dlerror());
  }
  PostgresLibrary library;
  if (const char* missing = load(file, &library)) {
    ::dlclose(file);
    return make_error(ErrorCode::kUnavailable,
                      "{}: has no function {}: it is not the libpq of "
                      "PostgreSQL 10 or newer",
                      name, missing);
  }
  return &(loaded[name] = library);
}

}  // namespace tessera::record
