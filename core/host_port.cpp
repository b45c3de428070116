#include "core/host_port.hpp"

#include <charconv>

namespace troupe::core {

std::optional<host_port> read_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return std::nullopt;  // an IPv6 address without brackets: which colon precedes the port is ambiguous
  host_port out{std::string(host)};
  const char *const begin = text.data() + colon + 1, *const end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(begin, end, out.port);
  if (host.empty() || wrong != std::errc() || at != end || out.port == 0) return std::nullopt;
  return out;
}

}  // namespace troupe::core
