#include "formats/tensors/tensor_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace troupe::formats {
namespace {

constexpr std::array<std::pair<std::string_view, tensor_kind>, 5> kinds{{{"master", tensor_kind::master},
                                                                         {"moment", tensor_kind::moment},
                                                                         {"weight", tensor_kind::weight},
                                                                         {"frozen", tensor_kind::frozen},
                                                                         {"buffer", tensor_kind::buffer}}};

using tensor_key = std::tuple<std::string_view, tensor_kind, std::string_view>;
tensor_key key_of(const tensor_entry& t) { return {t.name, t.kind, t.moment}; }

}  // namespace

std::string_view name_of(tensor_kind kind) { return kinds[static_cast<size_t>(kind)].first; }

std::optional<tensor_kind> tensor_kind_from(std::string_view name) {
  for (const auto& [n, kind] : kinds)
    if (n == name) return kind;
  return std::nullopt;
}

std::string shown(std::string_view name, tensor_kind kind, std::string_view moment) {
  if (kind == tensor_kind::moment) return fmt::format("'{}' (moment {})", shown(name), shown(moment));
  return fmt::format("'{}' ({})", shown(name), name_of(kind));
}
std::string shown(const tensor_entry& tensor) { return shown(tensor.name, tensor.kind, tensor.moment); }

const tensor_entry* find_tensor(const tensor_list& m, std::string_view name, tensor_kind kind,
                                std::string_view moment) {
  const auto tied = std::lower_bound(m.tied.begin(), m.tied.end(), name,
                                     [](const tied_name& t, std::string_view n) { return t.name < n; });
  if (tied != m.tied.end() && tied->name == name) name = tied->of;
  const tensor_key wanted{name, kind, moment};
  const auto at = std::lower_bound(m.tensors.begin(), m.tensors.end(), wanted,
                                   [](const tensor_entry& t, const tensor_key& k) { return key_of(t) < k; });
  return at != m.tensors.end() && key_of(*at) == wanted ? &*at : nullptr;
}

void put_in_order(tensor_list& m) {
  std::sort(m.tensors.begin(), m.tensors.end(), [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  for (auto& t : m.tensors)
    std::sort(t.pieces.begin(), t.pieces.end(),
              [](const piece& a, const piece& b) { return std::pair(a.share, a.first) < std::pair(b.share, b.first); });
  std::sort(m.tied.begin(), m.tied.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

bool in_order(const tensor_entry& a, const tensor_entry& b) { return key_of(a) < key_of(b); }

}  // namespace troupe::formats
