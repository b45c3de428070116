#include "plan/schedule/named.hpp"

#include <fmt/format.h>

#include <array>

#include "core/text.hpp"

namespace troupe::plan {

namespace {

using shape = pipeline_shape;
using actions = std::vector<action>;

// Returns the 1F1B order of rank `r`; with several chunks per rank, the interleaved 1F1B order.
actions one_f_one_b(const shape& s, uint32_t r) {
  return interleaved_order(s, r, {.forwards_per_hop = s.chunks == 1 ? 1U : 2U});
}
actions interleaved(const shape& s, uint32_t r) { return interleaved_order(s, r, {.forwards_per_hop = 2}); }
actions zero_bubble(const shape& s, uint32_t r) { return interleaved_order(s, r, {1, true, 1}); }
actions zero_bubble_twice(const shape& s, uint32_t r) { return interleaved_order(s, r, {2, true, 2}); }

constexpr auto any = stage_placement::round_robin;
constexpr auto folded = stage_placement::folded;

constexpr std::array<named_schedule, 10> all = {{
    {"gpipe", "", "all forward, then all backward", breadth_first_order, any, 0},
    {"1f1b", "", "one forward, one backward; at most as many micro-batches in flight as ranks", one_f_one_b, any, 0},
    {"looped_bfs", "", "several chunks a rank, each for all micro-batches", breadth_first_order, any, 0},
    {"interleaved_1f1b", "interleaved", "1F1B over several chunks a rank: less idle, more in flight", interleaved, any,
     0},
    {"zb_h1", "", "backward split in two; the memory of 1F1B, a third of its idle", zero_bubble, any, 0},
    {"zb_h2", "", "backward split in two; no idle, twice the memory of 1F1B", zero_bubble_twice, any, 0},
    {"zb1p", "interleaved_zero_bubble", "backward split in two, over several chunks a rank", zero_bubble, any, 0},
    {"zb_v", "zbv_zero_bubble", "backward split in two, stages folded; no idle, the memory of 1F1B on every rank",
     zb_v_order, folded, 2},
    {"dual_pipe_v", "", "stages folded, forward beside backward", dual_pipe_v_order, folded, 2},
    {"forward_only", "", "no backward: evaluation", forward_only_order, any, 0},
}};

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_' && c != '-') out += core::ascii_lower(c);
  return out;
}

}  // namespace

std::span<const named_schedule> named_schedules() { return all; }

core::result<const named_schedule*> find_schedule(std::string_view name) {
  const auto wanted = plain(name);
  for (const auto& s : all)
    if (plain(s.name) == wanted || (!s.other_name.empty() && plain(s.other_name) == wanted)) return &s;
  std::string names;
  for (const auto& s : all) names.append(names.empty() ? "" : ", ").append(s.name);
  return core::fail(core::error_kind::bad_input,
                    "unknown pipeline schedule '" + core::shown(name) + "'; wanted one of " + names);
}

core::result<pipeline_table> make_table(const named_schedule& schedule, const pipeline_shape& s) {
  const auto refuse = [&](const std::string& why) {
    return core::fail(core::error_kind::bad_input, "schedule " + std::string(schedule.name) + why);
  };
  if (s.ranks == 0 || s.chunks == 0 || s.micro_batches == 0)
    return refuse(fmt::format(" requires at least 1 rank, 1 chunk and 1 micro-batch, got {}, {} and {}", s.ranks,
                              s.chunks, s.micro_batches));
  if (schedule.chunks != 0 && s.chunks != schedule.chunks)
    return refuse(fmt::format(" requires {} chunks per rank, got {}", schedule.chunks, s.chunks));
  if (s.group != 0 && s.group < s.ranks)
    return refuse(
        fmt::format(" requires groups of at least as many micro-batches as ranks, {}, got {}", s.ranks, s.group));
  const uint64_t stages = uint64_t{s.ranks} * s.chunks;
  if (stages > max_stage_micro_batches || s.group > max_stage_micro_batches ||
      s.micro_batches > max_stage_micro_batches / stages)
    return core::fail(core::error_kind::limit, fmt::format("{} stages times {} micro-batches: at most {} are planned; "
                                                           "use fewer stages or micro-batches",
                                                           stages, s.micro_batches, max_stage_micro_batches));
  pipeline_table out{s.micro_batches, place_stages(schedule.placement, s.ranks, s.chunks), {}};
  for (uint32_t r = 0; r < s.ranks; ++r) out.orders.push_back(schedule.order(s, r));
  return out;
}

}  // namespace troupe::plan
