#include "apps/page/http_request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// True if `s` can be the name of a header, or a method (RFC 9110, token).
bool is_token(std::string_view s) {
  return !s.empty() && std::ranges::all_of(s, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_printable(std::string_view s) {
  return std::ranges::all_of(s, [](char c) { return c == '\t' || (c >= ' ' && c != 0x7F); });
}

/// Reads a request's first line, such as "GET /path?query HTTP/1.1". Returns 0, or the HTTP status of the refusal.
int read_first_line(std::string_view line, http_request& out) {
  const auto one = line.find(' '), two = line.rfind(' ');
  if (one == line.npos || two == one) return 400;
  out.method = line.substr(0, one);
  const auto target = line.substr(one + 1, two - one - 1);
  if (!is_token(out.method) || !line.substr(two + 1).starts_with("HTTP/1.")) return 400;
  if (!target.starts_with('/') || target.find(' ') != target.npos || !is_printable(target)) return 400;
  const auto mark = target.find('?');
  out.path = target.substr(0, mark);
  if (mark != target.npos) out.query = target.substr(mark + 1);
  return 0;
}

/// Reads one header line. Returns 0, or the HTTP status of the refusal. A header that the page uses may occur only
/// once, because a request with two hosts could evade the check of the host.
int read_header(std::string_view line, http_request& out, bool& has_body) {
  const auto colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon)) || !is_printable(line)) return 400;
  const std::string name = core::lowered(line.substr(0, colon));
  const auto value = core::trimmed(line.substr(colon + 1), " \t");
  if (name == "transfer-encoding" || (name == "content-length" && value != "0")) has_body = true;
  std::string* const into = name == "host"            ? &out.host
                            : name == "authorization" ? &out.authorization
                            : name == "cookie"        ? &out.cookie
                                                      : nullptr;
  if (into == nullptr) return 0;
  if (!into->empty()) return 400;
  *into = value;
  return 0;
}

const char* phrase_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

}  // namespace

http_reading read_http_request(std::string_view bytes) {
  http_reading out;
  const auto refuse = [&out](int status) {
    out.is_whole = true;
    out.refused = status;
    return out;
  };
  const auto end = bytes.substr(0, request_bytes_max).find("\r\n\r\n");
  if (end == bytes.npos) {
    if (bytes.size() >= request_bytes_max) return refuse(431);
    // Refuses bytes that cannot begin a request, such as binary bytes or another protocol, without waiting for more.
    const auto first = bytes.substr(0, bytes.find('\r'));
    return is_printable(first) && bytes.find('\0') == bytes.npos ? out : refuse(400);
  }
  bytes = bytes.substr(0, end + 2);
  bool is_first = true, has_body = false;
  while (!bytes.empty()) {
    const auto line = bytes.substr(0, bytes.find("\r\n"));
    bytes.remove_prefix(line.size() + 2);
    const int wrong = is_first ? read_first_line(line, out.request) : read_header(line, out.request, has_body);
    if (wrong != 0) return refuse(wrong);
    is_first = false;
  }
  if (out.request.method != "GET") return refuse(405);
  if (has_body) return refuse(413);
  out.is_whole = true;
  return out;
}

std::string http_text(const http_answer& a, bool secure) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n"
      "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
      "{}{}{}\r\n{}",
      a.status, phrase_of(a.status), a.type, a.body.size(), a.status == 405 ? "Allow: GET\r\n" : "",
      secure ? "Strict-Transport-Security: max-age=86400\r\n" : "", a.headers, a.body);
}

std::string host_named(std::string_view header) {
  const bool bracketed = header.starts_with('[');
  const size_t end = bracketed ? header.find(']') : std::min(header.find(':'), header.size());
  if (end == std::string_view::npos) return {};
  const auto name = bracketed ? header.substr(1, end - 1) : header.substr(0, end);
  auto port = header.substr(end + (bracketed ? 1 : 0));
  const std::string_view also = bracketed ? ":.%_-" : ".-_";
  const auto fits = [&](char c) { return core::is_ascii_word(c) || also.find(c) != std::string_view::npos; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!port.empty() && (port.front() != ':' || !std::ranges::all_of(port.substr(1), is_digit))) return {};
  return std::ranges::all_of(name, fits) ? core::lowered(name) : std::string();
}

std::string_view value_in(std::string_view pairs, std::string_view name, char between) {
  while (!pairs.empty()) {
    const auto one = core::trimmed(pairs.substr(0, pairs.find(between)), " \t");
    const auto at = pairs.find(between);
    pairs.remove_prefix(at == pairs.npos ? pairs.size() : at + 1);
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return {};
}

bool same_secret(std::string_view a, std::string_view b) {
  volatile unsigned char differ = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    differ = static_cast<unsigned char>(
        differ | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()])));
  return differ == 0;
}

}  // namespace troupe::apps
