// A pass is a function that changes when or whether the instructions of a draft happen, never what is computed, with a
// contract that determines its place among the others. Owns the facts that contracts name, the order that follows from
// them, and running; our passes are one file each, listed in all.cpp. A program that embeds Troupe brings its own.
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

/// A property that a draft has between two passes.
enum class fact : uint8_t {
  written_plainly,      ///< every use has its own gather and release around it
  updates_follow_vote,  ///< every update stands behind the vote and waits for nothing else
  gathers_placed,       ///< gathers and releases have their final places
  updates_placed,       ///< each update is before or behind the vote for good
  gradients_placed,     ///< reduced gradients have their windows and files, if any
};
inline constexpr uint32_t num_facts = 5;
std::string_view name_of(fact x);  ///< as errors print it

struct facts {  ///< a set of them
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
/// The facts that hold after `write`.
inline constexpr facts written_facts = {fact::written_plainly, fact::updates_follow_vote};
/// For passes after which every fact still holds.
inline constexpr facts all_facts = {fact::written_plainly, fact::updates_follow_vote, fact::gathers_placed,
                                    fact::updates_placed, fact::gradients_placed};

/// A pass runs behind all that provide what it needs, and behind all that need what it does not keep.
struct contract {
  facts needs, provides, keeps;
  /// Names of passes that it may not share a plan with; one of the two says it.
  std::vector<std::string> conflicts = {};
};

/// A change of drafts, with its name and its contract.
struct pass {
  std::string name;
  contract promise;
  /// Changes the draft of `p`; depends on these two alone. Returns the reason in a few words; empty if it had none to
  /// change anything. What a host's throws refuses the plan.
  std::function<std::string(draft& d, const rank_plan& p)> run;
};

/// A host's pass may look at instructions, add, move and remove them so often for each that the draft had, and then is
/// taken for one that does not end.
inline constexpr uint64_t pass_looks_max = 10'000;

/// The changes of a draft in one phase. In instructions; edges and windows are not counted.
struct account {
  std::string name;
  draft_changes changes;
  std::string why;
};

/// All passes of a step: the one table. Its order decides if contracts leave a choice.
std::span<const pass> all_passes();

using pass_order = std::vector<const pass*>;
/// The passes in an order in which every contract is kept. Fails if two have one name or conflict, if one needs a fact
/// that none provides, or if some need to run behind each other.
core::result<pass_order> in_order(const pass_order& passes);
/// Ours, and those that a program adds to the plans of these options.
pass_order passes_of(const plan_options& options);

/// Runs them; one account each. Fails where one throws, or does not end within `pass_looks_max`.
core::result<std::vector<account>> run_passes(draft& d, const rank_plan& p, const pass_order& passes);

}  // namespace troupe::plan
