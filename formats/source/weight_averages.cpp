#include "formats/source/weight_averages.hpp"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>

#include "core/training_types.hpp"

namespace troupe::formats {

core::result<tensor_source> with_averages(tensor_source s) {
  std::set<std::string, std::less<>> averaged;
  for (const auto& t : s.tensors)
    if (t.kind == tensor_kind::moment && t.moment == core::average_state) averaged.insert(t.name);
  if (averaged.empty())
    return core::refused(fmt::format(
        "'{}' has no averages of its weights: wanted a checkpoint of a run with the section ema", shown_place(s)));
  for (const auto& t : s.tensors)
    if (t.kind == tensor_kind::master && !averaged.contains(t.name))
      return core::fail(core::error_kind::mismatch, fmt::format("'{}': parameter '{}' was trained and has no average",
                                                                shown_place(s), shown(t.name)));
  std::erase_if(s.tensors, [&](const tensor_entry& t) {
    const bool is_weight = t.kind == tensor_kind::master || t.kind == tensor_kind::weight;
    return t.kind == tensor_kind::moment ? t.moment != core::average_state : is_weight && averaged.contains(t.name);
  });
  for (auto& t : s.tensors)
    if (t.kind == tensor_kind::moment) {
      t.kind = tensor_kind::master;
      t.moment.clear();
    }
  TROUPE_TRY(complete(s));
  return s;
}

}  // namespace troupe::formats
