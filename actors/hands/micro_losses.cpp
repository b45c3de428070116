#include "actors/hands/micro_losses.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::actors {
namespace {

// Returns the loss as text. The sign of a NaN has no meaning and is omitted.
std::string text_of_nonfinite(double loss) { return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf"; }

}  // namespace

bool micro_losses::trains() const { return context_->plan().options().mode == plan::mode::train; }

double& micro_losses::at(uint32_t micro) const {
  const auto& p = context_->plan();
  return context_->votes[plan::loss_offset(*p.layout, p.options().mesh.data_at(p.rank), micro)];
}

void micro_losses::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  written_.clear();
  seen_ = 0;
  if (trains() && !std::exchange(bad_step_, false)) bad_steps_ = 0;
}

core::result<void> micro_losses::write(uint32_t micro, const at::Tensor& mean, device::device_id where) {
  models::kernels_for(mean).cast(models::bytes_of(mean), models::core_dtype(mean.scalar_type()),
                                 reinterpret_cast<std::byte*>(&at(micro)), core::dtype::f64, 1);
  device::stream::current(where).record(written_.emplace_back(micro).at);
  return look();
}

core::result<void> micro_losses::look() {
  while (seen_ < written_.size() && written_[seen_].at.is_over()) TROUPE_TRY(judge(at(written_[seen_++].micro)));
  return {};
}

core::result<void> micro_losses::judge(double loss) {
  if (std::isfinite(loss)) return {};
  if (trains() && !std::exchange(bad_step_, true)) ++bad_steps_;
  const bool skips = context_->rules.skip_overflow;
  if (skips && bad_steps_ < bad_steps_max) return {};
  const std::string often = skips ? fmt::format(" in {} steps in a row", bad_steps_) : "";
  return core::fail(core::error_kind::numeric, "the loss is " + text_of_nonfinite(loss) + often + "; " + broken_());
}

}  // namespace troupe::actors
