#include "kernels/optimizer/update_count.hpp"

namespace troupe::kernels {
namespace {

bool counts(const adamw_options& o) { return o.bias_correction; }
bool counts(const lamb_options& o) { return o.bias_correction; }
bool counts(const adagrad_options& o) { return o.lr_decay != 0; }
bool counts(const lion_options& /*o*/) { return false; }
bool counts(const sgd_options& /*o*/) { return false; }
bool counts(const muon_options& /*o*/) { return false; }
bool counts(const host_rule_options& /*o*/) { return true; }  // a program's rule may read the number of the update

}  // namespace

bool depends_on_count(const optimizer_options& options) {
  return std::visit([](const auto& o) { return counts(o); }, options);
}

}  // namespace troupe::kernels
