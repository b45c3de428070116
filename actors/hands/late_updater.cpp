#include "actors/hands/late_updater.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace troupe::actors {

core::result<void> late_updater::prepare(const plan::rank_plan& p) {
  if (prepared_ || !p.options().updates.late.on() || p.options().mode != plan::mode::train) return {};
  const auto tier = p.options().tiers.optimizer == plan::tier::device ? device::tier::device : device::tier::huge;
  auto got = device::memory::allocate(device_, tier, plan::deferred_elements(p) * core::size_of(p.options().master()));
  if (!got) return core::fail(got.error().in(fmt::format("rank {}, deferred gradients", p.rank)));
  deferred_ = std::move(*got);
  matrices_.resize(p.table().parameters.size());
  for (uint32_t q = 0; q < matrices_.size(); ++q) {
    if (!plan::defers(p, q)) continue;
    const auto columns = static_cast<size_t>(p.table().parameters[q].shape[1]);
    matrices_[q].offset = plan::deferred_offset(p, q);
    matrices_[q].sums.resize(columns);
    matrices_[q].selected.reserve(columns);
  }
  prepared_ = true;
  return {};
}

void late_updater::begin_afresh() {
  for (auto& m : matrices_) {
    m.summed = 0;
    m.selected.clear();
  }
  if (prepared_) std::memset(deferred_.data(), 0, deferred_.bytes());
}

template <class State>
void late_updater::update(const plan::rank_plan& p, const plan::owned_piece& piece,
                          const kernels::optimizer_options& options, const kernels::optimizer_step& step,
                          const kernels::optimizer_piece<State>& states) {
  const auto& rules = p.options().updates.late;
  const auto& updates = operations_.updates<State>();
  if (rules.whole(step.step)) {
    const kernels::piece_update<State> one{options, step, states};
    return updates.update({&one, 1});
  }
  auto& m = matrices_[piece.parameter];
  const kernels::matrix_slice slice{piece.range.first, m.sums.size()};
  auto* deferred = reinterpret_cast<State*>(deferred_.data()) + m.offset;
  // Columns are chosen only in a step that follows the application of all deferred gradients (`m.summed` is 0), so no
  // gradient of a column is lost.
  if (m.summed == 0 && (m.selected.empty() || rules.chooses(step.step))) {
    std::fill(m.sums.begin(), m.sums.end(), 0.0);
    updates.add_column_sums(states, slice, m.sums);
    m.selected.resize(m.sums.size());
    kernels::select_columns(m.sums, kernels::num_selected(m.sums.size(), rules.share), m.selected);
  }
  updates.update_selected(options, step, states, slice, m.selected, deferred);
  ++m.summed;
  if (!rules.lands(step.step)) return;
  updates.update_deferred(options, step, states, slice, m.selected, deferred, m.summed);
  m.summed = 0;
}

template void late_updater::update(const plan::rank_plan&, const plan::owned_piece&, const kernels::optimizer_options&,
                                   const kernels::optimizer_step&, const kernels::optimizer_piece<float>&);
template void late_updater::update(const plan::rank_plan&, const plan::owned_piece&, const kernels::optimizer_options&,
                                   const kernels::optimizer_step&, const kernels::optimizer_piece<double>&);

}  // namespace troupe::actors
