#include "plan/action.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace troupe::plan {

std::string_view name_of(action_type t) {
  static constexpr std::array<std::string_view, num_action_types> names = {
      "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B"};
  return names[static_cast<size_t>(t)];
}

std::string name_of(const action& a) {
  if (a.type == action_type::overlap) {
    std::string out;
    for_each_part(a, [&](const action& part) { out += (out.empty() ? "(" : ";") + name_of(part); });
    return (out += ')').append(name_of(a.type));
  }
  if (has_micro(a.type)) return fmt::format("{}{}{}", a.stage, name_of(a.type), a.micro);
  return fmt::format("{}{}", a.stage, name_of(a.type));
}

uint32_t stage_of(stage_placement placement, uint32_t ranks, uint32_t rank, uint32_t chunk) {
  const bool back = placement == stage_placement::folded && chunk % 2 == 1;
  return chunk * ranks + (back ? ranks - 1 - rank : rank);
}

std::vector<uint32_t> place_stages(stage_placement placement, uint32_t ranks, uint32_t chunks) {
  std::vector<uint32_t> out(size_t{ranks} * chunks);
  for (uint32_t c = 0; c < chunks; ++c)
    for (uint32_t r = 0; r < ranks; ++r) out[stage_of(placement, ranks, r, c)] = r;
  return out;
}

bool trains(const pipeline_table& t) {
  return std::ranges::any_of(t.orders, [](const std::vector<action>& order) {
    return std::ranges::any_of(order,
                               [](const action& a) { return computes(a.type) && a.type != action_type::forward; });
  });
}

}  // namespace troupe::plan
