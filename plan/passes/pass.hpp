// Owns the facts that the contracts of passes name, the order of passes that follows from the contracts, and the
// running of passes. A pass is a function that changes when or whether the instructions of a draft happen, never the
// computed values; its contract determines its place among the other passes. Troupe's passes are one file each, listed
// in all.cpp; a program that embeds Troupe may add its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/draft.hpp"

namespace troupe::plan {

/// A property of drafts that a pass may require or establish.
enum class fact : uint8_t {
  written_plainly,      ///< every use has its own gather and release around it
  updates_follow_vote,  ///< every update is after the vote and waits for nothing else
  gathers_placed,       ///< gathers and releases have their final positions
  updates_placed,       ///< each update has its final position, before or after the vote
  gradients_placed,     ///< reduced gradients have their windows and files, if any
};
inline constexpr uint32_t num_facts = 5;
std::string_view name_of(fact x);  ///< Returns the name of a fact as errors print it.

/// A set of properties of a draft.
struct facts {
  uint32_t bits = 0;
  constexpr facts() = default;
  constexpr facts(std::initializer_list<fact> all) {
    for (const fact x : all) bits |= 1U << static_cast<uint32_t>(x);
  }
  [[nodiscard]] constexpr facts operator|(facts other) const { return of(bits | other.bits); }
  [[nodiscard]] constexpr facts without(facts other) const { return of(bits & ~other.bits); }
  [[nodiscard]] constexpr bool overlaps(facts other) const { return (bits & other.bits) != 0; }

 private:
  static constexpr facts of(uint32_t bits) {
    facts out;
    out.bits = bits;
    return out;
  }
};
/// The properties of a draft as plan/write/ writes it, before any pass has run.
inline constexpr facts written_facts = {fact::written_plainly, fact::updates_follow_vote};
/// All properties of drafts; the value of contract::keeps for a pass that preserves every property.
inline constexpr facts all_facts = {fact::written_plainly, fact::updates_follow_vote, fact::gathers_placed,
                                    fact::updates_placed, fact::gradients_placed};

/// The facts that a pass needs, provides and keeps. A pass runs after all passes that provide a fact that it needs, and
/// after all passes that need a fact that it does not keep.
struct contract {
  facts needs, provides, keeps;
  /// Names of passes that may not be used together with this one. It suffices if one of the two passes names the other.
  std::vector<std::string> conflicts = {};
};

/// A pass: a function that changes drafts, with its name and its contract.
struct pass {
  std::string name;
  contract promise;
  /// Changes the draft of `p`, and depends on these two arguments alone. Returns the reason in a few words; empty if
  /// nothing was changed. If a host program's pass throws, the plan is refused.
  std::function<std::string(draft& d, const rank_plan& p)> run;
};

/// Limit of how often a pass may look at instructions, per instruction of the draft. A pass that exceeds the limit
/// counts as one that does not end.
inline constexpr uint64_t pass_looks_max = 10'000;

/// The number of instructions that a phase of plan generation has added, moved and removed. Edges and windows are not
/// counted.
struct account {
  std::string name;
  draft_changes changes;
  std::string why;
};

/// Returns all of Troupe's passes of a step. The order of this table decides if contracts leave a choice.
std::span<const pass> all_passes();

using pass_order = std::vector<const pass*>;
/// Returns the passes in an order in which every contract is kept. Fails if two passes have one name or conflict, if a
/// pass needs a fact that no pass provides, or if some passes would need to run after each other.
core::result<pass_order> in_order(const pass_order& passes);
/// Returns Troupe's passes, then those that the host program adds to the plans of these options.
pass_order passes_of(const plan_options& options);

/// Runs the passes in this order, and returns the changes of each. Fails if a pass throws, or does not end within
/// `pass_looks_max`.
core::result<std::vector<account>> run_passes(draft& d, const rank_plan& p, const pass_order& passes);

}  // namespace troupe::plan
