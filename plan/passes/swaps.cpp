#include "plan/passes/swaps.hpp"

#include "core/math.hpp"

namespace troupe::plan {

void shard_reads::expect(uint32_t set, uint32_t micro, use why) { wanted_.push_back({set, micro, why}); }

void shard_reads::read_ahead() {
  auto& p = writer_.plan();
  const uint32_t slots = std::max(1U, p.options().tiers.parameter_slots);
  for (; read_ < wanted_.size() && in_flight_ < slots; ++read_) {
    auto& w = wanted_[read_];
    if (!p.layout->reads_shards(w.set)) continue;
    const uint64_t bytes =
        window_elements(shard_runs(p, w.set)) * core::size_of(type_of(*p.layout, weights_part(*p.layout)));
    if (bytes == 0) continue;
    auto& x = writer_.emit(kind::swap_in, w.set, w.micro);
    x.what = swapped::shards;
    x.use = w.why;
    x.bytes = bytes;
    w.slot = x.staged = writer_.open_buffer(x, pool::shards, bytes, w.set);
    w.read = x.id;
    ++in_flight_;
  }
}

void shard_reads::feed(uint32_t gather) {
  const auto& w = wanted_[fed_++];
  if (w.read != none) {
    auto& x = writer_.at(gather);
    plan_writer::depend(x, w.read);
    x.staged = w.slot;
    writer_.close_buffer(w.slot, gather);
    --in_flight_;
  }
  read_ahead();
}

uint64_t gradient_writes::window_bytes(uint32_t bucket) const {
  const auto& p = writer_.plan();
  const auto& begins = p.offsets.bucket_begin;
  return (begins[bucket + 1] - begins[bucket]) * core::size_of(p.options().accumulation_type);
}

void gradient_writes::make_room() {
  const size_t slots = std::max(1U, writer_.plan().options().tiers.gradient_slots);
  for (; leaving_.size() >= slots; leaving_.pop_front())
    writer_.close_buffer(leaving_.front().first, leaving_.front().second);
}

uint32_t gradient_writes::read_back(uint32_t bucket, uint32_t micro) {
  if (written_[bucket] == none) return none;
  make_room();
  auto& x = writer_.emit(kind::swap_in, bucket, micro);
  x.what = swapped::gradients;
  x.use = use::backward;
  x.bytes = window_bytes(bucket);
  slot_[bucket] = x.staged = writer_.open_buffer(x, pool::reduced, x.bytes, bucket);
  plan_writer::depend(x, written_[bucket]);
  return x.id;
}

void gradient_writes::give_window(uint32_t reduce, uint32_t read) {
  auto& x = writer_.at(reduce);
  const uint64_t bytes = window_bytes(x.subject);
  if (bytes == 0) return;  // all of the bucket belongs to others
  if (read == none) {
    make_room();
    slot_[x.subject] = writer_.open_buffer(x, pool::reduced, bytes, x.subject);
  }
  plan_writer::depend(x, read);
  x.staged = slot_[x.subject];
}

void gradient_writes::write(uint32_t bucket, uint32_t micro, uint32_t last) {
  if (slot_[bucket] == none) return;
  auto& x = writer_.emit(kind::swap_out, bucket, micro);
  x.what = swapped::gradients;
  x.use = use::backward;
  x.bytes = window_bytes(bucket);
  x.staged = slot_[bucket];
  plan_writer::depend(x, last);
  writer_.plan().buffers[x.staged].last = written_[bucket] = x.id;
  leaving_.emplace_back(x.staged, x.id);
}

state_swaps::state_swaps(plan_writer& writer, const gradient_writes& gradients)
    : writer_(writer), gradients_(gradients), slot_(writer.plan().sub_groups.size(), none), read_(slot_) {
  for (uint32_t g = 0; g < slot_.size(); ++g)
    if (is_swapped(g)) groups_.push_back(g);
  // The next step begins with the slices of the first units, which stand last in the layout: they are written first.
  // What is updated before the vote comes in the order in which backward is done with it.
  const auto& p = writer.plan();
  const bool ahead = !groups_.empty() && p.speculates(groups_.front());
  if (p.options().tiers.parameters == tier::nvme && !ahead) std::reverse(groups_.begin(), groups_.end());
}

bool state_swaps::is_swapped(uint32_t group) const {
  const auto& blocks = writer_.plan().blocks;
  return !blocks.empty() && blocks[group].swapped != 0;
}

std::vector<uint32_t> state_swaps::order() const {
  std::vector<uint32_t> out;
  for (uint32_t g = 0; g < slot_.size(); ++g)
    if (!is_swapped(g)) out.push_back(g);
  out.insert(out.end(), groups_.begin(), groups_.end());
  return out;
}

void state_swaps::read(uint32_t g, uint32_t vote) {
  auto& p = writer_.plan();
  const auto& t = p.options().tiers;
  const swap_block& b = p.blocks[g];
  const bool gradients = b.holds(state_part::gradient);
  const uint64_t bytes = states_read(*p.layout, b).bytes + part_offset(*p.layout, b, state_part::master);
  if (bytes == 0) return;  // its window is the update's own
  auto& x = writer_.emit(kind::swap_in, g, p.options().accumulation - 1);
  x.what = swapped::states;
  x.bytes = bytes;
  if (vote != none) {
    x.guard = guard::not_skipped;
    plan_writer::depend(x, vote);
  }
  if (!t.read_ahead) plan_writer::depend(x, last_update_);
  slot_[g] = x.staged = writer_.open_buffer(x, pool::states, extent_bytes(*p.layout, b), g);
  if (gradients) plan_writer::depend(x, gradients_.written(p.layout->bucket_of[b.pieces.front().parameter]));
  read_[g] = x.id;
}

void state_swaps::begin(uint64_t done, uint64_t all) {
  const auto& t = writer_.plan().options().tiers;
  const uint64_t windows = t.read_ahead ? std::max(1U, t.state_slots) : 1;
  const auto until = std::min<size_t>(core::div_up(windows * done, all), groups_.size());
  for (; next_ < until; ++next_) read(groups_[next_], none);
}

void state_swaps::before_update(uint32_t group, uint32_t vote) {
  if (!is_swapped(group) || next_ >= groups_.size() || groups_[next_] != group) return;
  ++next_;
  read(group, vote);
}

void state_swaps::after_update(uint32_t g, uint32_t update, uint32_t vote) {
  if (!is_swapped(g)) return;
  auto& p = writer_.plan();
  const auto& t = p.options().tiers;
  const swap_block& b = p.blocks[g];
  auto& x = writer_.at(update);
  if (slot_[g] == none) slot_[g] = writer_.open_buffer(x, pool::states, extent_bytes(*p.layout, b), g);
  x.staged = slot_[g];
  plan_writer::depend(x, read_[g]);
  if (!t.write_behind) plan_writer::depend(x, last_write_);
  last_update_ = update;
  uint32_t last = update;
  if (const uint64_t bytes = states_written(*p.layout, b).bytes; bytes > 0) {
    auto& y = writer_.emit(kind::swap_out, g, p.options().accumulation - 1);
    y.what = swapped::states;
    y.guard = vote == none ? guard::always : guard::not_skipped;
    y.bytes = bytes;
    y.staged = slot_[g];
    plan_writer::depend(y, update);
    last = last_write_ = y.id;
  }
  writer_.close_buffer(slot_[g], last);
  if (t.read_ahead && next_ < groups_.size()) read(groups_[next_++], vote);
}

}  // namespace troupe::plan
