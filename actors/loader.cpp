#include "actors/loader.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using loader_self = loader_actor::stateful_pointer<loader_state>;

std::shared_ptr<const data::batch> cut(const loader_setup& s, const next_batch& k) {
  if (s.cut) return s.cut(k);
  if (k.which == plan::plan_choice::evaluate) {
    const auto [set, index] = data::evaluated_place(*s.corpus, s.shape, k.step, k.rank);
    return std::make_shared<const data::batch>(data::make_validation_batch(*s.corpus, s.shape.rows, index, set));
  }
  return std::make_shared<const data::batch>(data::make_batch(*s.corpus, s.shape, k.step, k.micro, k.rank));
}

/// Cuts the micro-batch `k`. If its text cannot be read in training, stores its step in `first_lost_step`, unless an
/// earlier step is stored there.
std::shared_ptr<const data::batch> cut_noting(const loader_setup& s, const next_batch& k) {
  auto out = cut(s, k);
  if (out->failure && k.which != plan::plan_choice::evaluate && s.first_lost_step != nullptr)
    // no atomic minimum is needed, because only the loader writes this number
    s.first_lost_step->store(std::min(s.first_lost_step->load(), k.step));
  return out;
}

uint32_t readers_of(const loader_setup& s, uint32_t position) { return s.readers.empty() ? 1 : s.readers[position]; }

bool same(const next_batch& a, const next_batch& b) {
  return a.step == b.step && a.micro == b.micro && a.rank == b.rank && a.which == b.which;
}

// Cuts the micro-batch `k` and appends it to `ready`, after dropping the oldest one if `ready` is full. A dropped
// micro-batch is cut again if a rank requests it.
std::deque<loader_state::prepared>::iterator keep(loader_state& s, const next_batch& k) {
  if (s.ready.size() >= s.setup.prefetch_batches) s.ready.pop_front();
  s.ready.push_back({k, cut_noting(s.setup, k)});
  return std::prev(s.ready.end());
}

// Returns the micro-batch that a rank requests after `k`.
next_batch following(const loader_setup& s, next_batch k) {
  if (k.which == plan::plan_choice::evaluate || ++k.micro >= s.shape.micros_of(k.step)) {
    k.micro = 0;
    ++k.step;
  }
  return k;
}

}  // namespace

loader_actor::behavior_type loader_impl(loader_self self, loader_setup setup) {
  self->state.setup = std::move(setup);
  be_robust(self, [](auto*, const std::string&) {});
  return {
      [self](const next_batch& k) -> caf::result<batch_ready> {
        auto& s = self->state;
        auto it = std::find_if(s.ready.begin(), s.ready.end(), [&](const auto& p) { return same(p.key, k); });
        if (it == s.ready.end()) it = keep(s, k);
        const batch_ready answer{k.run, k.micro, it->batch};
        if (it->asked++ == 0) self->send(self, prepare_batch{following(s.setup, k)});
        if (it->asked == readers_of(s.setup, k.rank)) s.ready.erase(it);
        return answer;
      },
      [self](const prepare_batch& m) { keep(self->state, m.next); },
      [self](const move_data& m) {
        self->state.setup.shape.first_step = m.first_step;
        self->state.setup.shape.first_sample = m.first_sample;
        self->state.setup.shape.skipped = data::left_out(m.left_out);
        self->state.ready.clear();
      },
  };
}

}  // namespace troupe::actors
