#include "actors/writer_executor.hpp"

#include "plan/saves.hpp"

namespace troupe::actors {

std::span<const std::byte> bytes_of(const rank_memory& memory, const plan::step_plan& p, const plan::saved_piece& x) {
  const uint64_t bytes = x.range.count * core::size_of(plan::saved_type(p, x.parameter));
  if (x.part == plan::saved_frozen) return {memory.parameter(x.parameter, x.range.first), bytes};
  const plan::owned_piece owned{
      x.parameter, x.range,
      p.state_offset[p.rank][x.parameter] + x.range.first - p.state_slice(x.parameter, p.rank).first};
  if (x.part == plan::saved_weights) return {memory.master(owned), bytes};
  return {memory.moment(owned, x.part - plan::saved_moment), bytes};
}

void writer_executor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  if (context_->order.save == nullptr) return;
  end_part();
  occupied_.clear();
  part_ = std::make_unique<save_job::part>(context_->order.save, context_->plan().rank);
  if (context_->plan().snapshots.empty()) all_handed_over();  // a model so small that others write all of it
}

void writer_executor::copy(const plan::instruction& x) {
  const auto& p = context_->plan();
  const uint64_t slot = p.buffers[x.buffer].offset;
  if (const auto last = occupied_.find(slot); last != occupied_.end()) part_->settle(last->second);
  occupied_[slot] = x.subject;
  for (const auto& piece : p.snapshots[x.subject].pieces)
    part_->copy(x.subject, bytes_of(*memory_, p, piece), memory_->staging() + slot + piece.offset);
}

core::result<progress> writer_executor::start(const plan::instruction& x) {
  if (part_ == nullptr) return core::fail(core::error_kind::bug, "a plan that saves was ordered without a save");
  const auto& p = context_->plan();
  if (part_->takes(x.subject)) {
    if (x.kind == plan::kind::snapshot)
      copy(x);
    else
      part_->write(x.subject, {memory_->staging() + p.buffers[x.buffer].offset, p.snapshots[x.subject].bytes});
  }
  if (x.id == p.lanes[static_cast<size_t>(plan::lane::writer)].back()) all_handed_over();
  return progress::done;
}

// The rest is to be done once the lane has told of its last instruction.
void writer_executor::all_handed_over() {
  all_handed_over_ = true;
  timer_(std::chrono::nanoseconds(0), 0);
}

void writer_executor::end_part() {
  if (part_ != nullptr && all_handed_over_) part_->end();
  part_.reset();
  all_handed_over_ = false;
}

core::result<std::optional<uint32_t>> writer_executor::advance(uint64_t) {
  end_part();
  return std::nullopt;
}

// What was copied before the step that fails is whole and good.
void writer_executor::abort(const core::error&) { end_part(); }
writer_executor::~writer_executor() { end_part(); }

}  // namespace troupe::actors
