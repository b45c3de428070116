// Checks the compute lane: forward, recompute and backward of every segment run once for every micro-batch, each after
// the instruction whose result it reads.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/group_exchange.hpp"
#include "plan/schedule/uses.hpp"
#include "plan/stages.hpp"

namespace troupe::plan::rules {
namespace {

/// Checks the computations of one micro-batch on one rank: their order, and the slots that they read and write.
class micro_batch_order {
 public:
  micro_batch_order(const world& w, uint32_t rank, uint32_t micro)
      : w_(w), rank_(rank), p_(*w.ranks[rank]), l_(*p_.layout), r_(w.rolls[rank]), micro_(micro) {}

  core::result<void> run() {
    if (r_[kind::load][micro_] == none) return broken(p_, "nothing loads the tokens" + batch());
    for (uint32_t k = 0; k < r_.num_stages; ++k)
      if (here(k)) TROUPE_TRY(forward(k));
    if (p_.options().mode != mode::train) return {};
    for (uint32_t k = r_.num_stages; k-- > 0;)
      if (here(k)) TROUPE_TRY(backward(k));
    return {};
  }

 private:
  [[nodiscard]] std::string batch() const { return fmt::format(" of micro-batch {}", micro_); }
  [[nodiscard]] bool here(uint32_t stage) const {
    return pipeline_of_stage(l_, stage) == l_.options.mesh.pipeline_at(p_.rank);
  }
  [[nodiscard]] uint32_t segment(const std::vector<uint32_t>& of, uint32_t unit, uint32_t s) const {
    return of[r_.segment_of(micro_, unit, s)];
  }
  core::result<void> next(uint32_t id, const char* what, uint32_t unit) {
    if (id == none) return broken(p_, "nothing does the " + (what + p_.table().units[unit].name) + batch());
    TROUPE_TRY(in_order(w_, rank_, last_, id, "whose result it needs"));
    last_ = computed_ = id;
    return {};
  }

  /// True if the forward or backward of the segment must be followed by an exchange between ranks.
  [[nodiscard]] bool is_exchanged(uint32_t unit, uint32_t s, use way) const {
    const auto& what = exchange_of(l_, unit, s, way);
    const bool of_loss = what.op == core::exchange_op::gather;
    return what.ranks > 1 && !(of_loss && p_.options().mode == mode::generate);
  }
  [[nodiscard]] uint32_t exchange(uint32_t unit, uint32_t s, use way, bool again = false) const {
    return r_.exchange[r_.exchange_of(way, again, micro_, r_.segment_base[unit] + s)];
  }
  // Checks the collective that follows `computed_`, the latest computation of this micro-batch, if its result must be
  // exchanged: it moves the whole result in the slot that `computed_` fills. `last_` is then the exchange, for which
  // the next computation must wait.
  core::result<void> exchanges(uint32_t unit, uint32_t s, use way, bool again = false) {
    const uint32_t id = exchange(unit, s, way, again);
    waiting_ = none;
    const bool ends_recompute = again && s + 1 == p_.table().units[unit].segments.size();
    if (!is_exchanged(unit, s, way) || ends_recompute)
      return id == none ? core::result<void>{} : broken(p_, id, "exchanges what every rank of its group has");
    if (id == none) return broken(p_, computed_, "leaves a part of its result, which nothing exchanges");
    const auto& x = p_.instructions[id];
    const auto& what = exchange_of(l_, unit, s, way);
    const buffer& b = p_.buffers[x.slots.moved];
    if (p_.instructions[computed_].slots.leaving != x.slots.moved)
      return broken(p_, id, "does not exchange the slot that " + name(p_, computed_) + " fills");
    if (b.pool != pool::transfers || b.first != computed_ || b.subject != unit || b.bytes != what.slot_bytes())
      return broken(p_, computed_, "has a slot that is not its own: pool, size, unit or beginning differ");
    const bool at_once = again || way != use::forward || what.pieces == 1;
    if (x.moved_bytes != (at_once ? what.all_bytes() : what.bytes_of(0)))
      return broken(p_, id, "does not exchange all of its slot");
    TROUPE_TRY(in_order(w_, rank_, computed_, id, "which fills what it exchanges"));
    waiting_ = x.slots.moved;
    last_ = id;
    return at_once ? core::result<void>{} : pieces(unit, s, what);
  }
  // Checks a matrix product that is computed and exchanged in pieces of rows, of which `computed_` is the first: the
  // pieces are in order and in the same slot, and each is followed by its exchange, which waits for the exchange of the
  // piece before. A computation that waits for the last exchange (`last_`) therefore waits for all of them.
  core::result<void> pieces(uint32_t unit, uint32_t s, const group_exchange& what) {
    uint32_t before = computed_;
    for (uint32_t piece = 1; piece < what.pieces; ++piece) {
      const size_t place = r_.piece_of(micro_, r_.segment_base[unit] + s, piece);
      const uint32_t made = r_.multiply[place], moved = r_.piece_exchange[place];
      if (made == none) return broken(p_, before, "begins a product of which nothing does a later piece");
      if (moved == none) return broken(p_, made, "leaves a part of its result, which nothing exchanges");
      const auto &m = p_.instructions[made], &x = p_.instructions[moved];
      if (m.slots.leaving != waiting_ || x.slots.moved != waiting_)
        return broken(p_, m.slots.leaving != waiting_ ? made : moved, "names another slot than the pieces before it");
      if (m.slots.arrived != p_.instructions[computed_].slots.arrived)
        return broken(p_, made, "does not read the slot that " + name(p_, computed_) + " reads");
      if (x.moved_bytes != what.bytes_of(piece)) return broken(p_, moved, "does not exchange all of its rows");
      TROUPE_TRY(in_order(w_, rank_, before, made, "which does the piece before"));
      TROUPE_TRY(in_order(w_, rank_, made, moved, "which fills what it exchanges"));
      TROUPE_TRY(in_order(w_, rank_, last_, moved, "which exchanges the piece before"));
      before = made;
      last_ = moved;
    }
    return {};
  }

  core::result<void> forward(uint32_t stage) {
    last_ = r_[kind::load][micro_];
    waiting_ = none;
    const uint32_t first = first_computing(l_, stage), last = last_computing(l_, stage);
    for (uint32_t u = 0; u < l_.stage_of_unit.size(); ++u)
      for (uint32_t s = 0; l_.stage_of_unit[u] == stage && runs(l_, u) && s < p_.table().units[u].segments.size();
           ++s) {
        const uint32_t id = segment(r_[kind::forward], u, s);
        TROUPE_TRY(next(id, "forward of ", u));
        // If the output of the teacher's last unit is exchanged, the model's first unit must name the slot of that
        // exchange (`waiting_`) as its input.
        const bool ends_teacher = u == first_of_model(l_) && stage == 0 && waiting_ != none;
        const bool begins = (u == first || u == first_forward(l_, stage)) && s == 0 && !ends_teacher;
        if (begins) TROUPE_TRY(comes(id, use::forward, stage, stage > 0));
        const bool ends = u == last && s + 1 == p_.table().units[u].segments.size();
        TROUPE_TRY(leaves_slots_alone(id, begins, ends || is_exchanged(u, s, use::forward)));
        TROUPE_TRY(exchanges(u, s, use::forward));
      }
    return goes(use::forward, stage + 1, stage + 1 < r_.num_stages);
  }

  core::result<void> backward(uint32_t stage) {
    const uint32_t first = first_computing(l_, stage), last = last_computing(l_, stage);
    const bool returns = returns_gradient(l_, stage);
    last_ = computed_ =
        segment(r_[kind::forward], last, static_cast<uint32_t>(p_.table().units[last].segments.size()) - 1);
    waiting_ = none;
    bool begins = true;
    for (auto u = static_cast<uint32_t>(l_.stage_of_unit.size()); u-- > 0;) {
      if (l_.stage_of_unit[u] != stage || p_.table().units[u].segments.empty()) continue;
      if (!has_backward(l_, u)) {
        TROUPE_TRY(has_no_backward(u));
        continue;
      }
      // The model's first unit has the tokens as input: nothing in it is worth recomputing.
      if (p_.options().recomputes(u) && u != first_of_model(l_)) {
        TROUPE_TRY(recompute(u, u == first));
      }
      for (auto s = static_cast<uint32_t>(p_.table().units[u].segments.size()); s-- > 0;) {
        const uint32_t id = segment(r_[kind::backward], u, s);
        TROUPE_TRY(next(id, "backward of ", u));
        if (begins) TROUPE_TRY(comes(id, use::backward, stage + 1, stage + 1 < r_.num_stages));
        const bool ends = returns && u == first && s == 0;
        TROUPE_TRY(leaves_slots_alone(id, begins, ends || is_exchanged(u, s, use::backward)));
        TROUPE_TRY(split_backward(id, segment(r_[kind::backward_weight], u, s), begins));
        TROUPE_TRY(exchanges(u, s, use::backward));
        begins = false;
      }
    }
    if (!stage_has_backward(l_, stage)) return {};
    if (stage > 0 && has_backward(l_, first))
      TROUPE_TRY(is_kept(p_.instructions[segment(r_[kind::forward], first, 0)].slots.arrived));
    return goes(use::backward, stage, returns);
  }

  // Checks that unit `u`, which is of a teacher (the frozen model of distillation) or before every trained parameter,
  // has no recompute and no backward: its forward keeps nothing for one.
  [[nodiscard]] core::result<void> has_no_backward(uint32_t u) const {
    for (uint32_t s = 0; s < p_.table().units[u].segments.size(); ++s)
      for (const auto* of : {&r_[kind::recompute], &r_[kind::backward], &r_[kind::backward_weight]})
        if (const uint32_t id = segment(*of, u, s); id != none)
          return broken(
              p_, id,
              u < first_of_model(l_) ? "goes back through a teacher" : "goes back past the first trained parameter");
    return {};
  }

  // Checks the recompute of unit `u`. It may run while the exchange of the output gradient, which the unit's backward
  // reads afterwards, is still in progress.
  core::result<void> recompute(uint32_t u, bool begins) {
    const uint32_t exchanged = last_ == computed_ ? none : last_, slot = waiting_;
    last_ = computed_;
    waiting_ = none;
    const uint32_t parts =
        p_.options().repeat_exchanges ? static_cast<uint32_t>(p_.table().units[u].segments.size()) : 1;
    for (uint32_t s = 0; s < parts; ++s) {
      const uint32_t again = segment(r_[kind::recompute], u, s);
      TROUPE_TRY(next(again, "recompute of ", u));
      const uint32_t input = begins ? p_.instructions[segment(r_[kind::forward], u, 0)].slots.arrived : none;
      if (s == 0 && p_.instructions[again].slots.arrived != input)
        return broken(p_, again, "does not read the input that the forward has read");
      const bool hands_on = s + 1 < parts && is_exchanged(u, s, use::forward);
      TROUPE_TRY(leaves_slots_alone(again, s == 0, hands_on));
      if (parts == 1) continue;
      TROUPE_TRY(exchanges(u, s, use::forward, /*again=*/true));
    }
    waiting_ = slot;
    if (exchanged == none) return {};
    last_ = exchanged;
    const uint32_t reader =
        segment(r_[kind::backward], u, static_cast<uint32_t>(p_.table().units[u].segments.size()) - 1);
    if (reader == none) return {};  // backward(), the caller, reports the missing backward
    return in_order(w_, rank_, computed_, reader, "which goes back through what it has computed");
  }

  // Checks that a split backward `id` (its input part) is followed by `part`, the weight part of the same segment, and
  // that a whole backward has no weight part (`part` is none).
  core::result<void> split_backward(uint32_t id, uint32_t part, bool begins) {
    const auto& x = p_.instructions[id];
    if (x.use == use::backward)
      return part == none ? core::result<void>{} : broken(p_, part, "does again what " + name(p_, id) + " has done");
    if (part == none) return broken(p_, id, "has no weight part behind it");
    const auto& weights = p_.instructions[part];
    if (weights.slots.arrived != (begins ? x.slots.arrived : none) || weights.slots.leaving != none)
      return broken(p_, part, "names another slot of a transfer than the one that its input part has read");
    return in_order(w_, rank_, id, part, "which leaves it what it needs");
  }
  // Checks the slots that computation `id` names. If it does not begin its stage (`begins`), its input is the slot of
  // the exchange before it, or none. It has an output slot only if it ends its stage or its result is exchanged
  // (`ends`).
  [[nodiscard]] core::result<void> leaves_slots_alone(uint32_t id, bool begins, bool ends) const {
    const auto& x = p_.instructions[id];
    if (!begins && waiting_ != none && x.slots.arrived != waiting_)
      return broken(p_, id, "does not read the slot that an exchange has completed for it");
    if ((begins || x.slots.arrived == waiting_) && (ends || x.slots.leaving == none)) return {};
    return broken(p_, id, "names the slot of a transfer that it does not need");
  }
  // Checks that computation `id` reads the activation (or its gradient) that crosses the boundary before pipeline stage
  // `later`: from the slot that a receive fills or, if both stages are on this rank, from the slot that the other
  // stage's computation fills. If not `wanted`, `id` must name no input slot.
  core::result<void> comes(uint32_t id, use way, uint32_t later, bool wanted) {
    const uint32_t slot = p_.instructions[id].slots.arrived;
    if (!wanted) return slot == none ? core::result<void>{} : broken(p_, id, "names the slot of a transfer in vain");
    const uint32_t from = way == use::forward ? later - 1 : later;
    const uint32_t source = here(from) ? made_by(way, later) : r_.receive[r_.place_of(way, micro_, later)];
    const uint32_t done = here(from) ? completed(way, later) : source;
    if (source == none) return broken(p_, id, "reads what nothing brings");
    const auto& x = p_.instructions[source];
    if (slot == none || slot != (here(from) ? x.slots.leaving : x.slots.moved))
      return broken(p_, id, "does not read the slot that " + name(p_, source) + " fills");
    if (!here(from) && x.moved_bytes != p_.buffers[slot].bytes) return broken(p_, source, "does not fill its slot");
    TROUPE_TRY(slot_is_sound(source, slot, way, later));
    return in_order(w_, rank_, done, id, "which brings its input");
  }
  // Checks that `computed_` writes the activation (or its gradient) that crosses the boundary before pipeline stage
  // `later` to a slot, and that a send reads the slot unless both stages are on this rank. If not `wanted`, `computed_`
  // must name no output slot.
  core::result<void> goes(use way, uint32_t later, bool wanted) {
    const uint32_t id = computed_, slot = p_.instructions[id].slots.leaving;
    if (!wanted) return slot == none ? core::result<void>{} : broken(p_, id, "names the slot of a transfer in vain");
    const uint32_t to = way == use::forward ? later : later - 1;
    if (slot == none) return broken(p_, id, "has no slot for what another stage needs");
    TROUPE_TRY(slot_is_sound(id, slot, way, later));
    if (here(to)) return {};
    const uint32_t send = r_.send[r_.place_of(way, micro_, later)];
    if (send == none || p_.instructions[send].slots.moved != slot) return broken(p_, id, "makes what nothing sends");
    if (p_.instructions[send].moved_bytes != p_.buffers[slot].bytes)
      return broken(p_, send, "does not send all of its slot");
    return in_order(w_, rank_, last_, send, "which makes what it sends");
  }
  /// Returns the id of the instruction at whose end the slot holds the complete data that cross the boundary before
  /// stage `later`: the exchange that follows the computation or, if there is none, the computation.
  [[nodiscard]] uint32_t completed(use way, uint32_t later) const {
    const uint32_t unit = way == use::backward ? first_computing(l_, later) : last_computing(l_, later - 1);
    const auto last = static_cast<uint32_t>(p_.table().units[unit].segments.size()) - 1;
    const uint32_t id = exchange(unit, way == use::backward ? 0 : last, way);
    return id == none ? made_by(way, later) : id;
  }
  [[nodiscard]] uint32_t made_by(use way, uint32_t later) const {
    if (way == use::backward) return segment(r_[kind::backward], first_computing(l_, later), 0);
    const uint32_t unit = last_computing(l_, later - 1);
    return segment(r_[kind::forward], unit, static_cast<uint32_t>(p_.table().units[unit].segments.size()) - 1);
  }
  [[nodiscard]] core::result<void> slot_is_sound(uint32_t fills, uint32_t slot, use way, uint32_t later) const {
    const buffer& b = p_.buffers[slot];
    if (b.pool != pool::transfers || b.first != fills || b.bytes != transfer_bytes(l_, later, way) ||
        b.subject != p_.instructions[fills].subject)
      return broken(p_, fills, "has a slot that is not its own: pool, size, unit or beginning differ");
    return {};
  }
  // Checks that `slot`, the input of the stage's forward, is not freed before the end of the stage's last backward,
  // which reads it again.
  [[nodiscard]] core::result<void> is_kept(uint32_t slot) const {
    if (p_.buffers[slot].last == computed_) return {};
    return broken(p_, computed_, "does not end the life of its stage's input");
  }

  const world& w_;
  uint32_t rank_;
  const rank_plan& p_;
  const job_layout& l_;
  const roll& r_;
  uint32_t micro_, last_ = none;
  uint32_t computed_ = none;  // id of the latest computation; `last_` is that id or the id of its exchange
  uint32_t waiting_ = none;   // id of the slot that the exchange `last_` completes; none: `last_` is no exchange
};

/// Checks that the compute lane follows its schedule. Another order of instructions would sum gradients in another
/// order.
core::result<void> follows_its_schedule(const rank_plan& p) {
  const auto uses = uses_of(p);
  auto due = uses.begin();
  const auto of_one_unit = [](const instruction& a, const instruction& b) {
    return a.subject == b.subject && a.micro == b.micro;
  };
  const auto same = [](const unit_use& u, const instruction& x) {
    return u.unit == x.subject && u.micro == x.micro && u.kind == x.use && u.has(x.segment);
  };
  uint32_t segment = none;  // number of the segment that the previous instruction computes
  bool begun = false;       // true: some segment of the use at `due` has been seen
  uint32_t again = none;    // id of the previous instruction if it is a recompute, else none
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::compute)]) {
    const instruction& x = p.instructions[id];
    if (!computes(x)) continue;
    const bool goes_on = x.kind == kind::backward || x.kind == kind::recompute;
    if (again != none && (!goes_on || !of_one_unit(p.instructions[again], x)))
      return broken(p, again, "holds what it has computed while " + name(p, id) + " runs");
    again = x.kind == kind::recompute ? id : none;
    if (again != none) continue;
    if (x.kind == kind::multiply) {
      if (begun && same(*due, x) && x.segment == segment) continue;
      return broken(p, id, "does not follow the forward that has its product");
    }
    if (begun && (due == uses.end() || !same(*due, x))) ++due, begun = false;
    while (!begun && due != uses.end() && p.table().units[due->unit].segments.empty()) ++due;
    if (due == uses.end() || !same(*due, x))
      return broken(p, id,
                    "is at a place where its schedule has " +
                        (due == uses.end() ? "nothing more"
                                           : fmt::format("{}, micro {}", p.table().units[due->unit].name, due->micro)));
    if (begun && (x.use == use::forward ? x.segment <= segment : x.segment >= segment))
      return broken(p, id, "comes after a later segment of its unit");
    begun = true;
    segment = x.segment;
  }
  return {};
}

/// Checks, for each pipeline stage, two maxima that the plan states: the micro-batches whose activations are held at a
/// time (micros_in_flight), and those between the input part and the weight part of a split backward
/// (weights_in_flight).
core::result<void> in_flight(const rank_plan& p) {
  const job_layout& l = *p.layout;
  std::vector<uint32_t> live(num_stages(l), 0), most = live, waiting = live, most_waiting = live;
  const auto fits = [](uint32_t n, const std::vector<uint32_t>& said, uint32_t stage) {
    return stage >= said.size() || n <= said[stage];
  };
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::compute)]) {
    const instruction& x = p.instructions[id];
    if (!computes(x)) continue;
    const uint32_t stage = l.stage_of_unit[x.subject];
    if (x.subject != last_going_back(l, stage) || x.segment != 0) continue;
    if (x.kind == kind::recompute || x.kind == kind::multiply) continue;
    if (x.kind == kind::forward) most[stage] = std::max(most[stage], ++live[stage]);
    if (!fits(live[stage], p.micros_in_flight, stage))
      return broken(
          p, id,
          fmt::format(
              "begins before there is room for its activations: it says that at most {} micro-batches are in flight",
              p.micros_in_flight[stage]));
    if (x.kind == kind::backward || !stage_has_backward(l, stage)) --live[stage];
    if (x.kind == kind::backward_weight) --waiting[stage];
    if (x.kind != kind::backward || x.use != use::input) continue;
    most_waiting[stage] = std::max(most_waiting[stage], ++waiting[stage]);
    if (!fits(waiting[stage], p.weights_in_flight, stage))
      return broken(
          p, id,
          fmt::format(
              "leaves what there is no room for: it says that at most {} micro-batches wait for their weight parts",
              p.weights_in_flight[stage]));
  }
  if (most != p.micros_in_flight) return broken(p, "it says that more micro-batches are in flight than it has");
  if (most_waiting == p.weights_in_flight) return {};
  return broken(p, "it says that more micro-batches wait for their weight parts than do");
}

}  // namespace

core::result<void> compute(const world& w, uint32_t rank) {
  for (uint32_t m = 0; m < w.ranks[rank]->options().accumulation; ++m) TROUPE_TRY(micro_batch_order(w, rank, m).run());
  TROUPE_TRY(in_flight(*w.ranks[rank]));
  return follows_its_schedule(*w.ranks[rank]);
}

}  // namespace troupe::plan::rules
