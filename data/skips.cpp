#include "data/skips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::data {
namespace {

std::string text_of(uint64_t first, uint64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {}-{}", first, last);
}

/// Result of comparing the decisions (ranges of steps whose samples are left out) that a configuration requests with
/// those that a checkpoint recorded: [recorded decision]: whether it is requested; [requested decision]: whether it is
/// recorded.
struct matching {
  std::vector<bool> is_asked, is_recorded;
};
matching match(std::span<const step_span> asked, std::span<const core::left_out_steps> recorded) {
  matching out{std::vector<bool>(recorded.size()), std::vector<bool>(asked.size())};
  size_t from = 0;
  for (size_t i = 0; i < asked.size(); ++i)
    for (size_t k = from; k < recorded.size(); ++k)
      if (recorded[k].first == asked[i].first && recorded[k].last == asked[i].last) {
        out.is_asked[k] = out.is_recorded[i] = true;
        from = k + 1;
        break;
      }
  return out;
}

}  // namespace

core::left_out_steps taken_by(const batch_shape& shape, step_span steps) {
  const uint64_t begin = shape.samples_before(steps.first - 1);
  return {steps.first, steps.last, false, shape.skipped.positions(begin, shape.samples_before(steps.last) - begin)};
}

core::result<std::vector<core::left_out_steps>> decide_left_out(std::span<const step_span> asked,
                                                                std::vector<core::left_out_steps> recorded,
                                                                batch_shape shape) {
  const auto refused = [&](std::string text) {
    return core::fail(core::error_kind::mismatch, fmt::format("data.skip: {}", text));
  };
  const auto matched = match(asked, recorded);
  // `next` is the position in the global order after the last sample that the run has used.
  const left_out before{std::span<const core::left_out_steps>(recorded)};
  const uint64_t next = shape.first_sample == 0 ? 0 : before.position_of(shape.first_sample - 1) + 1;
  std::vector<core::left_out_steps> out;
  for (size_t k = 0; k < recorded.size(); ++k) {
    auto& r = recorded[k];
    const bool is_done = !r.samples.empty() && r.samples.front().begin < next;
    if (!matched.is_asked[k] && !r.after_spike && !is_done) continue;
    if (!matched.is_asked[k] && !r.after_spike)
      return refused(
          fmt::format("the samples of {}, which this run left out before step {}, are missing from the list: add them, "
                      "or resume from a checkpoint of an earlier step",
                      text_of(r.first, r.last), shape.first_step + 1));
    out.push_back(std::move(r));
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    if (matched.is_recorded[i]) continue;
    if (asked[i].first <= shape.first_step)
      return refused(
          fmt::format("wanted steps after step {}, which the run has reached, got {}, which the run did not leave out: "
                      "resume from a checkpoint of step {} or of an earlier one",
                      shape.first_step, text_of(asked[i].first, asked[i].last), asked[i].first - 1));
    shape.skipped = left_out(std::span<const core::left_out_steps>(out));
    out.push_back(taken_by(shape, asked[i]));
  }
  return out;
}

}  // namespace troupe::data
