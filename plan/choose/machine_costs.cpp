#include "plan/choose/machine_costs.hpp"

#include <algorithm>

namespace troupe::plan {
namespace {

constexpr machine_constant constants_of_machines[] = {
    {"product_flops_per_s", "flop/s", "rate of a matrix product whose sizes are large",
     &machine_costs::product_flops_per_s, true},
    {"product_fill_m", "rows", "rows more that a product costs", &machine_costs::product_fill_m, false},
    {"product_fill_n", "columns", "columns more that a product costs", &machine_costs::product_fill_n, false},
    {"product_fill_k", "summands", "summands more that a product costs", &machine_costs::product_fill_k, false},
    {"attention_flops_per_s", "flop/s", "rate of attention's scores and weighted sums in forward",
     &machine_costs::attention_flops_per_s, true},
    {"attention_backward_flops_per_s", "flop/s", "rate of attention in backward, with twice the flops of forward",
     &machine_costs::attention_backward_flops_per_s, true},
    {"elementwise_bytes_per_s", "B/s", "bytes that norms and residual sums read and write",
     &machine_costs::elementwise_bytes_per_s, true},
    {"activation_bytes_per_s", "B/s", "bytes that activations read and write", &machine_costs::activation_bytes_per_s,
     true},
    {"loss_bytes_per_s", "B/s", "bytes of logits that the loss reads and writes", &machine_costs::loss_bytes_per_s,
     true},
    {"copy_bytes_per_s", "B/s", "bytes that are copied: gathers, exchanges, rows that are looked up",
     &machine_costs::copy_bytes_per_s, true},
    {"reduce_bytes_per_s", "B/s", "bytes of contributions that a sum over ranks reads",
     &machine_costs::reduce_bytes_per_s, true},
    {"update_bytes_per_s", "B/s", "bytes of states that an optimizer's update reads and writes",
     &machine_costs::update_bytes_per_s, true},
    {"launch_s", "s", "start of one operation on tensors", &machine_costs::launch_s, false},
    {"wakeup_s", "s", "from the end of an instruction to the start of one on another lane or rank",
     &machine_costs::wakeup_s, false},
};

/// Returns the fill of a dimension of `large` elements, in which a product of `small` elements takes the share `ratio`
/// of the time: (small + fill) / (large + fill) = ratio.
double fill_of(uint64_t large, uint64_t small, double ratio) {
  const auto whole = static_cast<double>(large), part = static_cast<double>(small);
  const double most = (whole + part) / (2 * whole);  // beyond this ratio the fill would exceed the large size
  const double share = std::clamp(ratio, part / whole, most);
  return (share * whole - part) / (1 - share);
}

}  // namespace

std::span<const machine_constant> machine_constants() { return constants_of_machines; }

double product_seconds(const machine_costs& c, const product_size& size) {
  if (size.m == 0 || size.n == 0 || size.k == 0) return 0;
  const double result =
      (static_cast<double>(size.m) + c.product_fill_m) * (static_cast<double>(size.n) + c.product_fill_n);
  return 2 * (result + c.product_lost) * (static_cast<double>(size.k) + c.product_fill_k) / c.product_flops_per_s;
}

void fit_products(const measured_products& x, machine_costs& out) {
  out.product_fill_m = fill_of(x.large.m, x.small_m, x.small_m_s / x.large_s);
  out.product_fill_n = fill_of(x.large.n, x.small_n, x.small_n_s / x.large_s);
  out.product_fill_k = fill_of(x.large.k, x.small_k, x.small_k_s / x.large_s);
  out.product_flops_per_s = 1;
  out.product_flops_per_s = product_seconds(out, x.large) / x.large_s;
}

}  // namespace troupe::plan
