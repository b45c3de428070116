// Implements the part of render.hpp that formats the changes of passes.
#include <fmt/format.h>
#include <vector>

#include "core/text.hpp"
#include "plan/passes/pass.hpp"
#include "plan/show/render.hpp"

namespace troupe::plan {

std::string accounts_as_table(std::span<const account> accounts) {
  std::vector<std::vector<std::string>> rows{{"pass", "added", "moved", "removed", "why"}};
  for (const auto& [name, changes, why] : accounts)
    rows.push_back({std::string(name), fmt::to_string(changes.added), fmt::to_string(changes.moved),
                    fmt::to_string(changes.removed), why.empty() ? "-" : why});
  return aligned(rows, {false, true, true, true, false});
}

std::string accounts_as_json(std::span<const account> accounts) {
  std::string out = "[";
  for (const auto& [name, changes, why] : accounts)
    out += fmt::format("{}\n{{\"pass\":{},\"added\":{},\"moved\":{},\"removed\":{},\"why\":{}}}",
                       out.size() == 1 ? "" : ",", core::json_string(name), changes.added, changes.moved,
                       changes.removed, core::json_string(why));
  return out + "\n]\n";
}

}  // namespace troupe::plan
