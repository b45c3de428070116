#include "actors/hands/shard_executor.hpp"

#include <algorithm>
#include <cmath>

#include "core/math.hpp"
#include "core/text.hpp"
#include "core/tp_slices.hpp"
#include "device/stream.hpp"
#include "kernels/optimizer/average.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
#include "kernels/optimizer/undo.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/ties.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::actors {

std::string first_nonfinite_parameter(const plan::rank_plan& p, std::span<const double> votes) {
  for (size_t q = 0; q < p.layout->block_offset.size(); ++q) {
    const uint64_t end = p.layout->block_offset[q] + plan::blocks_of(*p.layout, static_cast<uint32_t>(q));
    for (uint64_t b = p.layout->block_offset[q]; b < end; ++b)
      if (!std::isfinite(votes[b])) return p.table().parameters[q].name;
  }
  return "none";
}

void shard_executor::shared_out(uint64_t count, auto f) {
  if (!tiers().updates_on_host()) return f(0, count);
  constexpr uint64_t part = 8 * core::partition_grain;
  team_.run(core::div_up(count, part), [&](uint64_t k) { f(k * part, std::min(part, count - k * part)); });
}

void shard_executor::square_sums(const plan::instruction& norm) {
  const auto& p = context_->plan();
  std::byte* window = norm.slots.window == plan::none ? nullptr : memory_->window(p, norm.slots.window);
  const core::dtype type = p.options().types.accumulation;
  std::vector<kernels::squared_elements> all;
  for (const auto& x : p.layout->buckets[norm.subject].parameters) {
    const auto own = p.layout->slice_of(x.parameter, p.rank);
    if (own.count == 0) continue;
    const uint64_t block = plan::first_block(*p.layout, x.parameter, p.rank) + own.first / core::partition_grain;
    all.push_back({memory_->reduced_gradient(x.parameter, own.first, window), own.count,
                   context_->votes.subspan(block, core::div_up(own.count, core::partition_grain))});
  }
  if (!tiers().updates_on_host()) return states_.block_square_sums(all, type);
  for (const auto& x : all)
    shared_out(x.count, [&](uint64_t first, uint64_t count) {
      const kernels::squared_elements part{
          x.values + first * core::size_of(type), count,
          x.out.subspan(first / core::partition_grain, core::div_up(count, core::partition_grain))};
      states_.block_square_sums({&part, 1}, type);
    });
}

void shard_executor::add_uses(const plan::instruction& sum) {
  const auto& p = context_->plan();
  const auto& uses = p.layout->ties[sum.subject].parameters;
  const core::dtype type = p.options().types.accumulation;
  const uint64_t element_bytes = core::size_of(type);
  std::vector<const std::byte*> all;
  std::vector<std::byte*> own;
  uint64_t count = 0;  // number of this rank's elements of each use, equal for all uses because all are cut alike
  for (const uint32_t q : uses) {
    if (p.layout->holds(p.rank, q)) {
      count = p.own_states(q).count;
      all.push_back(own.emplace_back(memory_->last_gradient(p, q)));
    } else {
      const uint64_t place = plan::received_place(*p.layout, q, p.options().mesh.pipeline_at(p.rank));
      all.push_back(memory_->window(p, sum.slots.moved) + place * element_bytes);
    }
  }
  if (count == 0) return;
  states_.sum_in_rank_order(all, own.front(), count, {type, type, type});
  for (size_t k = 1; k < own.size(); ++k)
    device::stream::current(device_of_states()).copy(own[k], own.front(), count * element_bytes);
}

core::result<void> shard_executor::sound() const {
  const verdict& v = context_->decide();
  if (!v.overflow) return {};
  return core::fail(core::error_kind::numeric, "the gradient is not finite, first in " +
                                                   first_nonfinite_parameter(context_->plan(), context_->votes) +
                                                   "; loss " + core::number_text(v.loss));
}

kernels::optimizer_options shard_executor::options_of(uint32_t q) const {
  const uint32_t g = groups_->group_of[q];
  return job::with_setting(groups_->groups[g].options, context_->order.settings[g]);
}

kernels::optimizer_step shard_executor::step_of(uint32_t q) const {
  return {context_->order.applied + 1, context_->order.settings[groups_->group_of[q]].lr,
          context_->decide().gradient_scale};
}

double shard_executor::trust_ratio(const kernels::lamb_options& options, uint32_t q) const {
  const auto& p = context_->plan();
  const uint64_t first = p.layout->block_offset[q];
  const uint64_t blocks = plan::blocks_of(*p.layout, p.table().original(q));
  double weights = 0, updates = 0;
  norms_written_.finish();
  for (uint64_t b = first; b < first + blocks; ++b) {
    weights += context_->norms[b];
    updates += context_->norms[p.layout->num_blocks + b];
  }
  return kernels::trust_ratio(options, weights, updates);
}

template <class State>
State* shard_executor::direction(const plan::instruction& x, uint32_t set, uint32_t q, uint32_t tensor) const {
  const auto& p = context_->plan();
  return reinterpret_cast<State*>(memory_->at(plan::pool::directions) + p.buffers[x.slots.matrices].offset) +
         plan::matrix_place(*p.layout, p.layout->matrix_sets[set], q, tensor);
}

template <class State>
void shard_executor::prepare(const plan::instruction& x) {
  const auto& p = context_->plan();
  const auto& group = p.sub_groups[x.subject];
  const uint32_t tensor = p.options().mesh.tensor_at(p.rank);
  const auto& updates = states_.updates<State>();
  for (const auto& piece : group.pieces) {
    const auto options = options_of(piece.parameter);
    const auto step = step_of(piece.parameter);
    if (const auto* lamb = std::get_if<kernels::lamb_options>(&options)) {
      const uint64_t block =
          plan::first_block(*p.layout, piece.parameter, p.rank) + piece.range.first / core::partition_grain;
      const auto norms = context_->norms;
      shared_out(piece.range.count, [&](uint64_t first, uint64_t count) {
        const uint64_t from = block + first / core::partition_grain,
                       blocks = core::div_up(count, core::partition_grain);
        updates.prepare_lamb(*lamb, step, kernels::part_of(at<State>(piece), first, count), norms.subspan(from, blocks),
                             norms.subspan(p.layout->num_blocks + from, blocks));
      });
    }
    if (const auto* muon = std::get_if<kernels::muon_options>(&options)) {
      State* const to = direction<State>(x, group.matrices, piece.parameter, tensor) + piece.range.first;
      shared_out(piece.range.count, [&](uint64_t first, uint64_t count) {
        updates.prepare_muon(*muon, step, kernels::part_of(at<State>(piece), first, count), to + first);
      });
    }
  }
  device::stream::current(device_of_states()).record(norms_written_);
}

namespace {

/// Calls f(coordinate, run) for each run of consecutive elements of each tensor rank's share of parameter `q`, without
/// padding.
void for_each_share(const job::chosen_tensor& cut, uint32_t q, auto f) {
  for (uint32_t t = 0; t < cut.cut.degree; ++t) {
    const core::tp_slices share(cut.whole->parameters[q].shape, cut.cut.parameters[q], t);
    for (const auto& run : share.runs(0, share.elements()))
      if (!run.is_padding()) f(t, run);
  }
}

}  // namespace

template <class State>
std::span<State> shard_executor::joined(const plan::instruction& x, uint32_t q, std::span<State> scratch) {
  if (scratch.empty()) return {direction<State>(x, x.subject, q, 0), context_->plan().table().parameters[q].numel()};
  for_each_share(tensor_, q, [&](uint32_t t, const core::tp_run& run) {
    std::copy_n(direction<State>(x, x.subject, q, t) + run.local, run.count, scratch.data() + run.whole);
  });
  return scratch;
}

template <class State>
void shard_executor::deal(const plan::instruction& x, uint32_t q, std::span<const State> matrix) {
  for_each_share(tensor_, q, [&](uint32_t t, const core::tp_run& run) {
    std::copy_n(matrix.data() + run.whole, run.count, direction<State>(x, x.subject, q, t) + run.local);
  });
}

template <class State>
core::result<void> shard_executor::orthogonalise(const plan::instruction& x) {
  const auto& p = context_->plan();
  for (const auto& member : p.layout->matrix_sets[x.subject].parameters) {
    const uint32_t q = member.parameter;
    if (!plan::makes_orthogonal(*p.layout, p.rank, q)) continue;
    const auto options = std::get<kernels::muon_options>(options_of(q));
    const auto [rows, columns] = plan::whole_shape(*p.layout, q);
    const bool shared = plan::shares_of(*p.layout, q) > 1;
    const uint64_t elements = kernels::orthogonalise_scratch(rows, columns), apart = shared ? rows * columns : 0;
    if (const uint64_t bytes = (elements + apart) * sizeof(State); scratch_.bytes() < bytes) {
      auto got = device::memory::allocate(device_of_states(), device::tier::device, bytes);
      if (!got) return core::fail(got.error().in("room to orthogonalise " + p.table().parameters[q].name));
      // the old scratch memory may still be in use by kernels for a smaller matrix
      TROUPE_TRY(device::stream::current(device_of_states()).finish());
      scratch_ = std::move(*got);
    }
    const std::span scratch(reinterpret_cast<State*>(scratch_.data()), elements + apart);
    const std::span<State> matrix = joined(x, q, scratch.first(apart));
    states_.updates<State>().orthogonalise(matrix, rows, columns, options.ns_steps, scratch.subspan(apart));
    if (shared) deal<State>(x, q, matrix);
  }
  return {};
}

// Returns the address of the new weights of `piece` in the type in which the forward pass uses them.
const std::byte* shard_executor::new_weights(const plan::owned_piece& piece, std::byte* window) const {
  const std::byte* copy = memory_->copy(piece, window);
  return copy != nullptr ? copy : memory_->master(piece, window);
}

template <class State, class F>
void shard_executor::in_runs(const kernels::optimizer_piece<State>& piece, F update) {
  const auto shared = [&](const kernels::optimizer_piece<State>& run, uint64_t begin) {
    shared_out(run.count,
               [&](uint64_t first, uint64_t count) { update(kernels::part_of(run, first, count), begin + first); });
  };
  tiers().weights_go_up() ? uploads_.update(piece, shared) : shared(piece, 0);
}

template <class State>
void shard_executor::update_elements(std::span<const kernels::piece_update<State>> all) {
  const auto& updates = states_.updates<State>();
  if (!tiers().updates_on_host()) return updates.update(all);
  for (const auto& x : all)
    in_runs(x.piece, [&](const auto& run, uint64_t) {
      const kernels::piece_update<State> one{x.options, x.step, run};
      updates.update({&one, 1});
    });
}

void shard_executor::refresh_cached(const std::vector<plan::owned_piece>& pieces, std::byte* window) {
  if (window == nullptr) return;
  for (const auto& piece : pieces) memory_->refresh_cached(piece, new_weights(piece, window));
}

template <class State>
void shard_executor::update(const plan::instruction& x) {
  const auto& group = context_->plan().sub_groups[x.subject];
  const uint32_t tensor = context_->plan().options().mesh.tensor_at(context_->plan().rank);
  const auto& updates = states_.updates<State>();
  std::byte* window = x.slots.window == plan::none ? nullptr : memory_->window(context_->plan(), x.slots.window);
  std::vector<kernels::piece_update<State>> all;
  for (const auto& piece : group.pieces) {
    const auto options = options_of(piece.parameter);
    const auto step = step_of(piece.parameter);
    if (const auto* lamb = std::get_if<kernels::lamb_options>(&options))
      in_runs(at<State>(piece), [&](const auto& run, uint64_t) {
        updates.apply_lamb(*lamb, step, run, trust_ratio(*lamb, piece.parameter));
      });
    else if (const auto* muon = std::get_if<kernels::muon_options>(&options))
      in_runs(at<State>(piece), [&](const auto& run, uint64_t first) {
        updates.apply_muon(*muon, step, run,
                           direction<State>(x, group.matrices, piece.parameter, tensor) + piece.range.first + first);
      });
    else if (plan::defers(context_->plan(), piece.parameter))
      late_.update(context_->plan(), piece, options, step, at<State>(piece));
    else
      all.push_back({options, step, at<State>(piece, window)});
  }
  update_elements<State>(all);
  refresh_cached(group.pieces, window);
  average<State>(group.pieces, window);
}

template <class State>
void shard_executor::average(const std::vector<plan::owned_piece>& pieces, std::byte* window) {
  if (!groups_->average) return;
  const auto rate = kernels::average_rate(*groups_->average, context_->order.applied + 1);
  if (!rate) return;
  const auto& updates = states_.updates<State>();
  for (const auto& piece : pieces) {
    const auto* const weights = reinterpret_cast<const State*>(memory_->master(piece, window));
    auto* const to =
        reinterpret_cast<State*>(memory_->moment(piece, job::own_moments(*groups_, piece.parameter), window));
    shared_out(piece.range.count,
               [&](uint64_t first, uint64_t count) { updates.average(to + first, weights + first, count, *rate); });
  }
}

template <class State>
void shard_executor::speculate(const plan::instruction& x) {
  const auto& p = context_->plan();
  std::byte* window = x.slots.window == plan::none ? nullptr : memory_->window(p, x.slots.window);
  const auto& updates = states_.updates<State>();
  std::byte* kept = p.options().updates.may_undo() ? memory_->at(plan::pool::undo) + p.undo_offset[x.subject] : nullptr;
  const auto& pieces = p.sub_groups[x.subject].pieces;
  std::vector<kernels::piece_update<State>> all;
  for (const auto& piece : pieces) {
    const uint32_t q = piece.parameter;
    const kernels::optimizer_step step{context_->order.applied + 1, context_->order.settings[groups_->group_of[q]].lr,
                                       context_->unclipped_scale()};
    const auto states = at<State>(piece, window);
    if (kept != nullptr && p.blocks.empty()) {
      updates.update_keeping(options_of(q), step, states, kept);
      kept += kernels::undo_bytes(states);
      continue;
    }
    if (kept != nullptr) kept = undo_in_memory(undo_copy::make, x.subject, piece, kept);
    all.push_back({options_of(q), step, states});
  }
  update_elements<State>(all);
  refresh_cached(pieces, window);
  average<State>(pieces, window);
}

std::byte* shard_executor::undo_in_memory(undo_copy what, uint32_t group, const plan::owned_piece& piece,
                                          std::byte* kept) {
  const auto& p = context_->plan();
  const plan::swap_block& b = p.blocks[group];
  auto& stream = device::stream::current(device_of_states());
  const auto bytes_of = [&](plan::state_part x) {
    return piece.range.count * core::size_of(plan::type_of(*p.layout, x));
  };
  const auto keep = [&](std::byte* states, plan::state_part x) {
    if (states == nullptr || b.holds(x)) return;
    what == undo_copy::make ? stream.copy(kept, states, bytes_of(x)) : stream.copy(states, kept, bytes_of(x));
    kept += core::round_up(bytes_of(x), core::parameter_alignment_bytes);
  };
  keep(memory_->master(piece), plan::state_part::master);
  for (uint32_t k = 0; k < plan::max_moments; ++k) keep(memory_->moment(piece, k), plan::moment_part(k));
  keep(memory_->copy(piece), plan::state_part::copy);
  // If 16-bit weights are in the swap file, an update does not read them, so its window has no old weights to copy. If
  // this rank's slices are also cached in memory (plan::tier_options::resident_parameters), the old weights are copied
  // from the cache, and back to it.
  const auto weights = plan::weights_part(*p.layout);
  std::byte* const beside = b.holds(weights) ? memory_->cached_weights(piece) : nullptr;
  if (beside == nullptr) return kept;
  what == undo_copy::make ? stream.copy(kept, beside, bytes_of(weights)) : memory_->refresh_cached(piece, kept);
  return kept + core::round_up(bytes_of(weights), core::parameter_alignment_bytes);
}

template <class State>
void shard_executor::take_back(uint32_t group) {
  const auto& p = context_->plan();
  std::byte* kept = memory_->at(plan::pool::undo) + p.undo_offset[group];
  for (const auto& piece : p.sub_groups[group].pieces) {
    if (!p.blocks.empty()) {
      kept = undo_in_memory(undo_copy::put_back, group, piece, kept);
      continue;
    }
    const auto states = at<State>(piece);
    states_.updates<State>().take_back(states, kept);
    kept += kernels::undo_bytes(states);
  }
}

// Executes `undo`: restores the states that an update before the vote has overwritten, if the step is skipped or
// clipped. If a gradient is not finite and the job does not skip such steps, the run fails here, before any updated
// parameter is published.
core::result<void> shard_executor::undo(const plan::instruction& x) {
  if (!context_->decide().skipped) TROUPE_TRY(sound());
  if (!context_->acts(x.guard)) return {};
  context_->plan().options().master() == core::dtype::f64 ? take_back<double>(x.subject) : take_back<float>(x.subject);
  return {};
}

template <class State>
kernels::optimizer_piece<State> shard_executor::at(const plan::owned_piece& piece, std::byte* window) const {
  const auto& o = context_->plan().options();
  kernels::optimizer_piece<State> out;
  out.master = reinterpret_cast<State*>(memory_->master(piece, window));
  const uint32_t moments = job::own_moments(*groups_, piece.parameter);
  for (uint32_t k = 0; k < moments; ++k) out.moments[k] = reinterpret_cast<State*>(memory_->moment(piece, k, window));
  if (groups_->average) out.average = reinterpret_cast<State*>(memory_->moment(piece, moments, window));
  out.gradient = memory_->gradient(piece, window);
  out.gradient_dtype = o.types.accumulation;
  out.copy = memory_->copy(piece, window);
  out.copy_dtype = o.types.parameter;
  out.count = piece.range.count;
  out.parameter = piece.parameter;
  out.first = piece.range.first;
  return out;
}

core::result<progress> shard_executor::start(const plan::instruction& x) {
  const bool fp64 = context_->plan().options().master() == core::dtype::f64;
  if (x.kind == plan::kind::norm) {
    square_sums(x);
    return progress::done;
  }
  if (x.kind == plan::kind::tied_sum) {
    add_uses(x);
    return progress::done;
  }
  if (x.kind == plan::kind::undo) {
    TROUPE_TRY(undo(x));
    return progress::done;
  }
  if (tiers().weights_go_up()) TROUPE_TRY(uploads_.begin());
  if (x.kind == plan::kind::update && x.guard == plan::guard::always) {
    if (context_->rules.clip > 0 && !context_->plan().options().updates.may_clip)
      return core::fail(core::error_kind::bug,
                        "an update before the vote, in a plan that does not do it again clipped");
    fp64 ? speculate<double>(x) : speculate<float>(x);
    return progress::done;
  }
  if (!context_->acts(x.guard)) return progress::done;
  TROUPE_TRY(sound());
  TROUPE_TRY(late_.prepare(context_->plan()));
  switch (x.kind) {
    case plan::kind::prepare:
      fp64 ? prepare<double>(x) : prepare<float>(x);
      return progress::done;
    case plan::kind::orthogonalise:
      TROUPE_TRY(fp64 ? orthogonalise<double>(x) : orthogonalise<float>(x));
      return progress::done;
    case plan::kind::update:
    case plan::kind::redo:
      fp64 ? update<double>(x) : update<float>(x);
      return progress::done;
    default:
      return core::fail(core::error_kind::bug, "not for the shard lane");
  }
}

}  // namespace troupe::actors
