#include "sim/selection.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/answer.hpp"
#include "sim/lanes_text.hpp"
#include "sim/names.hpp"

namespace troupe::sim {

std::vector<bool> selection::numbers_of(std::string_view name) const {
  std::vector<bool> out(h_.names.size());
  bool any = false;
  for (size_t k = 0; k < out.size(); ++k) {
    const bool is_it = is_named(h_.names[k], name);
    out[k] = is_it;
    any = any || is_it;
  }
  if (!any)
    throw world_error({core::error_kind::bad_input,
                       fmt::format("a simulated run: no instruction of its plans is named '{}'; the nearest one is "
                                   "'{}'",
                                   name, nearest_name(h_.names, name))});
  return out;
}

void selection::check(std::string_view name) const { static_cast<void>(numbers_of(name)); }

std::vector<const span*> selection::named(std::string_view name) const {
  const auto numbers = numbers_of(name);
  std::vector<const span*> out;
  for (const span& s : h_.spans)
    if (has(s) && numbers[s.name]) out.push_back(&s);
  return out;
}

std::vector<const span*> selection::of_lane(plan::lane lane) const {
  std::vector<const span*> out;
  for (const span& s : h_.spans)
    if (has(s) && s.lane == lane) out.push_back(&s);
  return out;
}

std::vector<const step_record*> selection::steps() const {
  std::vector<const step_record*> out;
  for (size_t i = 0; i < h_.steps.size(); ++i)
    if (!step_ || *step_ == i + 1) out.push_back(&h_.steps[i]);
  return out;
}

std::vector<const holding*> selection::held(const std::function<bool(const holding&)>& wanted) const {
  std::vector<const holding*> out;
  const auto chosen = steps();
  for (const holding& x : h_.memory) {
    const bool in_steps = std::ranges::any_of(
        chosen, [&](const step_record* s) { return x.from_ns < s->ended_ns && x.to_ns > s->began_ns; });
    if (in_steps && (!rank_ || x.rank == *rank_) && wanted(x)) out.push_back(&x);
  }
  return out;
}

std::string selection::why_not(std::initializer_list<std::string_view> names) const {
  std::string out;
  for (const auto name : names)
    if (named(name).empty()) out += fmt::format("; '{}' has not started", name);
  if (!h_.steps.empty() && h_.steps.back().failure) out += "; the run failed: " + h_.steps.back().failure->text;
  return out + replay_text(h_);
}

}  // namespace troupe::sim
