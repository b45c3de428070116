#include "plan/choose/size_search.hpp"

#include <algorithm>
#include <utility>

#include "core/math.hpp"
#include "plan/choose/knob_search.hpp"
#include "plan/generate/generate.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/classes.hpp"
#include "plan/layout/sets.hpp"
#include "plan/memory_places.hpp"

namespace troupe::plan {
namespace {

constexpr uint32_t resident_cuts = 64;
/// Largest number of units times micro-batches for which the search trades settings of one knob for another: it then
/// tries hundreds of plans, and larger plans take too long to generate.
constexpr size_t traded_uses_max = 2048;

/// Returns the numbers least, 2 * least, 4 * least ... below `most`, and `most` itself.
std::vector<uint64_t> doublings(uint64_t least, uint64_t most) {
  std::vector<uint64_t> out;
  for (uint64_t n = std::max<uint64_t>(1, least); n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

void hold_against(const memory_limits& limits, fitted& x) {
  const auto over = [](uint64_t needed, uint64_t limit) { return limit == 0 || needed <= limit ? 0 : needed - limit; };
  const auto& tiers = x.options.tiers;
  x.missing = std::max({over(budgeted_bytes(x.memory, tiers), limits.states), over(x.memory.total(), limits.total),
                        over(device_bytes(x.memory, tiers), limits.device)});
  x.fits = x.missing == 0;
}

class search {
 public:
  explicit search(const fit_request& request) : request_(request) {
    const auto& o = request_.options;
    ranks_ = o.ranks() <= fit_sample_ranks_max ? o.ranks() : 1;
  }

  core::result<fitted> run() {
    if (!request_.options.tiers.swaps() && request_.knobs.empty()) {  // options that fit memory stay as they are
      auto as_it_is = judged(request_.options, request_.options.ranks());
      if (!as_it_is || as_it_is->fits) return as_it_is;
    }
    make_knobs();
    knobs_.insert(knobs_.end(), request_.knobs.begin(), request_.knobs.end());
    knob_search found(
        knobs_, [&](const levels& at) { return judged(with(at), ranks_); },
        limited() ? knob_search::memory::limited : knob_search::memory::free);
    const bool quick = request_.table->units.size() * request_.options.accumulation <= traded_uses_max;
    auto best = !request_.knobs.empty() ? found.best_of_starts()
                : limited() && quick    ? found.climbed_and_traded()
                                        : found.climbed();
    if (!best) return best;
    const fitted found_best = *best;
    if (best->fits) best = with_kept(found_best);
    // Options under which copies overlap with computation are not tried if states have two places in their file: these
    // belong to updates before the vote, which a run may turn off again.
    if (best && best->fits && request_.knobs.empty() && !request_.options.tiers.two_places) {
      auto hides = found.hidden(found_best);
      if (!hides) return hides;
      if (hides->options != found_best.options) {
        hides = with_kept(std::move(*hides));
        if (!hides) return hides;
        // `best` and `hides` are compared after with_kept() has filled the memory that each leaves free with states
        // that are then not swapped.
        if (hides->step_s <= (1 + worth_it) * best->step_s) best = std::move(hides);
      }
    }
    if (!best) return best;
    return judged(best->options, request_.options.ranks());
  }

 private:
  using levels = knob_search::levels;

  /// Returns the number of elements of parameters that a rank would hold if all stages of a pipeline had equally many.
  [[nodiscard]] uint64_t held_by_a_rank() const {
    return core::div_up(request_.table->numel(), request_.options.mesh.degree(core::axis::pipeline));
  }
  [[nodiscard]] bool limited() const { return request_.limits.any(); }

  void add(bool open, const std::vector<std::function<void(plan_options&)>>& settings) {
    if (open) knobs_.push_back({settings});
  }
  void add_sizes(bool open, const std::vector<uint64_t>& sizes, auto set) {
    if (!open) return;
    knob k;
    for (uint64_t n : sizes) k.settings.emplace_back([n, set](plan_options& o) { set(o, n); });
    knobs_.push_back(std::move(k));
  }

  /// States that may stay in memory instead of in files; `keep(options, part)` changes options so that the fraction
  /// part / resident_cuts of these states stays in memory.
  struct keepable {
    std::function<void(plan_options&, uint32_t)> keep;
    bool in_parts = true;
    double saves = 0;  ///< seconds of disk time that a byte of memory saves
  };

  [[nodiscard]] std::vector<keepable> keepables(const plan_options& from) const {
    const auto& open = request_.open;
    const uint64_t own = core::div_up(request_.table->numel(), request_.options.shards());
    std::vector<keepable> out;
    if (open.resident_parameters && from.tiers.parameters == tier::nvme)
      out.push_back({[own](plan_options& o, uint32_t part) {
        // Slices are cached in runs of whole pages, so a limit that caches all of them exceeds the number of elements.
        o.tiers.resident_parameters =
            part == resident_cuts ? 2 * own + (uint64_t{1} << 20) : own * part / resident_cuts;
      }});
    if (open.ratio && from.tiers.optimizer == tier::nvme)
      out.push_back(
          {[](plan_options& o, uint32_t part) { o.tiers.ratio = 1 - static_cast<double>(part) / resident_cuts; }});
    if (open.swap_gradients && from.tiers.swaps())
      out.push_back({[](plan_options& o, uint32_t part) { o.tiers.swap_gradients = part < resident_cuts; }, false});
    return out;
  }

  void make_knobs() {
    const auto& o = request_.options;
    const auto& open = request_.open;
    const uint64_t all = held_by_a_rank(), own = core::div_up(all, o.shards());
    const bool swaps_states = o.tiers.optimizer == tier::nvme || o.tiers.parameters == tier::nvme;
    add_sizes(open.sub_group && swaps_states, doublings(std::max(own / fit_pieces_max, fit_piece_min), own),
              [](plan_options& x, uint64_t n) { x.updates.sub_group = n; });
    add_sizes(open.bucket,
              doublings(std::max(all / fit_pieces_max, fit_piece_min), std::min(o.gradients.reduce_bucket, all)),
              [](plan_options& x, uint64_t n) { x.gradients.reduce_bucket = n; });
    const auto slots = [](uint32_t n) {
      return [n](plan_options& x) {
        x.tiers.state_slots = n;
        x.tiers.read_ahead = n > 1;
        x.tiers.write_behind = n > 2;
      };
    };
    std::vector<std::function<void(plan_options&)>> windows;
    for (uint32_t n : {1U, 2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 32U, 48U, 64U}) windows.emplace_back(slots(n));
    add(open.state_slots && swaps_states, windows);
    add_sizes(open.parameter_slots && o.tiers.parameters == tier::nvme, {1, 2, 3, 4, 6, 8},
              [](plan_options& x, uint64_t n) { x.tiers.parameter_slots = static_cast<uint32_t>(n); });
    add_sizes(open.gradient_slots && o.tiers.swaps(), {1, 2, 3, 4},
              [](plan_options& x, uint64_t n) { x.tiers.gradient_slots = static_cast<uint32_t>(n); });
    if (limited()) {
      for (const auto& x : keepables(o)) {
        knob k;
        k.look = resident_cuts;  // a unit is in memory whole or not at all, so a few more parts may change nothing
        // States that are not `in_parts` (gradients) are in memory as a whole or not at all.
        const std::vector<uint32_t> parts = x.in_parts ? std::vector<uint32_t>{0, 4, 8, 16, 32, 48, resident_cuts}
                                                       : std::vector<uint32_t>{0, resident_cuts};
        for (uint32_t part : parts) k.settings.emplace_back([part, x](plan_options& y) { x.keep(y, part); });
        knobs_.push_back(std::move(k));
      }
    }
    const uint64_t unit = elements_of(*request_.table, largest_unit(*request_.table));
    if (!open.gathering || o.stage != 3) return;
    knob gathers;
    gathers.settings = {[](plan_options& x) {
                          x.gathering.persistence_threshold = x.gathering.prefetch_bucket =
                              x.gathering.max_reuse_distance = 0;
                        },
                        [](plan_options& x) { x.gathering.prefetch_bucket = x.gathering.max_reuse_distance = 0; },
                        [unit](plan_options& x) {
                          x.gathering.prefetch_bucket = std::min(x.gathering.prefetch_bucket, unit);
                          x.gathering.max_reuse_distance = 0;
                        },
                        [](plan_options&) {}};
    gathers.hiding_from = 2;
    gathers.hiding = [](plan_options& x) {
      x.gathering.prefetch_bucket = std::min<uint64_t>(x.gathering.prefetch_bucket, 1);  // prefetches one gather ahead
      x.gathering.max_reuse_distance = 0;
    };
    knobs_.push_back(std::move(gathers));
  }

  [[nodiscard]] plan_options with(const levels& at) const {
    plan_options o = request_.options;
    o.memory_budget_bytes = o.device_budget_bytes = 0;
    if (request_.open.swap_gradients) o.tiers.swap_gradients = limited() && o.tiers.swaps();
    if (request_.open.resident_parameters) o.tiers.resident_parameters = 0;
    if (request_.open.ratio) o.tiers.ratio = 1;
    for (size_t k = 0; k < knobs_.size(); ++k)
      (at[k] < knobs_[k].settings.size() ? knobs_[k].settings[at[k]] : knobs_[k].hiding)(o);
    return o;
  }

  /// Returns the ranks whose plans are generated to judge options: if `ranks` is 1 (a sample), the first rank of each
  /// pipeline coordinate; above fit_ranks_max, one rank of each class of equal plans; else all ranks.
  [[nodiscard]] static std::vector<uint32_t> asked(const std::shared_ptr<const job_layout>& layout, uint32_t ranks) {
    std::vector<uint32_t> out;
    if (ranks > fit_ranks_max)
      for (const auto& c : classes_of(layout)) out.push_back(c.representative());
    const auto& mesh = layout->options.mesh;
    for (uint32_t s = 0; s < mesh.degree(core::axis::pipeline) && ranks == 1; ++s) out.push_back(mesh.at_stage(0, s));
    for (uint32_t r = 0; r < ranks && ranks > 1 && ranks <= fit_ranks_max; ++r) out.push_back(r);
    return out;
  }
  /// Generates the plans of options `o` for some ranks, and predicts their memory and time.
  [[nodiscard]] core::result<fitted> judged(const plan_options& o, uint32_t ranks) const {
    TROUPE_ASSIGN(auto layout, make_layout(request_.table, o));
    fitted out;
    out.options = o;
    std::vector<std::shared_ptr<const rank_plan>> plans;
    size_t largest = 0;
    for (const uint32_t r : asked(layout, ranks)) {
      TROUPE_TRY(request_.go_on ? request_.go_on() : core::result<void>());
      TROUPE_ASSIGN(auto made, generate(layout, r));
      plans.push_back(std::move(made));
      if (plans.back()->memory.total() > plans[largest]->memory.total()) largest = plans.size() - 1;
    }
    const auto& p = *plans[largest];
    out.rank = p.rank;
    out.memory = p.memory;
    out.traffic = traffic_of(p);
    out.step_s = predict(plans, request_.costs).step_s;
    hold_against(request_.limits, out);
    return out;
  }
  [[nodiscard]] double disk_seconds(const fitted& x) const {
    return static_cast<double>(x.traffic.read) / request_.costs.disk_read_bytes_per_s +
           static_cast<double>(x.traffic.written) / request_.costs.disk_bytes_per_s;
  }

  core::result<fitted> with_kept(fitted best) { return limited() ? keep_in_memory(std::move(best)) : best; }

  core::result<fitted> keep_in_memory(fitted best) {
    auto all = keepables(best.options);
    for (auto& x : all) {
      plan_options o = best.options;
      x.keep(o, resident_cuts);
      const auto kept = judged(o, ranks_);
      if (!kept) return kept;
      const double bytes = static_cast<double>(kept->memory.total()) - static_cast<double>(best.memory.total());
      x.saves = (disk_seconds(best) - disk_seconds(*kept)) / std::max(1.0, bytes);
    }
    std::stable_sort(all.begin(), all.end(), [](const keepable& a, const keepable& b) { return a.saves > b.saves; });
    for (const auto& x : all) {
      if (x.saves <= 0) continue;
      // `fits`: largest tried number of parts (of resident_cuts) in memory that is within the limits; `beyond`:
      // smallest tried number that is not
      uint32_t fits = 0, beyond = resident_cuts + 1;
      while (beyond - fits > 1) {
        const uint32_t part = fits == 0 && beyond > resident_cuts ? resident_cuts : fits + (beyond - fits) / 2;
        plan_options o = best.options;
        x.keep(o, part);
        auto kept = judged(o, ranks_);
        if (!kept) return kept;
        if (!kept->fits) {
          beyond = part;
          continue;
        }
        fits = part;
        if (kept->step_s <= best.step_s * (1 + worth_it) && disk_seconds(*kept) < disk_seconds(best))
          kept_ = std::move(*kept);
      }
      if (kept_) best = *std::exchange(kept_, std::nullopt);
    }
    return best;
  }

  const fit_request& request_;
  uint32_t ranks_ = 1;
  std::vector<knob> knobs_;
  std::optional<fitted> kept_;
};

}  // namespace

swap_traffic traffic_of(const rank_plan& p, std::optional<swapped> what) {
  swap_traffic out;
  for (const auto& x : p.instructions) {
    if (x.repeats == repetition::redo || (what && x.what != *what)) continue;
    const touched bytes = row_of(x.kind).bytes;
    if (bytes == touched::disk_read) out.read += x.moved_bytes;
    if (bytes == touched::disk_written) out.written += x.moved_bytes;
  }
  return out;
}

uint64_t elements_of(const core::model_table& table, const core::unit_info& unit) {
  uint64_t n = 0;
  for (uint32_t q : unit.parameters) n += table.parameters[q].numel();
  return n;
}

const core::unit_info& largest_unit(const core::model_table& table) {
  return *std::max_element(table.units.begin(), table.units.end(),
                           [&](const auto& a, const auto& b) { return elements_of(table, a) < elements_of(table, b); });
}

core::result<fitted> choose(const fit_request& request) {
  fit_request tightened = request;
  auto out = search(tightened).run();
  // The search has generated the plans of only some ranks, and another rank may exceed the limits: the search is then
  // repeated with limits lowered by the excess.
  for (uint32_t again = 0; again < 4 && out && !out->fits && request.options.ranks() > fit_sample_ranks_max; ++again) {
    for (uint64_t* limit : {&tightened.limits.states, &tightened.limits.total, &tightened.limits.device})
      if (*limit > 0) *limit -= std::min(*limit - 1, out->missing);
    auto next = search(tightened).run();
    if (!next) return next;
    hold_against(request.limits, *next);
    out = std::move(next);
  }
  return out;
}

}  // namespace troupe::plan
