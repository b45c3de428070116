#include "net/leader_store.hpp"

#include <algorithm>
#include <cmath>

#include "core/json_text.hpp"

namespace troupe::net {

using json = nlohmann::json;

std::string as_text(const lead& x) {
  return json{{"host", x.host}, {"address", x.address}, {"authority", x.authority}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

std::optional<lead> read_lead(const std::string& text) {
  const auto said = core::parse_json(text);
  if (!said || !said->is_object()) return std::nullopt;
  lead out;
  for (const auto& [key, to] :
       {std::pair{"host", &out.host}, {"address", &out.address}, {"authority", &out.authority}}) {
    const auto at = said->find(key);
    if (at == said->end() || !at->is_string()) return std::nullopt;
    *to = at->get<std::string>();
  }
  return out;
}

std::string key_of_leader(const std::string& job) { return "/troupe/" + job + "/leader"; }
std::string key_of_end(const std::string& job) { return "/troupe/" + job + "/over"; }

uint32_t lease_s_for(double lost_after_s) { return static_cast<uint32_t>(std::max(2.0, std::ceil(lost_after_s))); }

}  // namespace troupe::net
