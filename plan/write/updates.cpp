#include "plan/write/updates.hpp"

#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

// Slots of whole matrices: one is worked on while another is on its way.
constexpr uint32_t matrix_sets_in_flight = 2;

class update_writer {
 public:
  update_writer(plan_writer& writer, uint32_t vote, state_swaps* swaps)
      : writer_(writer), p_(writer.plan()), swaps_(swaps), vote_(vote) {}

  // After the vote: every sub-group is prepared where its optimizer needs more than elements, then updated.
  void run() {
    const auto groups = static_cast<uint32_t>(p_.sub_groups.size());
    const auto matrix_sets = static_cast<uint32_t>(p_.layout->matrix_sets.size());
    const uint32_t first_set = groups - matrix_sets;  // sub-groups of matrix sets stand last
    updates_.assign(groups, none);
    for (const auto& x : p_.instructions)
      if (x.kind == kind::update) updates_[x.subject] = x.id;  // before the vote: passes/speculation.cpp
    prepared_.assign(groups, none);
    orthogonal_.assign(matrix_sets, none);
    if (swaps_ != nullptr) return run_swapped();
    for (uint32_t g = 0; g < first_set; ++g)
      if (p_.sub_groups[g].need == update_need::parameter_norms) prepare(g);
    if (p_.layout->measured_elements() > 0 && !p_.options().updates_all()) measure();
    // While the first matrices are on their way, elements are updated.
    for (uint32_t k = 0; k < std::min(matrix_sets, matrix_sets_in_flight); ++k) collect(first_set, k);
    for (uint32_t g = 0; g < first_set; ++g) update(g);
    // And while one set is on its way back, the next is made orthogonal.
    if (matrix_sets > 0) orthogonalise(first_set, 0);
    for (uint32_t k = 0; k < matrix_sets; ++k) {
      if (k + 1 < matrix_sets) orthogonalise(first_set, k + 1);
      update(first_set + k);
      if (k + matrix_sets_in_flight < matrix_sets) collect(first_set, k + matrix_sets_in_flight);
    }
    publish();
  }

 private:
  // Optimizers that see elements alone.
  void run_swapped() {
    for (uint32_t g : swaps_->order()) {
      if (p_.speculates(g)) continue;
      swaps_->before_update(g, vote_);
      update(g);
      swaps_->after_update(g, updates_[g], vote_);
    }
    publish();
  }
  instruction& emit_guarded(kind k, uint32_t subject) {
    auto& x = writer_.emit(k, subject, p_.options().accumulation - 1);
    x.guard = guard::not_skipped;
    writer_.depend(x, vote_);
    return x;
  }
  void prepare(uint32_t g) {
    auto& x = emit_guarded(kind::prepare, g);
    x.bytes = p_.sub_groups[g].elements * 4 * core::size_of(p_.options().master());
    writer_.read_gradients(x, g);
    prepared_[g] = x.id;
  }
  void measure() {
    auto& x = emit_guarded(kind::measure, none);
    x.bytes = p_.layout->measured_elements() * sizeof(double);
    for (uint32_t before : prepared_) writer_.depend(x, before);
    measure_ = x.id;
  }
  void collect(uint32_t first_set, uint32_t k) {
    prepare(first_set + k);
    const uint64_t bytes = p_.layout->matrix_sets[k].elements * core::size_of(p_.options().master());
    auto& before = p_.instructions[prepared_[first_set + k]];
    const uint32_t slot = before.buffer = writer_.open_buffer(before, pool::directions, bytes, k);
    if (p_.options().updates_all()) return;
    auto& x = emit_guarded(kind::collect, k);
    x.bytes = p_.layout->matrix_sets[k].numel * core::size_of(p_.options().master());
    x.buffer = slot;
    writer_.depend(x, prepared_[first_set + k]);
    prepared_[first_set + k] = x.id;
  }
  void orthogonalise(uint32_t first_set, uint32_t k) {
    const uint32_t slot = p_.instructions[prepared_[first_set + k]].buffer;
    auto& x = emit_guarded(kind::orthogonalise, k);
    for (const auto& member : p_.layout->matrix_sets[k].parameters)
      if (p_.layout->matrix_owner[member.parameter] == p_.rank) x.flops += orthogonalise_flops(member.parameter);
    x.buffer = slot;
    writer_.depend(x, prepared_[first_set + k]);
    const uint32_t made = x.id;
    auto& back = emit_guarded(kind::spread, k);
    back.bytes = p_.layout->matrix_sets[k].numel * core::size_of(p_.options().master());
    back.buffer = slot;
    writer_.depend(back, made);
    orthogonal_[k] = back.id;
  }
  // Newton-Schulz: per iteration three products with the smaller side squared.
  [[nodiscard]] double orthogonalise_flops(uint32_t q) const {
    const auto& shape = p_.table().parameters[q].shape;
    const double rows = double(shape.front()), columns = double(p_.table().parameters[q].numel()) / rows;
    const double small = std::min(rows, columns), large = std::max(rows, columns);
    return 5 * (4 * small * small * large + 2 * small * small * small);
  }
  void update(uint32_t g) {
    if (p_.speculates(g)) return;
    const auto& group = p_.sub_groups[g];
    auto& x = emit_guarded(kind::update, g);
    x.bytes = updated_bytes(*p_.layout, group);
    updates_[g] = x.id;
    if (group.need == update_need::parameter_norms)
      writer_.depend(x, p_.options().updates_all() ? prepared_[g] : measure_);
    if (group.need == update_need::whole_matrix) {
      writer_.depend(x, orthogonal_[group.matrices]);
      x.buffer = p_.instructions[orthogonal_[group.matrices]].buffer;
      writer_.close_buffer(x.buffer, x.id);
    }
    writer_.read_gradients(x, g);
  }

  void publish() {
    uint32_t last_undo = none;
    for (const auto& x : p_.instructions)
      if (x.kind == kind::undo) last_undo = x.id;
    for (uint32_t k = 0; k < p_.layout->publish_sets.size(); ++k) {
      auto& x = writer_.emit(kind::publish, k, p_.options().accumulation - 1);
      x.guard = guard::not_skipped;
      x.bytes = p_.layout->publish_sets[k].numel * core::size_of(p_.options().parameter);
      writer_.depend(x, vote_);
      writer_.depend(x, last_undo);  // fails where a gradient is not finite: then nothing is published
      const auto& members = p_.layout->publish_sets[k].parameters;
      for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
        for (const auto& piece : p_.sub_groups[g].pieces)
          if (piece.parameter >= members.front().parameter && piece.parameter <= members.back().parameter)
            writer_.depend(x, updates_[g]);
    }
  }

  plan_writer& writer_;
  rank_plan& p_;
  state_swaps* swaps_;  // null where everything stays in memory
  uint32_t vote_, measure_ = none;
  std::vector<uint32_t> updates_, prepared_, orthogonal_;  // [sub-group], [sub-group], [matrix set]
};

}  // namespace

void write_updates(plan_writer& writer, uint32_t vote, state_swaps* swaps) { update_writer(writer, vote, swaps).run(); }

}  // namespace troupe::plan
