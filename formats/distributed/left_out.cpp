#include "formats/distributed/left_out.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "formats/safetensors/header.hpp"

namespace troupe::formats {

void left_out_entries::add_state(const std::string& name) {
  if (states_++ == 0) first_state_ = name;
}

void left_out_entries::add_misfit(const std::string& name, const std::vector<int64_t>& got,
                                  const std::vector<int64_t>& wanted) {
  if (misfits_++ == 0) first_misfit_ = fmt::format("'{}' with the shape {}, wanted {}", shown(name), got, wanted);
}

void left_out_entries::add_unread(std::string_view name, std::string_view type) {
  unread_.push_back({std::string(name), std::string(type)});
}

void left_out_entries::give_up_states(std::string why) {
  if (!why_no_states_) why_no_states_ = std::move(why);
}

void left_out_entries::say(std::vector<std::string>& remarks) const {
  if (states_ > 0)
    remarks.push_back(fmt::format("{}{} states of an optimizer, such as '{}', which do not name a parameter",
                                  left_out_mark, states_, shown(first_state_)));
  if (misfits_ > 0)
    remarks.push_back(fmt::format("{}{} states of an optimizer, such as {}, the shape of its parameter", left_out_mark,
                                  misfits_, first_misfit_));
  if (why_no_states_)
    remarks.push_back(fmt::format("{}the states of the optimizer: {}", left_out_mark, *why_no_states_));
  say_unread(remarks, unread_);
}

}  // namespace troupe::formats
