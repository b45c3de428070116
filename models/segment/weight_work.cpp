#include "models/segment/weight_work.hpp"

#include <algorithm>

#include "models/segment/weight.hpp"

namespace troupe::models {
namespace {

/// True if both tensors are the same view of the same memory.
bool are_same_elements(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() && a.is_alias_of(b) &&
         a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

at::Tensor apart_from(const at::Tensor& t, const at::Tensor& lent) {
  const auto has_bytes = [](const at::Tensor& x) { return x.defined() && x.has_storage(); };
  return has_bytes(t) && has_bytes(lent) && t.is_alias_of(lent) ? t.clone() : t;
}

void weight_work::leave(const at::Tensor& lent) {
  std::vector<std::pair<at::Tensor, at::Tensor>> copied;  // tensors in the memory of `lent`, each with its copy
  for (entry& e : waiting_)
    for (at::Tensor& t : e.kept) {
      const auto known = std::ranges::find_if(copied, [&](const auto& c) { return are_same_elements(c.first, t); });
      if (known != copied.end()) {
        t = known->second;
        continue;
      }
      at::Tensor apart = apart_from(t, lent);
      if (!apart.is_same(t)) copied.emplace_back(t, apart);
      t = std::move(apart);
    }
}

void weight_work::run(const sink_slot& slot) {
  for (entry& each : std::exchange(waiting_, {})) {
    const entry now = std::move(each);
    now.w(slot, now.kept);
  }
}

}  // namespace troupe::models
