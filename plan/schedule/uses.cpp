#include "plan/schedule/uses.hpp"

#include <algorithm>

namespace troupe::plan {
namespace {

class use_list {
 public:
  explicit use_list(const job_layout& l) : l_(l) {}

  void forward(uint32_t stage, uint32_t micro) {
    for (uint32_t u = 0; u < l_.stage_of_unit.size(); ++u)
      if (l_.stage_of_unit[u] == stage) out_.push_back({u, micro, use::forward});
  }
  void backward(uint32_t stage, uint32_t micro, use kind = use::backward) {
    if (l_.options.mode != mode::train) return;
    for (auto u = static_cast<uint32_t>(l_.stage_of_unit.size()); u-- > 0;)
      if (l_.stage_of_unit[u] == stage) out_.push_back({u, micro, kind});
  }
  schedule take() { return std::move(out_); }

 private:
  const job_layout& l_;
  schedule out_;
};

std::vector<action> parts_of(const std::vector<action>& order) {
  std::vector<action> out;
  for (const action& each : order) for_each_part(each, [&](const action& a) { out.push_back(a); });
  return out;
}

// Nobody waits for the gradient of the model's input: with the weight part next to it, backward is done at once,
// segment by segment, and keeps nothing. In other stages that would hold the gradient back from the stage before.
bool is_whole(const action& a, const action& next) {
  return a.type == action_type::backward_input && a.stage == 0 &&
         next == action{action_type::backward_weight, a.stage, a.micro};
}

}  // namespace

schedule uses_of(const rank_plan& p) {
  const job_layout& l = *p.layout;
  if (l.options.mode == mode::save) return {};
  use_list out(l);
  if (l.options.pipeline.first_unit.empty()) {
    for (uint32_t m = 0; m < l.options.accumulation; ++m) {
      out.forward(0, m);
      out.backward(0, m);
    }
    return out.take();
  }
  const auto parts = parts_of(l.options.pipeline.table.orders[l.pipeline_at(p.rank)]);
  for (size_t i = 0; i < parts.size(); ++i) {
    const action& a = parts[i];
    if (i + 1 < parts.size() && is_whole(a, parts[i + 1])) {
      out.backward(a.stage, a.micro);
      ++i;
      continue;
    }
    if (a.type == action_type::forward) out.forward(a.stage, a.micro);
    if (a.type == action_type::backward) out.backward(a.stage, a.micro);
    if (a.type == action_type::backward_input) out.backward(a.stage, a.micro, use::input);
    if (a.type == action_type::backward_weight) out.backward(a.stage, a.micro, use::weights);
  }
  return out.take();
}

}  // namespace troupe::plan
