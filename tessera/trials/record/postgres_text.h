// Texts on their way to PostgreSQL and back, and statements as it has them.
#pragma once

#include <string>
#include <string_view>

namespace tessera::record {

// PostgreSQL's texts are UTF-8 without NUL; ours are any bytes. A byte that cannot stand there, and
// the control character U+001A, become U+001A and two hexadecimal digits; all else stays as it is.
std::string to_server_text(std::string_view bytes);
std::string from_server_text(std::string_view text);

// "\x" and hexadecimal digits, as the server writes bytes.
std::string bytes_of_hex(std::string_view text);

// "?" outside of quotes as "$1", "$2", ...
std::string numbered_parameters(std::string_view sql);

// Tables as SQLite has them with PostgreSQL's types. Texts are unique by a hash index, which has no
// limit to their length.
std::string server_tables(const std::string& sql);

}  // namespace tessera::record
