#include "tessera/trials/record/database_name.h"

#include <algorithm>
#include <sstream>

namespace tessera::record {
namespace {

// The last three are of PostgreSQL 18.
constexpr const char* kSecrets[] = {"password", "sslpassword", "oauth_client_secret",
                                    "scram_client_key", "scram_server_key"};

// libpq decodes the names of parameters, too: "pass%77ord" is one.
std::string decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    if (text[i] == '%' && digit(i + 1) && digit(i + 2)) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct UrlParts {
  std::string shown;
  bool secret = false;
};

// Where the name of the user and the password end. libpq looks before the first "/"; a password
// with a "/" in it is none to it, but must not be shown either.
std::size_t end_of_user(const std::string& url, std::size_t begin) {
  for (const char end : {'/', '?'}) {
    const std::size_t at = url.rfind('@', url.find(end, begin));
    if (at != std::string::npos && at >= begin) return at;
  }
  return std::string::npos;
}

// libpq takes a password from "user:password@" and from parameters behind "?".
UrlParts url_parts(const std::string& url) {
  UrlParts out;
  const std::size_t begin = url.find("://") + 3;
  const std::size_t at = end_of_user(url, begin);
  std::string rest = url.substr(begin);
  out.shown = url.substr(0, begin);
  if (at != std::string::npos) {
    const std::string user = url.substr(begin, at - begin);
    const std::size_t colon = user.find(':');
    out.secret = colon != std::string::npos && colon + 1 < user.size();
    out.shown += user.substr(0, colon) + "@";
    rest = url.substr(at + 1);
  }
  const std::size_t parameters = std::min(rest.find('?'), rest.size());
  out.shown += rest.substr(0, parameters);
  std::istringstream words(rest.substr(std::min(parameters + 1, rest.size())));
  char sign = '?';
  for (std::string word; std::getline(words, word, '&');) {
    const std::string name = decoded(word.substr(0, word.find('=')));
    if (std::ranges::find(kSecrets, name) != std::end(kSecrets)) {
      out.secret = true;
      continue;
    }
    out.shown += sign + word;
    sign = '&';
  }
  return out;
}

}  // namespace

bool is_server_url(const std::string& place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

std::string shown_name(const std::string& place) {
  return is_server_url(place) ? url_parts(place).shown : place;
}

std::string without_secrets(const std::string& command) {
  std::string out;
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t found =
        std::min(command.find("postgresql://", at), command.find("postgres://", at));
    out += command.substr(at, found - at);
    if (found == std::string::npos) break;
    const std::size_t end = std::min(command.find_first_of(" \t\n'\"", found), command.size());
    out += shown_name(command.substr(found, end - found));
    at = end;
  }
  return out;
}

Result<void> check_server_url(const std::string& url) {
  const UrlParts parts = url_parts(url);
  if (!parts.secret) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: the URL has a password in it, which other users of this machine can read; "
                    "put it into ~/.pgpass (a line host:port:database:user:password, mode 0600), "
                    "or set PGPASSFILE or PGPASSWORD",
                    parts.shown);
}

}  // namespace tessera::record
