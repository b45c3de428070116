// Tests a pass that drops, moves or adds any instruction, or drops dependencies: either the checker refuses the
// resulting plan and names the instruction, or the production actors compute the same results from the same bytes as
// with the unchanged plan.
#include <map>
#include <random>

#include "plan/check/check.hpp"
#include "plan/generate/explain.hpp"
#include "plan/kinds.hpp"
#include "tests/check_ok.hpp"
#include "tests/sim/world.hpp"

BOOST_AUTO_TEST_SUITE(random_passes)

using namespace troupe;
using namespace troupe::actors;
using plan::draft;
using plan::handle;
using troupe::tests::check_ok;

namespace {

enum class change : uint8_t { drop, move, add, hurry };
constexpr const char* change_names[] = {"drop", "move", "add", "hurry"};

/// The change that the pass makes next. It is global, because a pass is a function that receives only the draft and the
/// plan.
struct {
  uint64_t seed = 0;
  change what = change::drop;
  uint32_t only_on = plan::none;  ///< rank whose plan is changed; none: the plans of all ranks are changed alike
  plan::kind kind = plan::kind::load;
  bool done = false;
} next;

std::vector<handle> instructions_of(const draft& d) {
  std::vector<handle> out;
  for (handle x = d.first(); x != plan::none; x = d.next(x))
    if (!d.is_mark(x)) out.push_back(x);
  return out;
}

void drop(draft& d, handle x, std::mt19937_64& random) {
  std::vector<handle> before{plan::none};
  d.for_each_before(x, [&](handle on) { before.push_back(on); });
  d.remove(x, before[random() % before.size()]);
}

// Moves an instruction by up to four positions or to any position. Instructions that depend on it still do.
void move(draft& d, const std::vector<handle>& all, size_t from, std::mt19937_64& random) {
  const size_t reach = random() % 2 == 0 ? 4 : all.size();
  const size_t first = from - std::min(from, reach), last = std::min(all.size() - 1, from + reach);
  const size_t to = first + random() % (last - first + 1);
  if (to == from) return;
  to < from ? d.move_before(all[from], all[to]) : d.move_after(all[from], all[to]);
  if (random() % 4 == 0) d.depend_on_nothing(all[from]);
}

// Removes one dependency of the instruction, or all of them.
void hurry(draft& d, handle x, std::mt19937_64& random) {
  std::vector<handle> before;
  d.for_each_before(x, [&](handle on) { before.push_back(on); });
  d.depend_on_nothing(x);
  if (before.empty() || random() % 2 == 0) return;
  before.erase(before.begin() + static_cast<long>(random() % before.size()));
  for (const handle on : before) d.depend(x, on);
}

/// Returns the number of possible subjects of an instruction of kind `k`, or 0 if its subject cannot be replaced.
size_t num_subjects(const plan::rank_plan& p, plan::kind k) {
  switch (k) {
    case plan::kind::gather:
    case plan::kind::release:
      return p.layout->gather_sets.size();
    case plan::kind::reduce:
    case plan::kind::norm:
      return p.layout->buckets.size();
    case plan::kind::publish:
      return p.layout->publish_sets.size();
    case plan::kind::prepare:
    case plan::kind::update:
      return p.sub_groups.size();
    default:
      return 0;
  }
}

// Adds a copy of an instruction, randomly with another subject or micro-batch, with a separate slot, or without
// dependencies.
void add(draft& d, const std::vector<handle>& all, size_t like, const plan::rank_plan& p, std::mt19937_64& random) {
  plan::operation made = d.at(all[like]);
  const handle x = d.insert_after(all[random() % all.size()], made.kind, made.subject, made.micro);
  if (const size_t n = num_subjects(p, made.kind); n > 0 && random() % 4 == 0)
    made.subject = static_cast<uint32_t>(random() % n);
  if (random() % 4 == 0) made.micro = static_cast<uint32_t>(random() % p.options().accumulation);
  const auto named =
      std::ranges::find_if(plan::all_slots, [&](const auto slot) { return made.slots.*slot != plan::none; });
  if (named != plan::all_slots.end() && random() % 2 == 0) {
    uint32_t& slot = made.slots.*(*named);
    const plan::lifetime like_it = d.buffer(d.standing_buffer(slot));
    slot = d.open(x, like_it.pool, like_it.bytes, like_it.subject);
    d.close(slot, random() % 2 == 0 ? x : all[random() % all.size()]);
  }
  d.at(x) = made;
  if (random() % 2 == 0) d.for_each_before(all[like], [&](handle on) { d.depend(x, on); });
}

std::string change_anything(draft& d, const plan::rank_plan& p) {
  if (next.only_on != plan::none && next.only_on != p.rank) return {};
  std::mt19937_64 random(next.seed);
  auto all = instructions_of(d);
  // The kind is chosen first, because a plan has more instructions of some kinds than of others.
  std::vector<plan::kind> kinds;
  for (const handle x : all)
    if (std::ranges::find(kinds, d.at(x).kind) == kinds.end()) kinds.push_back(d.at(x).kind);
  if (kinds.empty()) return {};
  next.kind = kinds[random() % kinds.size()];
  std::vector<size_t> candidates;
  for (size_t i = 0; i < all.size(); ++i)
    if (d.at(all[i]).kind == next.kind) candidates.push_back(i);
  const size_t chosen = candidates[random() % candidates.size()];
  next.done = true;
  if (next.what == change::drop) drop(d, all[chosen], random);
  if (next.what == change::move) move(d, all, chosen, random);
  if (next.what == change::hurry) hurry(d, all[chosen], random);
  if (next.what == change::add) add(d, all, chosen, p, random);
  return "by chance";
}

const auto random_pass = std::make_shared<const plan::pass>(
    plan::pass{"random",
               {.needs = {plan::fact::gathers_placed, plan::fact::updates_placed, plan::fact::gradients_placed},
                .provides = {},
                .keeps = plan::all_facts},
               change_anything});

shared_rank_plans changed_plans(const std::shared_ptr<const plan::job_layout>& plain) {
  plan::plan_options options = plain->options;
  options.passes = {random_pass};
  const auto layout = *plan::make_layout(plain->table, options);
  shared_rank_plans out;
  for (uint32_t r = 0; r < layout->options.ranks(); ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    auto made = check_ok(plan::explain(layout, r));
    out.push_back(made->plan);
  }
  return out;
}

/// Returns true if the checker's error names an instruction by its number, or describes the missing one.
bool names_an_instruction(const std::string& refusal) {
  for (const char* missing :
       {"(instruction ", "instruction ", "nothing ", "the plan never ends: ", "is not reduced after", "has no norm of",
        "there is no vote", " collectives, rank ", "are gathered "})
    if (refusal.find(missing) != std::string::npos) return true;
  return false;
}

core::result<meaning> run(const shared_rank_plans& plans, uint64_t seed, const meaning& right = {}) {
  sim_options o;
  o.seed = seed;
  o.noise = 3;
  o.link.latency_us = double(10 + seed % 7 * 50);
  auto did = simulate({plans}, {plan::plan_choice::train}, o);
  if (!did) return core::fail(did.error());
  if (const auto& why = did->runs.front().outcome.failure) return core::fail(*why);
  return replay(plans, *did, 0, right);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_random_pass_leaves_is_refused_by_name_or_computes_the_same) {
  const auto [first, last] = actors::seeds(500);
  // {number of refused plans, number of accepted plans}, by change and kind of instruction
  std::map<std::pair<change, plan::kind>, std::pair<uint64_t, uint64_t>> counted;
  uint64_t draws = 0, refused = 0, proved = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    std::mt19937_64 random(seed);
    auto [table, options] = job_of(seed, random);
    options.updates.speculate = options.updates.may_clip = seed % 2 == 1;
    options.tiers.two_places = options.tiers.swaps() && options.updates.speculate;
    const auto layout = plan::layout_of(table, options);
    const auto plain = plan::plans_of(layout);
    std::optional<meaning> right;
    for (const change what : {change::drop, change::move, change::hurry, change::add}) {
      next = {random(), what, random() % 2 == 0 ? plan::none : static_cast<uint32_t>(random() % options.ranks())};
      const auto changed = changed_plans(layout);
      if (!next.done) continue;
      ++draws;
      const auto verdict = plan::check(changed);
      auto& count = counted[{what, next.kind}];
      ++(verdict ? count.second : count.first);
      ++(verdict ? proved : refused);
      BOOST_TEST_CONTEXT("seed " << seed << ", " << change_names[static_cast<size_t>(what)] << " a "
                                 << plan::name_of(next.kind)) {
        if (!verdict) {
          BOOST_TEST(names_an_instruction(verdict.error().text), verdict.error().text);
          continue;
        }
        if (!right) {
          auto healthy = check_ok(run(plain, seed));
          right = std::move(*healthy);
        }
        const auto same = check_ok(run(changed, seed + 1, *right));
        BOOST_TEST(*same == *right);
      }
    }
  }
  for (const auto& [what, n] : counted)
    BOOST_TEST_MESSAGE(change_names[static_cast<size_t>(what.first)] << " " << plan::name_of(what.second) << ": "
                                                                     << n.first << " refused, " << n.second
                                                                     << " proved");
  BOOST_TEST_MESSAGE(draws << " draws, " << refused << " refused, " << proved << " proved");
  if (last - first < 100) return;
  BOOST_TEST(draws >= 1500U);
  BOOST_TEST(proved >= 50U);
}

BOOST_AUTO_TEST_SUITE_END()
