#include "core/store_place.hpp"

#include <algorithm>

namespace troupe::core {
namespace {

/// True for the characters of a host's name or address; no other character may reach the header of a request.
bool is_of_a_host(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(".-:_").find(c) != std::string_view::npos;
}

}  // namespace

std::optional<store_place> read_store(std::string_view text) {
  store_place out;
  out.is_encrypted = text.starts_with("etcds://");
  if (!out.is_encrypted && !text.starts_with("etcd://")) return std::nullopt;
  text.remove_prefix(text.find("//") + 2);
  for (;;) {
    const size_t end = text.find(',');
    const auto one = read_host_port(text.substr(0, end));
    if (!one || !std::ranges::all_of(one->host, is_of_a_host) || out.members.size() == store_members_max)
      return std::nullopt;
    out.members.push_back(*one);
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace troupe::core
