// Owns the time of updates that do not wait for the vote. A sub-group is updated while backward continues, once its
// gradients are reduced and its parameters have no readers left; a skipped step undoes the update, and a step that
// clips undoes it and updates again. Leaves the choice of sub-groups and the places of undo copies to
// layout/update_memory.hpp. See docs/numerics.md, "Speculation".
#include "plan/passes/passes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/kinds.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

/// Lists for each parameter the units that read it.
class parameter_readers {
 public:
  explicit parameter_readers(const core::model_table& table) : begin_(table.parameters.size() + 1, 0) {
    for (const auto& unit : table.units)
      for (const uint32_t q : unit.parameters) ++begin_[q];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    units_.resize(begin_.back());
    for (auto u = static_cast<uint32_t>(table.units.size()); u-- > 0;)
      for (const uint32_t q : table.units[u].parameters) units_[--begin_[q]] = u;
  }
  void add_to(std::vector<uint32_t>& out, uint32_t parameter) const {
    out.insert(out.end(), units_.begin() + begin_[parameter], units_.begin() + begin_[parameter + 1]);
  }

 private:
  std::vector<uint32_t> begin_, units_;  // `begin_`: [parameter], index in units_ of the parameter's first reader
};

class speculation {
 public:
  speculation(draft& d, const rank_plan& p)
      : d_(d),
        p_(p),
        seen_(d.begin),
        readers_(p_.sub_groups.size()),
        update_(p_.sub_groups.size(), none),
        whole_(p_.layout->buckets.size(), none),
        last_use_(p_.layout->gather_sets.size(), none),
        gathers_(p_.layout->gather_sets.size()),
        ends_(p_.table().units.size(), 0) {
    for (uint32_t i = 0; i < d.uses.size(); ++i) ends_[d.uses[i].unit] = i;
    find_readers();
    for (handle x = d_.vote; x != none; x = d_.next(x))
      if (!d_.is_mark(x) && d_.at(x).kind == kind::update) update_[d_.at(x).subject] = x;
  }

  std::string run() {
    const auto groups = waiting_.size();
    for (uint32_t i = 0; i < d_.uses.size() && !waiting_.empty(); ++i) {
      if (ends_[d_.uses[i].unit] != i) continue;
      look_until(d_.marks[i].ends);
      after_use(i);
    }
    return fmt::format("updates that need nothing of the vote: {}", groups - waiting_.size());
  }

 private:
  void find_readers() {
    const parameter_readers units(p_.table());
    for (uint32_t g = 0; g < p_.sub_groups.size(); ++g) {
      if (!p_.speculates(g)) continue;
      waiting_.push_back(g);
      auto& readers = readers_[g];
      bool persistent = false;
      for (const auto& piece : p_.sub_groups[g].pieces) {
        units.add_to(readers, piece.parameter);
        persistent = persistent || p_.layout->persistent[piece.parameter];
      }
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      if (persistent) readers.push_back(p_.layout->persistent_set(p_.rank));
    }
  }

  void look_until(handle end) {
    for (; seen_ != end; seen_ = d_.next(seen_)) {
      if (d_.is_mark(seen_)) continue;
      const auto& x = d_.at(seen_);
      if (x.kind == kind::norm) whole_[x.subject] = seen_;
      if (x.kind == kind::tied_sum)
        for (const uint32_t q : p_.layout->ties[x.subject].parameters) whole_[p_.layout->bucket_of[q]] = seen_;
      if (x.kind == kind::gather) gathers_[x.subject].push_back(seen_);
      if (computes(x) && reads_parameters(x.use)) last_use_[x.subject] = seen_;
    }
  }

  [[nodiscard]] bool reduced(uint32_t group) const {
    const auto& pieces = p_.sub_groups[group].pieces;
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const owned_piece& x) { return whole_[p_.layout->bucket_of[x.parameter]] != none; });
  }

  // True if the states of the sub-group are read into a window from the swap file. The windows are filled in the order
  // of the updates, so an update with a window must not overtake another one.
  [[nodiscard]] bool has_window(uint32_t group) const { return !p_.blocks.empty() && p_.blocks[group].swapped != 0; }

  // True if no use after use number `use` reads the parameters of the sub-group.
  [[nodiscard]] bool read(uint32_t group, uint32_t use) const {
    return std::ranges::all_of(readers_[group], [&](uint32_t x) { return x >= ends_.size() || ends_[x] <= use; });
  }

  // Moves the updates whose gradients are reduced and whose parameters no use after `use`, a unit's last use, reads.
  void after_use(uint32_t use) {
    for (size_t i = 0; i < waiting_.size();) {
      const uint32_t g = waiting_[i];
      if (!read(g, use) || !reduced(g)) {
        if (has_window(g)) return;
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      move(g, d_.marks[use].ends);
    }
  }

  // Moves the update of sub-group `g` directly before `end`, a position before the vote, and makes it wait for its
  // gradients and for the readers of its parameters. At stage 3 computation reads gathered copies, so the readers of
  // the slices are the gathers.
  void move(uint32_t g, handle end) {
    const handle x = update_[g];
    d_.move_before(x, end);
    d_.at(x).guard = guard::always;
    d_.depend_on_nothing(x);
    for (const auto& piece : p_.sub_groups[g].pieces) {
      d_.at(x).moved_bytes += undo_bytes(p_, g, piece);
      d_.depend(x, whole_[p_.layout->bucket_of[piece.parameter]]);
    }
    for (const uint32_t reader : readers_[g]) {
      if (!p_.layout->gathers()) d_.depend(x, last_use_[reader]);
      for (const handle gather : gathers_[reader]) d_.depend(x, gather);
    }
  }

  draft& d_;
  const rank_plan& p_;
  handle seen_;                                 // handle before which all instructions have been visited
  std::vector<std::vector<uint32_t>> readers_;  // [sub-group]: units that read its parameters, and the persistent set
  std::vector<uint32_t> waiting_;               // sub-groups whose updates are not moved yet
  std::vector<handle> update_;                  // [sub-group]: update of the sub-group
  // `whole_`: [bucket], the last norm or sum so far that reads the bucket's complete gradients. `last_use_`: [unit],
  // the last instruction so far that reads the unit's parameters.
  std::vector<handle> whole_, last_use_;
  std::vector<std::vector<handle>> gathers_;  // [gather set]: gathers of the set so far
  std::vector<uint32_t> ends_;  // [unit]: last use of the unit; 0, the first use, for units of other ranks
};

/// Adds the updates that a clipped step does again, after `last`, the last instruction of `undo` [sub-group]. The
/// redos have the order of updates after a vote, because the parameters of the first updates are published first.
void add_redo(draft& d, const rank_plan& p, const std::vector<handle>& undo, handle last) {
  std::vector<handle> redo(undo.size(), none);
  for (uint32_t g = 0; g < undo.size(); ++g) {
    if (undo[g] == none) continue;
    last = redo[g] = d.insert_after(last, kind::redo, g, p.options().accumulation - 1);
    d.at(last).guard = guard::clipped;
    d.at(last).moved_bytes = updated_bytes(*p.layout, p.sub_groups[g]);
    d.depend(last, undo[g]);
    read_gradients(d, p, g, last);
  }
  std::vector<handle> waits;
  for (handle x = d.vote; x != none; x = d.next(x)) {
    if (d.is_mark(x) || d.at(x).kind != kind::publish) continue;
    waits.clear();
    d.for_each_before(x, [&](handle on) {
      if (d.at(on).kind == kind::update) waits.push_back(redo[d.at(on).subject]);
    });
    for (const handle on : waits) d.depend(x, on);
  }
}

bool speculates(const rank_plan& p) {
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g)
    if (p.speculates(g)) return true;
  return false;
}

}  // namespace

std::string speculate(draft& d, const rank_plan& p) { return speculates(p) ? speculation(d, p).run() : ""; }

std::string add_undo(draft& d, const rank_plan& p) {
  if (!speculates(p)) return {};
  const bool may_clip = p.options().updates.may_clip;
  std::vector<handle> undo(p.sub_groups.size(), none);
  handle last = none;
  for (handle x = d.begin; x != d.vote; x = d.next(x)) {
    if (d.is_mark(x) || d.at(x).kind != kind::update) continue;
    const uint32_t g = d.at(x).subject;
    last = undo[g] = d.insert_after(last == none ? d.vote : last, kind::undo, g, p.options().accumulation - 1);
    d.at(last).guard = may_clip ? guard::undone : guard::skipped;
    for (const auto& piece : p.sub_groups[g].pieces) d.at(last).moved_bytes += 2 * undo_bytes(p, g, piece);
    d.depend(last, d.vote);
    d.depend(last, x);
  }
  if (last == none) return {};
  // The last `undo` ends the run with an error if a gradient is not finite. No `publish` starts before it has ended, so
  // that other ranks receive no weights of such a step.
  for (handle x = d.vote; x != none; x = d.next(x))
    if (!d.is_mark(x) && d.at(x).kind == kind::publish) d.depend(x, last);
  if (!may_clip) return "a skipped step undoes the updates before its vote";
  add_redo(d, p, undo, last);
  return "a skipped step undoes the updates before its vote, one that clips also does them again";
}

}  // namespace troupe::plan
