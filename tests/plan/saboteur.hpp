// Breaks a valid plan at one random position, and decides whether the change is harmless. Combines the changes of the
// other classes that break one plan with changes of updates that run before the gradient norm is known.
#pragma once

#include "tests/plan/layout_saboteur.hpp"

namespace troupe::plan {

/// Combines all changes of one rank's plan.
class saboteur : public layout_saboteur {
 public:
  using layout_saboteur::layout_saboteur;

  bool change_an_undo_copy() {
    std::vector<uint32_t> ahead;
    for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
      if (p_.speculates(g)) ahead.push_back(g);
    if (ahead.empty()) return false;
    auto& offset = p_.undo_offset[ahead[below(ahead.size())]];
    switch (below(3)) {
      case 0:
        offset += 64;
        break;
      case 1:
        offset = no_undo;
        break;
      default:
        p_.undo_bytes += 64;
    }
    return true;
  }
  bool drop_an_undo() { return drop(kind::undo); }
  bool drop_a_redo() { return drop(kind::redo); }
  // Swaps a redo with its undo, as if the plan generator had confused the two.
  bool redo_before_undo() {
    auto* x = any([](const instruction& i) { return i.kind == kind::redo; });
    if (x == nullptr) return false;
    auto* y = any([x](const instruction& i) { return i.kind == kind::undo && i.subject == x->subject; });
    std::swap(static_cast<operation&>(*x), static_cast<operation&>(*y));
    return true;
  }
  // Turns an update into a redo or a redo into an update; the kind decides the clipping factor that scales the
  // gradients.
  bool take_the_factor_of_another_branch() {
    auto* x = any([this](const instruction& i) {
      return i.kind == kind::redo || (i.kind == kind::update && p_.speculates(i.subject));
    });
    if (x == nullptr) return false;
    x->kind = x->kind == kind::redo ? kind::update : kind::redo;
    return true;
  }
  bool act_in_other_branches() {
    auto* x = any([](const instruction& i) { return i.guard != guard::always; });
    if (x == nullptr) return false;
    const auto next = (static_cast<uint32_t>(x->guard) + below(3)) % 4;  // any guard but `always` and its own
    x->guard = static_cast<guard>(next + 1);
    return true;
  }
};

}  // namespace troupe::plan
