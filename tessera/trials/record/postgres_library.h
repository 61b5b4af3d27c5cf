// libpq, opened when the first URL asks for it: neither the build nor a single user needs it.
#pragma once

#include <cstddef>

#include "tessera/support/result.h"

// Types of libpq, which has them as opaque pointers.
struct pg_conn;
struct pg_result;

namespace tessera::record {

// Values of libpq-fe.h; they are part of its binary interface.
enum PostgresStatus : int {
  kPgCommandOk = 1,
  kPgTuplesOk = 2,
  kPgSingleTuple = 9,
};
inline constexpr int kPgConnectionOk = 0, kPgIdle = 0;
inline constexpr int kPgSqlState = 'C', kPgMessage = 'M';

struct PostgresLibrary {
  pg_conn* (*connect)(const char* const* keywords, const char* const* values, int expand);
  void (*finish)(pg_conn*);
  int (*status)(const pg_conn*);
  int (*transaction_status)(const pg_conn*);
  int (*server_version)(const pg_conn*);
  int (*socket)(const pg_conn*);
  const char* (*parameter)(const pg_conn*, const char* name);
  char* (*connection_error)(const pg_conn*);
  void (*(*set_notice_processor)(pg_conn*, void (*)(void*, const char*), void*))(void*,
                                                                                 const char*);
  pg_result* (*execute)(pg_conn*, const char* sql);
  pg_result* (*prepare)(pg_conn*, const char* name, const char* sql, int count, const void* types);
  pg_result* (*execute_prepared)(pg_conn*, const char* name, int count, const char* const* values,
                                 const int* lengths, const int* formats, int result_format);
  int (*send_prepared)(pg_conn*, const char* name, int count, const char* const* values,
                       const int* lengths, const int* formats, int result_format);
  int (*one_row_at_a_time)(pg_conn*);
  pg_result* (*next_result)(pg_conn*);
  int (*result_status)(const pg_result*);
  char* (*error_field)(const pg_result*, int field);
  char* (*command_tag)(pg_result*);
  int (*rows)(const pg_result*);
  char* (*value)(const pg_result*, int row, int column);
  int (*value_bytes)(const pg_result*, int row, int column);
  void (*clear)(pg_result*);
  int (*consume_input)(pg_conn*);
  void* (*notification)(pg_conn*);
  void (*free_memory)(void*);
};

// kUnavailable with the package to install where there is none. TESSERA_LIBPQ names another file.
Result<const PostgresLibrary*> postgres_library();

}  // namespace tessera::record
