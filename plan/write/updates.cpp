// Owns the part of a step that follows the vote: whole-parameter values that optimizers need, updates, publishing.
#include "plan/write/write.hpp"

#include <algorithm>

#include "plan/layout/matrices.hpp"
#include "plan/layout/update_memory.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {
namespace {

// Number of slots for whole matrices: one matrix set is orthogonalised while another one is transferred.
constexpr uint32_t matrix_sets_in_flight = 2;

/// Returns the indices of the sets in `all` that this rank holds.
std::vector<uint32_t> own_sets(const rank_plan& p, const std::vector<parameter_set>& all) {
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < all.size(); ++k)
    if (all[k].pipeline == p.options().mesh.pipeline_at(p.rank)) out.push_back(k);
  return out;
}

class update_writer {
 public:
  update_writer(draft& d, const rank_plan& p)
      : d_(d),
        p_(p),
        sets_(own_sets(p, p.layout->matrix_sets)),
        first_set_(static_cast<uint32_t>(p.sub_groups.size() - sets_.size())),
        updates_(p.sub_groups.size(), none),
        prepared_(p.sub_groups.size(), none),
        orthogonal_(sets_.size(), none) {}

  // Writes `prepare` for every sub-group whose optimizer needs more than elements, then `update` for every sub-group.
  void run() {
    const auto matrix_sets = static_cast<uint32_t>(sets_.size());
    for (uint32_t g = 0; g < first_set_; ++g)
      if (p_.sub_groups[g].need == update_need::parameter_norms) prepare(g);
    if (measures_norms(*p_.layout)) measure();
    // Sub-groups that need only elements are updated while the first matrices are transferred.
    for (uint32_t k = 0; k < std::min(matrix_sets, matrix_sets_in_flight); ++k) collect(k);
    for (uint32_t g = 0; g < first_set_; ++g) update(g);
    // The next matrix set is orthogonalised while `spread` sends the previous one back.
    if (matrix_sets > 0) orthogonalise(0);
    for (uint32_t k = 0; k < matrix_sets; ++k) {
      if (k + 1 < matrix_sets) orthogonalise(k + 1);
      update(first_set_ + k);
      if (k + matrix_sets_in_flight < matrix_sets) collect(k + matrix_sets_in_flight);
    }
    publish();
  }

 private:
  [[nodiscard]] const parameter_set& set(uint32_t k) const { return p_.layout->matrix_sets[sets_[k]]; }
  handle append(kind k, uint32_t subject) {
    const handle x = d_.append(k, subject, p_.options().accumulation - 1);
    d_.at(x).guard = guard::not_skipped;
    d_.depend(x, d_.vote);
    return x;
  }
  void prepare(uint32_t g) {
    const handle x = prepared_[g] = append(kind::prepare, g);
    d_.at(x).moved_bytes = prepared_bytes(*p_.layout, p_.sub_groups[g]);
    read_gradients(d_, p_, g, x);
  }
  void measure() {
    measure_ = append(kind::measure, none);
    d_.at(measure_).moved_bytes = measured_elements(*p_.layout) * sizeof(double);
    for (const handle before : prepared_) d_.depend(measure_, before);
  }
  void collect(uint32_t k) {
    prepare(first_set_ + k);
    handle& made = prepared_[first_set_ + k];
    const uint64_t element_bytes = core::size_of(p_.options().master());
    const uint32_t slot =
        d_.open(made, pool::directions, matrix_slot_elements(*p_.layout, set(k)) * element_bytes, sets_[k]);
    d_.at(made).slots.matrices = slot;
    if (!collects_matrices(*p_.layout)) return;
    const handle x = append(kind::collect, sets_[k]);
    d_.at(x).moved_bytes = matrix_elements(*p_.layout, set(k)) * element_bytes;
    d_.at(x).slots.matrices = slot;
    d_.depend(x, made);
    made = x;
  }
  void orthogonalise(uint32_t k) {
    const handle whole = prepared_[first_set_ + k];
    const uint32_t slot = d_.at(whole).slots.matrices;
    const handle x = append(kind::orthogonalise, sets_[k]);
    for (const auto& member : set(k).parameters)
      if (makes_orthogonal(*p_.layout, p_.rank, member.parameter))
        d_.at(x).flops += orthogonalise_flops(whole_shape(*p_.layout, member.parameter));
    d_.at(x).slots.matrices = slot;
    d_.depend(x, whole);
    const handle back = orthogonal_[k] = append(kind::spread, sets_[k]);
    d_.at(back).moved_bytes = matrix_elements(*p_.layout, set(k)) * core::size_of(p_.options().master());
    d_.at(back).slots.matrices = slot;
    d_.depend(back, x);
  }
  void update(uint32_t g) {
    const auto& group = p_.sub_groups[g];
    const handle x = updates_[g] = append(kind::update, g);
    d_.at(x).moved_bytes = updated_bytes(*p_.layout, group);
    if (group.need == update_need::parameter_norms) d_.depend(x, measures_norms(*p_.layout) ? measure_ : prepared_[g]);
    if (group.need == update_need::whole_matrix) {
      const handle back = orthogonal_[g - first_set_];
      const uint32_t slot = d_.at(back).slots.matrices;
      d_.depend(x, back);
      d_.at(x).slots.matrices = slot;
      d_.close(slot, x);
    }
    read_gradients(d_, p_, g, x);
  }

  void publish() {
    for (const uint32_t k : own_sets(p_, p_.layout->publish_sets)) {
      const handle x = append(kind::publish, k);
      d_.at(x).moved_bytes = p_.layout->publish_sets[k].numel * core::size_of(p_.options().types.parameter);
      const auto& members = p_.layout->publish_sets[k].parameters;
      for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
        if (std::ranges::any_of(p_.sub_groups[g].pieces, [&](const owned_piece& piece) {
              return piece.parameter >= members.front().parameter && piece.parameter <= members.back().parameter;
            }))
          d_.depend(x, updates_[g]);
    }
  }

  draft& d_;
  const rank_plan& p_;
  std::vector<uint32_t> sets_;  // indices of the matrix sets of this rank's pipeline coordinate
  uint32_t first_set_;          // index of the first sub-group of a matrix set; all later sub-groups are of matrix
                                // sets, too
  handle measure_ = none;
  std::vector<handle> updates_, prepared_, orthogonal_;  // handles at [sub-group], [sub-group], [matrix set]
};

}  // namespace

void write_updates(draft& d, const rank_plan& p) { update_writer(d, p).run(); }

}  // namespace troupe::plan
