#include "plan/choose/compile.hpp"
#include "plan/choose/knob_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

namespace troupe::plan {
namespace {

/// Divisor of a pass's number of settings: at a time, the search tries all settings up to number / `looks` further than
/// the current one, because a single small change may save too little time to count.
constexpr size_t looks = 12;
/// Largest number of gradient buckets in the settings of the pass `fuse_buckets`; the search starts with this number
/// and goes on to fewer, larger buckets. A bucket has at least `fit_piece_min` elements.
constexpr uint64_t fewest_buckets = 64;
/// Number of latencies that a gather must hide: from the end of a computation to the start of the gather, from the
/// gather to the computation after it, and one to spare.
constexpr double hidden_latencies = 3;
/// Number of equal parts of a rank's optimizer states; the pass `offload_optimizer` chooses how many parts stay in
/// memory.
constexpr uint32_t offload_parts = 32;
/// Maximum number of pieces into which the rows of a product are divided. Each piece costs a start of a product and of
/// an exchange, and the exposed time decreases with the number of pieces.
constexpr uint32_t most_exchange_pieces = 8;

/// Returns the units of the model that have segments and a backward, except the model's first unit.
std::vector<uint32_t> computing_units(const core::model_table& table) {
  std::vector<uint32_t> out;
  for (uint32_t u = std::max(table.teacher_units + 1, table.first_trained_unit()); u < table.units.size(); ++u)
    if (!table.units[u].segments.empty()) out.push_back(u);
  return out;
}

/// Returns the segments that may keep fewer tensors for backward, from the last to the first.
std::vector<segment_place> light_segments(const core::model_table& table) {
  std::vector<segment_place> out;
  for (auto u = static_cast<uint32_t>(table.units.size()); u-- > table.first_trained_unit();)
    for (auto s = static_cast<uint32_t>(table.units[u].segments.size()); s-- > 0;)
      // Tiled segments keep fewer tensors for backward in any case, so they are no choice.
      if (const auto& x = table.units[u].segments[s]; x.light.flops > 0 && !x.is_tiled()) out.push_back({u, s});
  return out;
}

std::string units_text(size_t n) { return fmt::format("{}{}", n, n == 1 ? " unit" : " units"); }

struct rule {
  option_pass pass;
  /// function that returns the settings among which the pass chooses, ordered from the least memory on; empty if
  /// there is nothing to choose
  std::vector<std::function<void(plan_options&)>> (*settings)(const compile_request& request);
  /// function that copies the options that the pass may change from `from` to `to`
  void (*take)(const plan_options& from, plan_options& to);
  /// function that returns a short text about what the pass has changed
  std::string (*change)(const plan_options& from, const plan_options& to);
};

using setting = std::function<void(plan_options&)>;

// Returns the settings of `recompute`. Units whose forward has the most flops per byte of activations keep their
// activations first; of equal units the last one, which keeps them for the shortest time. The backward of the model's
// last unit directly follows its forward, so recomputing it saves nothing. The settings in which segments keep their
// smaller set of activations (core::light_keeping) come before those in which they keep all.
std::vector<setting> recompute_settings(const compile_request& r) {
  std::vector<uint32_t> order = computing_units(*r.table);
  const auto worth = [&](uint32_t u) {
    double flops = 0, bytes = 0;
    for (const auto& s : r.table->units[u].segments) {
      flops += s.forward_flops;
      bytes += static_cast<double>(s.saved_bytes);
    }
    return flops / std::max(1.0, bytes);
  };
  std::ranges::reverse(order);
  std::ranges::stable_sort(order, std::ranges::greater(), worth);
  std::ranges::stable_partition(order, [&](uint32_t u) { return u + 1 == r.table->units.size(); });
  const auto light = r.base.repeat_exchanges ? std::vector<segment_place>() : light_segments(*r.table);
  const segment_place all =
      light.empty() ? segment_place() : segment_place{light.front().unit, light.front().segment + 1};
  std::vector<setting> out;
  for (size_t kept = 0; kept < order.size(); ++kept) {
    std::vector<uint32_t> units(order.begin(), order.begin() + static_cast<long>(kept));
    std::ranges::sort(units);
    out.emplace_back([units, all](plan_options& o) {
      o.recompute = true;
      o.kept_units = units;
      o.light_before = all;
    });
  }
  if (r.base.tiers.activations != tier::device || r.base.repeat_exchanges) return out;
  std::vector<segment_place> ends{all};
  ends.insert(ends.end(), light.begin(), light.end());
  if (!light.empty()) ends.back() = {};  // no segment keeps only its smaller set of activations
  for (size_t k = 0; k < ends.size(); ++k)
    out.emplace_back([before = ends[k]](plan_options& o) {
      o.recompute = false;
      o.kept_units.clear();
      o.light_before = before;
    });
  return out;
}

// Returns the settings of `selective_gather`. The smallest units remain gathered for the whole step first: all units
// have equally many gathers, and the gathers of small units take the most time per byte of parameters, because they
// consist mostly of latency.
std::vector<setting> selective_gather_settings(const compile_request& r) {
  if (r.base.stage != 3 || r.base.shards() == 1) return {};
  std::vector<uint32_t> order(r.table->units.size());
  std::iota(order.begin(), order.end(), 0U);
  std::erase_if(order, [&](uint32_t u) { return elements_of(*r.table, r.table->units[u]) == 0; });
  std::ranges::stable_sort(order, {}, [&](uint32_t u) { return elements_of(*r.table, r.table->units[u]); });
  std::vector<setting> out;
  for (size_t n = 0; n <= order.size(); ++n) {
    std::vector<uint32_t> units(order.begin(), order.begin() + static_cast<long>(n));
    std::ranges::sort(units);
    out.emplace_back([units](plan_options& o) { o.gathering.resident_units = units; });
  }
  return out;
}

std::vector<setting> prefetch_settings(const compile_request& r) {
  if (r.base.stage != 3 || r.base.shards() == 1) return {};
  const uint64_t unit = elements_of(*r.table, largest_unit(*r.table)), all = r.table->numel();
  std::vector<setting> out;
  const auto add = [&](uint64_t ahead, uint64_t reuse) {
    out.emplace_back([ahead, reuse](plan_options& o) {
      o.gathering.prefetch_bucket = ahead;
      o.gathering.max_live = UINT64_MAX;
      o.gathering.max_reuse_distance = reuse;
      o.gathering.hidden = {};
    });
  };
  add(0, 0);
  // Gathers as late as products hide them by the model, and two, four and eight times as early: the model does not
  // predict how much gathers and products slow each other down. `max_reuse_distance` 1 keeps a unit whose two uses
  // follow each other.
  for (const double margin : {1, 2, 4, 8})
    out.emplace_back([c = r.costs, margin](plan_options& o) {
      const double flops = margin * c.flops_per_s;
      o.gathering.hidden = {flops * hidden_latencies * c.latency_s, flops / c.copy_bytes_per_s};
      o.gathering.prefetch_bucket = 0;
      o.gathering.max_live = UINT64_MAX;
      o.gathering.max_reuse_distance = 1;
    });
  for (uint64_t ahead = unit; ahead < all; ahead *= 2) add(ahead, 0);
  add(all, 0);
  add(unit, 2 * unit);
  add(all, 2 * all);
  return out;
}

std::vector<setting> fuse_buckets_settings(const compile_request& r) {
  // The order of states in a swap file follows the buckets, so buckets must not change if states are swapped.
  if (r.base.data() == 1 || r.base.tiers.swaps()) return {};
  std::vector<setting> out;
  const uint64_t all = r.table->numel();
  for (uint64_t n = std::max(all / fewest_buckets, fit_piece_min); n < 2 * all; n *= 2)
    out.emplace_back([n](plan_options& o) {
      o.gradients.reduce_bucket = n;
      o.gradients.buckets_follow_units = false;
    });
  return out;
}

std::vector<setting> overlap_exchanges_settings(const compile_request& r) {
  if (r.base.mesh.degree(core::axis::tensor) == 1) return {};
  return {[](plan_options& o) { o.overlap_exchanges = false; }, [](plan_options& o) { o.overlap_exchanges = true; }};
}

std::vector<setting> split_exchanges_settings(const compile_request& r) {
  uint64_t rows = 0;  // largest number of rows of a product that may be split
  for (const auto& u : r.table->units)
    for (const auto& s : u.segments) rows = std::max(rows, s.output.rows);
  if (r.base.mesh.degree(core::axis::tensor) == 1 || rows == 0) return {};
  std::vector<setting> out;
  for (uint32_t n = 1; n <= std::min<uint64_t>(most_exchange_pieces, rows); n *= 2)
    out.emplace_back([n](plan_options& o) { o.exchange_pieces = n; });
  return out;
}

// Returns the settings of `offload_activation`. The inputs of the first units are offloaded first, because the time
// from their forward to their backward is the longest.
std::vector<setting> offload_activation_settings(const compile_request& r) {
  if (r.base.tiers.activations == tier::device) return {};
  std::vector<setting> out;
  for (auto n = static_cast<uint32_t>(r.table->units.size()); n-- > 0;)
    out.emplace_back([n](plan_options& o) { o.tiers.activation_units = n; });
  return out;
}

// Returns the settings of `offload_optimizer`: as many of the last sub-groups are offloaded as necessary.
std::vector<setting> offload_optimizer_settings(const compile_request& r) {
  if (!r.places_states || !r.limits.any() || r.base.tiers.optimizer != tier::nvme) return {};
  if (r.base.stage != 3 || r.base.tiers.ratio < 1) return {};
  std::vector<setting> out;
  for (uint32_t kept = 0; kept <= offload_parts; ++kept)
    out.emplace_back([kept](plan_options& o) { o.tiers.ratio = 1 - static_cast<double>(kept) / offload_parts; });
  return out;
}

std::string number(uint64_t n) { return n >= UINT64_MAX / 2 ? "all" : fmt::to_string(n); }

constexpr rule rules[] = {
    {{"prefetch", "parameters are gathered so far ahead that products hide it"},
     prefetch_settings,
     [](const plan_options& from, plan_options& to) {
       to.gathering.prefetch_bucket = from.gathering.prefetch_bucket;
       to.gathering.max_live = from.gathering.max_live;
       to.gathering.max_reuse_distance = from.gathering.max_reuse_distance;
       to.gathering.hidden = from.gathering.hidden;
     },
     [](const plan_options&, const plan_options& to) {
       if (to.gathering.hidden.on()) return std::string("each as late as products hide it");
       return number(to.gathering.prefetch_bucket) + " elements ahead" +
              (to.gathering.max_reuse_distance > 0 ? ", kept for a use soon" : "");
     }},
    {{"selective_gather", "small units stay whole for the step, gathered once"},
     selective_gather_settings,
     [](const plan_options& from, plan_options& to) { to.gathering.resident_units = from.gathering.resident_units; },
     [](const plan_options&, const plan_options& to) {
       return units_text(to.gathering.resident_units.size()) + " stay whole";
     }},
    {{"recompute", "units compute their activations again, as many as memory asks for"},
     recompute_settings,
     [](const plan_options& from, plan_options& to) {
       to.recompute = from.recompute;
       to.kept_units = from.kept_units;
       to.light_before = from.light_before;
     },
     [](const plan_options&, const plan_options& to) {
       const bool some = to.light_before != segment_place();
       const std::string less =
           fmt::format("keep less before segment {} of unit {}", to.light_before.segment, to.light_before.unit);
       if (!to.recompute) return some ? "units " + less : std::string("none does");
       return "all but " + units_text(to.kept_units.size()) + " recompute" + (some ? "; these " + less : "");
     }},
    {{"offload_activation", "inputs of the first units wait outside of memory"},
     offload_activation_settings,
     [](const plan_options& from, plan_options& to) { to.tiers.activation_units = from.tiers.activation_units; },
     [](const plan_options&, const plan_options& to) {
       return fmt::format("up to unit {}", to.tiers.activation_units);
     }},
    {{"offload_optimizer", "optimizer states in files only as far as memory asks for it"},
     offload_optimizer_settings,
     [](const plan_options& from, plan_options& to) { to.tiers.ratio = from.tiers.ratio; },
     [](const plan_options&, const plan_options& to) {
       return fmt::format("{}% of sub-groups stay in memory", std::lround(100 * (1 - to.tiers.ratio)));
     }},
    {{"fuse_buckets", "gradients are reduced in pieces of the best size"},
     fuse_buckets_settings,
     [](const plan_options& from, plan_options& to) {
       to.gradients.reduce_bucket = from.gradients.reduce_bucket;
       to.gradients.buckets_follow_units = from.gradients.buckets_follow_units;
     },
     [](const plan_options&, const plan_options& to) {
       return "buckets of " + number(to.gradients.reduce_bucket) + " elements";
     }},
    {{"overlap_exchanges", "weight parts of backward run beside exchanges of a tensor group"},
     overlap_exchanges_settings,
     [](const plan_options& from, plan_options& to) { to.overlap_exchanges = from.overlap_exchanges; },
     [](const plan_options&, const plan_options& to) {
       return std::string(to.overlap_exchanges ? "beside exchanges" : "behind exchanges");
     }},
    {{"split_exchanges", "sums of a tensor group are exchanged beside the products that feed them", false},
     split_exchanges_settings,
     [](const plan_options& from, plan_options& to) { to.exchange_pieces = from.exchange_pieces; },
     [](const plan_options&, const plan_options& to) {
       return to.exchange_pieces == 1 ? std::string("whole") : fmt::format("in {} pieces", to.exchange_pieces);
     }},
};

constexpr auto shown = [] {
  std::array<option_pass, std::size(rules)> out;
  for (size_t k = 0; k < out.size(); ++k) out[k] = rules[k].pass;
  return out;
}();

class compiler {
 public:
  explicit compiler(const compile_request& request) : request_(request) {}

  core::result<compiled_step> run() {
    TROUPE_TRY(find());
    compiled_step out;
    TROUPE_ASSIGN(auto base, judged(request_.base));
    out.base = out.chosen = std::move(base);
    auto request = fit(request_.base);
    for (const rule* r : rules_) {
      auto settings = r->settings(request_);
      const size_t look = 1 + settings.size() / looks;
      if (!settings.empty()) request.knobs.push_back({std::move(settings), std::max<size_t>(2, look)});
    }
    if (request.knobs.empty()) return out;
    TROUPE_ASSIGN(auto found, choose(request));
    const bool better = found.fits && found.step_s < (1 - worth_it) * out.base.step_s;
    if (!out.base.fits || better) out.chosen = std::move(found);
    for (const rule* r : rules_) {
      TROUPE_ASSIGN(auto gain, gain_of(*r, out));
      out.gains.push_back(std::move(gain));
    }
    return out;
  }

 private:
  core::result<void> find() {
    for (const auto& name : request_.passes)
      if (std::ranges::find(rules, name, [](const rule& r) { return r.pass.name; }) == std::end(rules)) {
        std::string all;
        for (const auto& r : rules) all.append(all.empty() ? "" : ", ").append(r.pass.name);
        return core::fail(core::error_kind::bad_input, "wanted passes among " + all + ", got " + name);
      }
    for (const auto& r : rules)
      if (std::ranges::find(request_.passes, r.pass.name) != request_.passes.end()) rules_.push_back(&r);
    return {};
  }

  [[nodiscard]] fit_request fit(const plan_options& options) const {
    return {.table = request_.table,
            .options = options,
            .open = {},
            .limits = request_.limits,
            .costs = request_.costs,
            .go_on = request_.go_on};
  }
  [[nodiscard]] core::result<fitted> judged(const plan_options& options) const { return choose(fit(options)); }

  [[nodiscard]] core::result<pass_gain> gain_of(const rule& r, const compiled_step& c) const {
    pass_gain out;
    out.pass = r.pass.name;
    plan_options without = c.chosen.options;
    r.take(request_.base, without);
    if (without == c.chosen.options) return out;
    TROUPE_ASSIGN(auto other, judged(without));
    out.change = r.change(request_.base, c.chosen.options);
    out.saved_s = other.step_s - c.chosen.step_s;
    out.saved_bytes = static_cast<int64_t>(other.memory.total()) - static_cast<int64_t>(c.chosen.memory.total());
    return out;
  }

  const compile_request& request_;
  std::vector<const rule*> rules_;
};

}  // namespace

std::span<const option_pass> option_passes() { return shown; }

core::result<compiled_step> compile(const compile_request& request) { return compiler(request).run(); }

}  // namespace troupe::plan
