#include "models/segment/weight_work.hpp"

#include "models/segment/weight.hpp"

namespace troupe::models {

at::Tensor apart_from(const at::Tensor& t, const at::Tensor& lent) {
  const auto has_bytes = [](const at::Tensor& x) { return x.defined() && x.has_storage(); };
  return has_bytes(t) && has_bytes(lent) && t.is_alias_of(lent) ? t.clone() : t;
}

void weight_work::leave(const at::Tensor& lent) {
  for (entry& e : waiting_)
    for (at::Tensor& t : e.kept) t = apart_from(t, lent);
}

void weight_work::run(const sink_slot& slot) {
  for (entry& each : std::exchange(waiting_, {})) {
    const entry now = std::move(each);
    now.w(slot, now.kept);
  }
}

}  // namespace troupe::models
