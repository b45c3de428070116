#include "formats/names/further_names.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "formats/names/name_map.hpp"

namespace troupe::formats {

core::result<without_further> without_further_names(tensor_source s, std::span<const wanted_tensor> wanted) {
  without_further out{std::move(s), {}};
  auto& source = out.source;
  if (source.tied.empty()) return out;
  std::set<std::string, std::less<>> kept;
  const name_map names(source);
  for (const auto& w : wanted)
    if (auto name = names.find(w.name)) kept.insert(std::move(*name));
  const auto stays = [&kept](const std::string& name) {
    return kept.contains(name) || bare_name(name) == head_name || is_derived_buffer(name);
  };
  std::map<std::string, std::string> name_of;  // [name of a tensor]: name of a wanted parameter that the tensor has
  for (const auto& t : source.tied)
    if (kept.contains(t.name)) name_of.emplace(t.of, t.name);
  for (const auto& t : source.tied)
    if (kept.contains(t.of)) name_of.insert_or_assign(t.of, t.of);
  std::map<std::string, std::string> renames;  // [own name of a tensor that does not stay]: the tensor's new name
  for (const auto& [owner, name] : name_of)
    if (!stays(owner)) renames.emplace(owner, name);
  for (const auto& t : source.tied)
    if (name_of.contains(t.of) && !stays(t.name)) out.left_out.push_back(t.name);
  for (const auto& [owner, name] : renames) out.left_out.push_back(owner);
  if (out.left_out.empty()) return out;
  std::ranges::sort(out.left_out);
  const std::set<std::string, std::less<>> removed(out.left_out.begin(), out.left_out.end());
  std::erase_if(source.tied, [&](const tied_name& t) {
    const auto at = renames.find(t.of);
    return removed.contains(t.name) || (at != renames.end() && at->second == t.name);
  });
  // `parameter_order` may list a renamed tensor under its old and its new name: the old name is then removed.
  const std::set<std::string, std::less<>> ordered(source.parameter_order.begin(), source.parameter_order.end());
  std::erase_if(source.parameter_order, [&](const std::string& name) {
    const auto at = renames.find(name);
    return removed.contains(name) && (at == renames.end() || ordered.contains(at->second));
  });
  TROUPE_ASSIGN(source, renamed(std::move(source), [&renames](const std::string& name) {
                  const auto at = renames.find(name);
                  return at == renames.end() ? name : at->second;
                }));
  return out;
}

}  // namespace troupe::formats
