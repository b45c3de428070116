#include "plan/schedule/kept_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/number.hpp"
#include "core/text.hpp"
#include "plan/schedule/proof.hpp"

namespace troupe::plan {
namespace {

std::string_view name_of(const std::optional<stage_placement>& p) {
  return !p ? "any" : *p == stage_placement::folded ? "folded" : "round robin";
}

std::string text_of(const search_request& r) {
  using core::number_text;
  std::string out = fmt::format("troupe search 1\nranks {}\nmicro-batches {}\nbytes of a rank {}\nplacement ", r.ranks,
                                r.micro_batches, r.memory_bytes);
  out.append(name_of(r.placement)) += "\ntransfer " + number_text(r.costs.transfer_s) + " s\n";
  for (const stage_cost& s : r.costs.stages)
    out += fmt::format("stage F {} s, I {} s, W {} s, keeps {}, then {} bytes\n", number_text(s.forward_s),
                       number_text(s.backward_input_s), number_text(s.backward_weight_s), s.activation_bytes,
                       s.weight_part_bytes);
  return out;
}

// Removes the line "name value" from the front of `rest`, and returns its value; nothing if the line is another one.
std::optional<std::string_view> take_line(std::string_view& rest, std::string_view name) {
  const size_t end = rest.find('\n');
  if (end == rest.npos || !rest.starts_with(name)) return {};
  const auto out = rest.substr(name.size(), end - name.size());
  rest.remove_prefix(end + 1);
  return out;
}

template <class T>
std::optional<T> take_number_line(std::string_view& rest, std::string_view name) {
  const auto text = take_line(rest, name);
  return text ? core::number_of<T>(*text) : std::nullopt;
}

}  // namespace

std::string write_search(const search_request& request, const found_schedule& found) {
  return fmt::format("{}found from {}\nbound stage {}\nbound s {}\n", text_of(request), found.from, found.bound_stage,
                     core::number_text(found.bound_s));
}

std::optional<found_schedule> read_search(const search_request& request, std::string_view text, pipeline_table table) {
  const std::string asked = text_of(request);
  if (!text.starts_with(asked)) return {};
  text.remove_prefix(asked.size());
  found_schedule out;
  const auto from = take_line(text, "found from ");
  const auto stage = take_number_line<uint32_t>(text, "bound stage ");
  const auto seconds = take_number_line<double>(text, "bound s ");
  if (!from || !stage || !seconds || !text.empty()) return {};
  out.bound_stage = *stage;
  out.bound_s = *seconds;
  if (table.ranks() != request.ranks || table.stages() != request.costs.stages.size() ||
      table.micro_batches != request.micro_batches || out.bound_stage >= table.stages() || !trains(table) ||
      find_reordering(table))
    return {};
  const auto timing = play_table(table, request.costs);
  out.peak_bytes = std::ranges::max_element(timing.ranks, {}, &rank_timing::peak_bytes)->peak_bytes;
  if (out.peak_bytes > request.memory_bytes) return {};
  out.from = *from;
  out.total_s = timing.total_s;
  out.table = std::move(table);
  return out;
}

}  // namespace troupe::plan
