#include "cluster/loss_record.hpp"

#include <fmt/format.h>

#include "cluster/supervised_job.hpp"

namespace troupe::cluster {

void loss_record::saved(uint64_t step) {
  before_.steps = step;
  fruitless_ = 0;
}

void loss_record::term_began(uint64_t step, uint32_t data, int64_t now_ns) {
  before_ = so_far(now_ns);
  without_term_ns_.reset();
  if (before_.steps > step) before_.steps_again += before_.steps - step;
  before_.steps = step;
  auto& degrees = before_.degrees;
  std::erase_if(degrees, [&](const auto& x) { return x.step >= step; });
  if (degrees.empty() || degrees.back().data != data) degrees.push_back({step, data});
}

run_so_far loss_record::so_far(int64_t now_ns) const {
  run_so_far out = before_;
  if (without_term_ns_) out.lost_ns += now_ns - *without_term_ns_;
  return out;
}

std::optional<std::string> loss_record::beyond_limit() const {
  if (losses_ > losses_max_)
    return fmt::format("the run has recovered from {} losses, the most that cluster.restarts.max allows", losses_max_);
  if (fruitless_ > fruitless_losses_max) return fmt::format("{} losses with no step in between", fruitless_);
  return std::nullopt;
}

}  // namespace troupe::cluster
