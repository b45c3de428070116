#include "plan/schedule/proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/schedule/progress.hpp"

namespace troupe::plan {

namespace {

using type = action_type;

// Checks each action by itself, and counts how often it occurs: [type][stage * micro_batches + micro].
class roll_call {
 public:
  explicit roll_call(const pipeline_table& t) : t_(t), trains_(trains(t)) {
    const size_t n = size_t{t.stages()} * t.micro_batches;
    for (auto& seen : seen_) seen.assign(n, 0);
  }

  std::optional<table_fault> find() {
    for (uint32_t r = 0; r < t_.ranks(); ++r)
      for (const action& a : t_.orders[r]) {
        std::string why;
        for_each_part(a, [&](const action& part) {
          if (why.empty()) why = count(part, r);
        });
        if (!why.empty()) return table_fault{r, why};
      }
    for (uint32_t s = 0; s < t_.stages(); ++s)
      for (uint32_t i = 0; i < t_.micro_batches; ++i)
        if (auto why = missing(s, i); !why.empty()) return table_fault{t_.rank_of_stage[s], why};
    return transfers_ ? check_transfers() : std::nullopt;
  }

 private:
  [[nodiscard]] uint8_t& seen(type k, uint32_t stage, uint32_t micro) {
    return seen_[static_cast<size_t>(k)][size_t{stage} * t_.micro_batches + micro];
  }
  std::string count(const action& a, uint32_t rank) {
    if (a.stage >= t_.stages()) return fmt::format("{}: unknown stage, there are {}", name_of(a), t_.stages());
    if (t_.rank_of_stage[a.stage] != rank)
      return fmt::format("{}: stage {} is on rank {} too", name_of(a), a.stage, t_.rank_of_stage[a.stage]);
    if (!has_micro(a.type)) return {};
    if (a.micro >= t_.micro_batches)
      return fmt::format("{}: unknown micro-batch, there are {}", name_of(a), t_.micro_batches);
    if (seen(a.type, a.stage, a.micro)++ > 0) return name_of(a) + " occurs twice";
    transfers_ = transfers_ || moves(a.type);
    return {};
  }
  std::string missing(uint32_t s, uint32_t i) {
    const auto lacks = [&](type k) { return name_of(action{k, s, i}) + " is missing"; };
    if (seen(type::forward, s, i) == 0) return lacks(type::forward);
    if (!trains_) return {};
    const bool whole = seen(type::backward, s, i) > 0, input = seen(type::backward_input, s, i) > 0;
    const bool weight = seen(type::backward_weight, s, i) > 0;
    if (whole && (input || weight))
      return name_of(action{type::backward, s, i}) + " repeats the work of " +
             name_of(action{input ? type::backward_input : type::backward_weight, s, i}) + " on the same micro-batch";
    if (whole || (input && weight)) return {};
    return lacks(input ? type::backward_weight : weight ? type::backward_input : type::backward);
  }
  // Checks that there are transfers between each two neighbouring stages on different ranks, and no others.
  std::optional<table_fault> check_transfers() {
    for (uint32_t s = 0; s < t_.stages(); ++s)
      for (uint32_t i = 0; i < t_.micro_batches; ++i)
        for (const type k : {type::send_forward, type::recv_forward, type::send_backward, type::recv_backward}) {
          const bool up = k == type::send_forward || k == type::recv_backward;  // the partner is the next stage
          const bool wanted = (trains_ || k <= type::recv_forward) && (up ? s + 1 < t_.stages() : s > 0) &&
                              t_.rank_of_stage[up ? s + 1 : s - 1] != t_.rank_of_stage[s];
          if (wanted == (seen(k, s, i) > 0)) continue;
          return table_fault{t_.rank_of_stage[s],
                             name_of(action{k, s, i}) + (wanted ? " is missing" : " has no partner on another rank")};
        }
    return {};
  }

  const pipeline_table& t_;
  bool trains_ = false, transfers_ = false;
  std::array<std::vector<uint8_t>, num_action_types> seen_;
};

// Returns the action that computes the gradient of the input that `wanted`, a whole backward, would compute: `wanted`
// (B) itself, or the input part (I) if the table splits this backward.
action as_it_stands(const pipeline_table& t, action wanted) {
  if (wanted.type != type::backward) return wanted;
  const action split{type::backward_input, wanted.stage, wanted.micro};
  return std::ranges::count(t.orders[t.rank_of_stage[wanted.stage]], split) > 0 ? split : wanted;
}

// Executes the table symbolically. Ranks that cannot proceed at the end wait for each other in a cycle.
std::optional<table_fault> find_deadlock(const pipeline_table& t) {
  progress p(t);
  while (p.sweep([](uint32_t, const action&) {})) {
  }
  if (p.done()) return {};
  // follows the waits from a rank that cannot proceed, until a rank repeats
  std::vector<bool> visited(t.ranks(), false);
  uint32_t r = 0;
  while (p.ended(r)) ++r;
  while (!visited[r]) {
    visited[r] = true;
    r = t.rank_of_stage[p.awaited(r).stage];
  }
  const uint32_t first = r;
  std::string text = "deadlock: " + name_of(p.head(first)) + " waits for ";
  while (true) {
    const action wanted = as_it_stands(t, p.awaited(r));
    r = t.rank_of_stage[wanted.stage];
    text += fmt::format("{} of rank {} after {}", name_of(wanted), r, name_of(p.head(r)));
    if (r == first) return table_fault{first, text};
    text += ", which waits for ";
  }
}

// Checks the actions UNSHARD, RESHARD and REDUCE_GRAD, which PyTorch's tables may contain.
std::string check_state(const pipeline_table& t, const std::vector<action>& order) {
  std::vector<uint8_t> sharded(t.stages(), 0);  // [stage]: 1 if the order has an UNSHARD of it
  for (const action& a : order)
    if (a.type == type::unshard) sharded[a.stage] = 1;
  std::vector<uint8_t> resident(t.stages(), 0), reduced(t.stages(), 0);
  const auto wrong = [&](const action& a) -> std::string {
    if (a.type == type::unshard && resident[a.stage]++ > 0) return " gathers a stage that is gathered already";
    if (a.type == type::reshard && resident[a.stage]-- == 0) return " releases a stage that is not gathered";
    if (a.type == type::reduce_gradient && reduced[a.stage]++ > 0) return " occurs twice";
    if (!computes(a.type)) return {};
    if (sharded[a.stage] > resident[a.stage]) return " uses a stage that is not gathered";
    if (a.type != type::forward && a.type != type::backward_input && reduced[a.stage] > 0)
      return " comes after REDUCE_GRAD of its stage";
    return {};
  };
  std::string out;
  for (const action& a : order)
    for_each_part(a, [&](const action& part) {
      if (!out.empty()) return;
      if (const auto why = wrong(part); !why.empty()) out = name_of(part) + why;
    });
  return out;
}

}  // namespace

std::optional<table_fault> find_fault(const pipeline_table& t) {
  if (auto fault = roll_call(t).find()) return fault;
  for (uint32_t r = 0; r < t.ranks(); ++r)
    if (auto why = check_state(t, t.orders[r]); !why.empty()) return table_fault{r, why};
  return find_deadlock(t);
}

std::optional<table_fault> find_reordering(const pipeline_table& t) {
  std::array<std::vector<uint32_t>, 3> next;  // [F; B or I; B or W][stage]: micro-batch that must be next in order
  for (auto& n : next) n.assign(t.stages(), 0);
  for (uint32_t r = 0; r < t.ranks(); ++r)
    for (const action& a : t.orders[r]) {
      std::string why;
      for_each_part(a, [&](const action& part) {
        const bool takes[] = {part.type == type::forward,
                              part.type == type::backward || part.type == type::backward_input,
                              part.type == type::backward || part.type == type::backward_weight};
        for (size_t k = 0; k < next.size(); ++k)
          if (takes[k] && next[k][part.stage]++ != part.micro && why.empty())
            why = name_of(part) + " leaves the order of micro-batches";
      });
      if (!why.empty()) return table_fault{r, why};
    }
  return {};
}

std::optional<table_fault> find_reordering(const pipeline_table& t, const std::vector<uint32_t>& stages, bool of_step) {
  const uint32_t rank = t.rank_of_stage[stages.front()];
  std::vector<size_t> written(t.micro_batches, 0);  // [micro]: number of stages that have written gradients so far
  uint32_t due = 0;
  std::optional<table_fault> out;
  for (const action& a : t.orders[rank])
    for_each_part(a, [&](const action& part) {
      const auto at = std::ranges::find(stages, part.stage);
      if (out || at == stages.end() || (part.type != type::backward && part.type != type::backward_weight)) return;
      const size_t before = written[part.micro]++;
      if (stages[stages.size() - 1 - before] != part.stage || (of_step && part.micro != due))
        out = table_fault{rank, name_of(part) + " leaves the order of micro-batches and stages"};
      if (before + 1 == stages.size()) ++due;
    });
  return out;
}

}  // namespace troupe::plan
