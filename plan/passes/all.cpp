// Owns the table of Troupe's passes (functions that change the draft of a step plan), one line for each pass.
#include "plan/passes/pass.hpp"
#include "plan/passes/passes.hpp"
#include "plan/passes/prefetch.hpp"

namespace troupe::plan {
namespace {

const pass passes[] = {
    {"prefetch",
     {.needs = {fact::written_plainly},
      .provides = {fact::gathers_placed},
      .keeps = all_facts.without({fact::written_plainly})},
     keep_resident},
    {"speculation",
     {.needs = {fact::gathers_placed, fact::updates_follow_vote},
      .provides = {fact::updates_placed},
      .keeps = all_facts.without({fact::updates_follow_vote})},
     speculate},
    {"undo", {.needs = {fact::updates_placed}, .provides = {}, .keeps = all_facts}, add_undo},
    {"second copies", {.needs = {fact::gathers_placed}, .provides = {}, .keeps = all_facts}, gather_near},
    {"slices from files", {.needs = {fact::gathers_placed}, .provides = {}, .keeps = all_facts}, read_shards},
    {"gradients in files", {.needs = {}, .provides = {fact::gradients_placed}, .keeps = all_facts}, write_gradients},
    {"states in files",
     {.needs = {fact::updates_placed, fact::gradients_placed}, .provides = {}, .keeps = all_facts},
     swap_states},
    {"activations elsewhere", {.needs = {}, .provides = {}, .keeps = all_facts}, move_activations},
    {"snapshots first", {.needs = {}, .provides = {}, .keeps = all_facts}, wait_for_snapshots},
};

}  // namespace

std::span<const pass> all_passes() { return passes; }

}  // namespace troupe::plan
