#include "formats/names/tied_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/tensor_view.hpp"
#include "families/all_families.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::formats {
namespace {

constexpr uint64_t compared_elements = uint64_t{1} << 18;

bool is_embedding(std::string_view name) {
  return std::ranges::any_of(
      families::all, [bare = bare_name(name)](const auto* f) { return families::embedding_weight(*f) == bare; });
}
bool is_head(std::string_view name) { return bare_name(name) == head_name; }

/// Returns the weight of the first tensor whose name `is` accepts; null if there is none.
const tensor_entry* weight_named(const tensor_source& s, bool (*is)(std::string_view)) {
  for (const auto kind : {tensor_kind::master, tensor_kind::frozen, tensor_kind::weight})
    for (const auto& t : s.tensors)
      if (t.kind == kind && is(t.name)) return &t;
  return nullptr;
}

core::result<bool> have_same_values(const tensor_source& s, const tensor_entry& a, const tensor_entry& b) {
  if (a.shape != b.shape) return false;
  if (!is_floating(a.type) || !is_floating(b.type)) return a.type == b.type;
  source_reader of_a(s), of_b(s);
  std::vector<double> x(compared_elements), y(compared_elements);
  const uint64_t count = core::numel_of(a.shape);
  for (uint64_t done = 0; done < count;) {
    const uint64_t n = std::min(compared_elements, count - done);
    for (auto [reader, t, to] : {std::tuple(&of_a, &a, &x), std::tuple(&of_b, &b, &y)})
      TROUPE_TRY(reader->read_as(core::dtype::f64, *t, done, n, std::as_writable_bytes(std::span(*to))));
    if (std::memcmp(x.data(), y.data(), n * sizeof(double)) != 0) return false;
    done += n;
  }
  return true;
}

/// Renames tensor `from` to `to` and makes `from` a tied name of it.
core::result<settled_head> with_names_swapped(tensor_source s, const std::string& from, const std::string& to) {
  std::erase_if(s.tied, [&](const tied_name& t) { return t.name == to; });
  TROUPE_ASSIGN(auto out, renamed(std::move(s), [&](const std::string& name) { return name == from ? to : name; }));
  out.tied.push_back({from, to});
  TROUPE_TRY(complete(out));
  return settled_head{std::move(out), {}};
}

}  // namespace

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

core::result<settled_head> settle_tied_head(tensor_source s, const std::string& model_type) {
  const auto* head = weight_named(s, is_head);
  if (head == nullptr) return settled_head{std::move(s), {}};
  const auto* embedding = weight_named(s, is_embedding);
  if (embedding == nullptr) {
    const auto tied = std::ranges::find_if(s.tied, [](const tied_name& t) { return is_embedding(t.name); });
    const auto* const family = families::find(model_type);
    const auto name = tied != s.tied.end() ? tied->name
                      : family != nullptr  ? hugging_face_name(model_type, families::embedding_weight(*family))
                                           : std::string();
    if (name.empty()) return settled_head{std::move(s), {}};
    return with_names_swapped(std::move(s), std::string(head->name), name);
  }
  const auto of_head = head->name, of_embedding = embedding->name;
  const auto is_state = [&](const tensor_entry& t) { return t.kind == tensor_kind::moment && t.name == of_head; };
  TROUPE_ASSIGN(const auto same, std::ranges::any_of(s.tensors, is_state) ? core::result<bool>(false)
                                                                          : have_same_values(s, *embedding, *head));
  if (!same) {
    auto text = fmt::format(
        "'{}': config.json ties the head to the embedding, but '{}' and '{}' have different values: the head keeps its "
        "own, as in transformers; set tie_word_embeddings: false in config.json",
        shown_place(s), shown(of_head), shown(of_embedding));
    return settled_head{std::move(s), std::move(text)};
  }
  std::erase_if(s.tensors, [&](const tensor_entry& t) { return t.name == of_head; });
  for (auto& t : s.tied)
    if (t.of == of_head) t.of = of_embedding;
  std::erase_if(s.parameter_order, [&](const std::string& name) { return name == of_head; });
  s.stored_as.erase(of_head);
  s.tied.push_back({of_head, of_embedding});
  TROUPE_TRY(complete(s));
  return settled_head{std::move(s), {}};
}

}  // namespace troupe::formats
