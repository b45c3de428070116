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
  void backward(uint32_t stage, uint32_t micro) {
    if (l_.options.mode != mode::train) return;
    for (auto u = static_cast<uint32_t>(l_.stage_of_unit.size()); u-- > 0;)
      if (l_.stage_of_unit[u] == stage) out_.push_back({u, micro, use::backward});
  }
  schedule take() { return std::move(out_); }

 private:
  const job_layout& l_;
  schedule out_;
};

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
  for (const action& each : l.options.pipeline.table.orders[l.pipeline_at(p.rank)])
    for_each_part(each, [&](const action& a) {
      if (a.type == action_type::forward) out.forward(a.stage, a.micro);
      // The gradient of the input and that of the weights are computed together.
      if (a.type == action_type::backward || a.type == action_type::backward_input) out.backward(a.stage, a.micro);
    });
  return out.take();
}

}  // namespace troupe::plan
