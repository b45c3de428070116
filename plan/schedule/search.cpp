#include "plan/schedule/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "plan/schedule/improve.hpp"
#include "plan/schedule/list_schedule.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/proof.hpp"
#include "plan/schedule/transfers.hpp"

namespace troupe::plan {

namespace {

constexpr uint64_t tables_played = 1000;  // number of tables that all improvements together may simulate
// Lower bound of the number of actions that improvements may simulate; allows more tables if they are small.
constexpr uint64_t least_actions_played = 100'000;
// Upper bound of the number of actions that improvements may simulate; allows fewer tables if they are large.
constexpr uint64_t most_actions_played = 6'000'000;
constexpr uint64_t policies_actions = 5'000'000;  // largest number of actions that list scheduling simulates
constexpr size_t starts = 3;                      // number of tables that are improved

struct candidate {
  pipeline_table table;
  std::string from;
  double total_s = 0;
  uint64_t peak_bytes = 0;
};

uint64_t peak_of(const table_timing& t) {
  uint64_t out = 0;
  for (const auto& r : t.ranks) out = std::max(out, r.peak_bytes);
  return out;
}

// Returns the table with every backward in its two parts, which improvements can move. Such a table is never slower.
pipeline_table in_parts(const pipeline_table& t) {
  pipeline_table out{t.micro_batches, t.rank_of_stage, {}};
  for (const auto& order : t.orders) {
    auto& parts = out.orders.emplace_back();
    for (const action& a : order)
      for_each_part(a, [&](const action& part) {
        if (part.type != action_type::backward) return parts.push_back(part);
        parts.push_back({action_type::backward_input, part.stage, part.micro});
        parts.push_back({action_type::backward_weight, part.stage, part.micro});
      });
  }
  return out;
}

// A lower bound of the time of every schedule, and the rank that determines it.
struct lower_bound {
  double s = 0;
  uint32_t rank = 0;
};
lower_bound bound_of(const pipeline_problem& p) {
  const auto stages = static_cast<uint32_t>(p.rank_of_stage.size());
  const auto& costs = *p.costs;
  // Seconds of one rank: before its first forward can start; in all its forwards and input parts; in all its weight
  // parts; from the end of its last input part to the end of the first stage's last action.
  struct sums {
    double head = 0, until_inputs = 0, weights = 0, tail = 0;
    bool seen = false;
  };
  std::vector<sums> ranks(p.ranks);
  double up = 0, down = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    const stage_cost& c = costs.stages[s];
    const bool crosses = s > 0 && p.rank_of_stage[s - 1] != p.rank_of_stage[s];
    up += crosses ? costs.transfer_s : 0;
    auto& r = ranks[p.rank_of_stage[s]];
    if (!r.seen)
      r = {up, 0, 0, down + (crosses ? costs.transfer_s : 0) + (s > 0 ? costs.stages[0].backward_weight_s : 0), true};
    r.until_inputs += p.micro_batches * (c.forward_s + c.backward_input_s);
    r.weights += p.micro_batches * c.backward_weight_s;
    up += c.forward_s;
    down += c.backward_input_s + (crosses ? costs.transfer_s : 0);
  }
  lower_bound out;
  for (uint32_t r = 0; r < p.ranks; ++r) {
    const double s = ranks[r].head + ranks[r].until_inputs + std::max(ranks[r].weights, ranks[r].tail);
    if (s > out.s) out = {s, r};
  }
  return out;
}

class searcher {
 public:
  searcher(const search_request& request, stage_placement placement)
      : request_(request),
        chunks_(static_cast<uint32_t>(request.costs.stages.size()) / request.ranks),
        problem_{place_stages(placement, request.ranks, chunks_), request.ranks, request.micro_batches, &request.costs,
                 request.memory_bytes},
        bound_(bound_of(problem_)) {}

  std::optional<found_schedule> run() {
    add_named();
    add_played();
    improve_best();
    if (best_.empty()) return {};
    found_schedule out{std::move(best_[0].table), best_[0].from, best_[0].total_s, best_[0].peak_bytes, bound_.s, 0};
    join_parts(out);
    const auto cost = [&](uint32_t s) {
      const auto& c = request_.costs.stages[s];
      return c.forward_s + c.backward_input_s + c.backward_weight_s;
    };
    out.bound_stage = bound_.rank;
    for (uint32_t s = 0; s < out.table.stages(); ++s)
      if (out.table.rank_of_stage[s] == bound_.rank && cost(s) > cost(out.bound_stage)) out.bound_stage = s;
    return out;
  }

 private:
  // Keeps the few fastest tables. Of equally fast ones it keeps the one that needs least memory, and of these the
  // first.
  void add(pipeline_table table, const std::string& from) {
    const auto timing = play_table(table, request_.costs);
    candidate c{std::move(table), from, timing.total_s, peak_of(timing)};
    if (c.peak_bytes > request_.memory_bytes || find_reordering(c.table)) return;
    const auto at = std::ranges::lower_bound(best_, c.total_s, {}, &candidate::total_s);
    if (at != best_.end() && at->total_s == c.total_s) {
      if (c.peak_bytes < at->peak_bytes) *at = std::move(c);
      return;
    }
    best_.insert(at, std::move(c));
    if (best_.size() > starts) best_.pop_back();
  }

  void add_named() {
    const pipeline_shape shape{request_.ranks, chunks_, request_.micro_batches, 0};
    for (const auto& s : named_schedules()) {
      auto table = make_table(s, shape);
      if (!table || !trains(*table) || table->rank_of_stage != problem_.rank_of_stage) continue;
      add(std::move(*table), std::string(s.name));
    }
  }
  void add_played() {
    const uint64_t actions = 3 * uint64_t{request_.micro_batches} * request_.costs.stages.size();
    uint64_t left = policies_actions / actions;
    for (const auto& policy : list_policies(chunks_ > 1)) {
      if (left-- == 0) return;
      if (auto table = list_schedule(problem_, policy)) add(std::move(*table), "played");
    }
  }

  void improve_best() {
    if (best_.empty() || best_[0].total_s <= bound_.s) return;
    const uint64_t actions = 3 * uint64_t{request_.micro_batches} * request_.costs.stages.size();
    const uint64_t each = std::clamp(tables_played * actions, least_actions_played, most_actions_played) / starts;
    for (const auto& start : std::vector(best_))
      add(improve(problem_, in_parts(start.table), {each, bound_.s}), start.from);
  }

  // Joins the two parts of a backward that are neighbours, if that costs no time. A joined backward has one
  // recomputation.
  void join_parts(found_schedule& out) const {
    auto whole = with_whole_backwards(out.table);
    const auto timing = play_table(whole, request_.costs);
    if (timing.total_s > out.total_s || peak_of(timing) > out.peak_bytes) return;
    out.table = std::move(whole);
    out.peak_bytes = peak_of(timing);
  }

  const search_request& request_;
  uint32_t chunks_;
  pipeline_problem problem_;
  lower_bound bound_;
  std::vector<candidate> best_;  // best tables so far, sorted by time
};

core::result<void> check(const search_request& r) {
  const uint64_t stages = r.costs.stages.size();
  if (r.ranks == 0 || r.micro_batches == 0 || stages == 0 || stages % r.ranks != 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("a schedule requires ranks, micro-batches and the same number of stages on each "
                                  "rank, got {} ranks, {} micro-batches and {} stages",
                                  r.ranks, r.micro_batches, stages));
  if (stages > max_stage_micro_batches || r.micro_batches > max_stage_micro_batches / stages)
    return core::fail(core::error_kind::limit, fmt::format("{} stages times {} micro-batches: at most {} are planned; "
                                                           "use fewer stages or micro-batches",
                                                           stages, r.micro_batches, max_stage_micro_batches));
  return {};
}

// Returns the error for too little memory, with the rank that needs most for one micro-batch.
core::error no_room(const search_request& r) {
  const auto placement = r.placement.value_or(stage_placement::round_robin);
  const auto chunks = static_cast<uint32_t>(r.costs.stages.size()) / r.ranks;
  uint64_t most = 0;
  uint32_t rank = 0;
  for (uint32_t q = 0; q < r.ranks; ++q) {
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < chunks; ++c) bytes += r.costs.stages[stage_of(placement, r.ranks, q, c)].activation_bytes;
    if (bytes <= most) continue;
    most = bytes;
    rank = q;
  }
  return {core::error_kind::no_space,
          fmt::format(
              "every schedule exceeds the limit of {} of activations per rank: rank {} keeps {} for one micro-batch",
              core::human_bytes(r.memory_bytes), rank, core::human_bytes(most))};
}

}  // namespace

core::result<found_schedule> search_schedule(const search_request& request) {
  TROUPE_TRY(check(request));
  const bool several = request.costs.stages.size() > request.ranks;
  std::optional<found_schedule> best;
  for (const auto placement : {stage_placement::round_robin, stage_placement::folded}) {
    if (request.placement ? *request.placement != placement : placement == stage_placement::folded && !several)
      continue;
    auto found = searcher(request, placement).run();
    if (found && (!best || found->total_s < best->total_s)) best = std::move(found);
  }
  if (!best) return core::fail(no_room(request));
  return std::move(*best);
}

}  // namespace troupe::plan
